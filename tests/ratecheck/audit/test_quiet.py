"""Warnings of what users wrote are set aside, once, and are there again afterwards."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

from ratecheck._claims.space import quiet


def warn() -> float:
    """A warning of Python's and one of NumPy's, which are errors in tests."""
    warnings.warn("of a user", stacklevel=1)
    return float(np.log(np.zeros(1))[0])


def is_quiet() -> bool:
    """Whether :func:`warn` says nothing."""
    try:
        return warn() == -np.inf
    except (UserWarning, RuntimeWarning):
        return False


def test_blocks_within_each_other_are_quiet_up_to_the_end_of_the_first() -> None:
    filters, errors = list(warnings.filters), np.geterr()
    assert not is_quiet()
    with quiet():
        with quiet():
            assert is_quiet()
        assert is_quiet()
        with pytest.raises(ZeroDivisionError), quiet():
            raise ZeroDivisionError
        assert is_quiet()
    assert not is_quiet()
    assert list(warnings.filters) == filters
    assert np.geterr() == errors
    assert quiet()(is_quiet)()
    with pytest.raises(ZeroDivisionError), quiet():
        raise ZeroDivisionError
    assert not is_quiet()


def test_what_is_asked_for_between_two_blocks_stays() -> None:
    with quiet(), np.errstate(divide="raise"), quiet(), pytest.raises(FloatingPointError):
        warn()
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("error")
        with quiet(), pytest.raises(UserWarning, match="of a user"):
            warn()


def test_another_thread_has_a_block_of_its_own() -> None:
    found = list[dict[str, str]]()

    def other() -> None:
        found.append(dict(np.geterr()))
        with quiet():
            found.append(dict(np.geterr()))

    with quiet():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert is_quiet()
    outside, inside = found  # as settings of NumPy are those of a thread
    assert set(inside.values()) == {"ignore"}
    assert outside != inside

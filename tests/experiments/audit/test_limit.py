"""A time limit is kept also where Python swallows what is raised."""

from __future__ import annotations

import time
import weakref
from typing import Any

import pytest

from experiments.audit._limit import TimeLimit, time_limit


class _Thing:
    """Something to refer to."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_limit_that_strikes_in_a_callback_strikes_again() -> None:
    struck: list[float] = []

    def busy(_: Any) -> None:
        end = time.monotonic() + 5.0
        try:
            while time.monotonic() < end:
                pass
        except TimeLimit:
            struck.append(time.monotonic())
            raise

    def endless() -> None:
        thing = _Thing()
        references.append(weakref.ref(thing, busy))
        del thing
        assert struck  # and Python went on
        while True:
            pass

    references: list[Any] = []
    with pytest.raises(TimeLimit, match=r"no answer within 0\.1 s"), time_limit(0.1):
        endless()
    assert references[0]() is None

"""NumPy's functions are put back, whatever happens meanwhile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from linsys.linalg import numpys_extremes
from linsys.linalg.degree_arithmetic import rational_arithmetic


class Late(BaseException):
    """What a limit of time raises, anywhere."""


def test_a_limit_that_strikes_while_functions_are_put_back_leaves_none_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, put, calls = (np.maximum, np.minimum, np.clip), numpys_extremes._put, [0]

    def interrupted(functions: list[tuple[Any, str, Any]]) -> None:
        calls[0] += 1
        if calls[0] == 2:  # the second puts them back
            put(functions[:3])
            raise Late
        put(functions)

    monkeypatch.setattr(numpys_extremes, "_put", interrupted)
    with pytest.raises(Late), rational_arithmetic():
        pass
    assert calls == [3]
    assert (np.maximum, np.minimum, np.clip) == before

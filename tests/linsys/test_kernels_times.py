"""The grid of recorded times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from linsys import InputError
from linsys.kernels import geometric_times


@given(
    st.integers(1, 10**12),
    st.integers(1, 30),
    st.lists(st.integers(0, 10**12), max_size=5),
)
def test_the_grid_holds_its_ends_and_what_is_asked(
    horizon: int, per_decade: int, also: list[int]
) -> None:
    times = geometric_times(horizon, per_decade=per_decade, also=also)
    assert (np.diff(times) > 0).all()
    assert {0, 1, horizon, *also} <= set(times.tolist())
    # No gap within the grid is wider than its ratio, up to rounding to whole numbers.
    own = times[(times >= 1) & (times <= horizon)]
    ratio = 10 ** (1 / per_decade)
    assert (own[1:] <= (own[:-1] + 0.5) * ratio * (1 + 1e-12) + 0.5).all()
    # The mutant: half as many times per decade leave wider gaps somewhere on a long grid.
    if horizon > 10**6 and per_decade > 1 and not also:
        sparse = geometric_times(horizon, per_decade=per_decade // 2)
        sparse = sparse[sparse >= 1]
        assert (sparse[1:] > (sparse[:-1] + 0.5) * ratio + 0.5).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"horizon": 0}, "`horizon` must be a whole number of at least 1; found 0"),
        ({"horizon": 1e3}, "`horizon` must be a whole number of at least 1; found 1000.0"),
        ({"horizon": 9, "per_decade": 0}, "`per_decade` must be a whole number of at least 1"),
        ({"horizon": 9, "also": [-1]}, "`also` must be a whole number of at least 0; found -1"),
    ],
)
def test_bad_grids_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        geometric_times(**arguments)

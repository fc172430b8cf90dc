"""Tables: long form and grid are inverse to each other, whatever the order of the rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import ratecheck as rc
from linsys import InputError


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    seed=st.integers(0, 10**6),
)
def test_grid_undoes_long_table_in_any_order_of_rows(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    array = rng.normal(size=sizes)
    axes = {f"axis{k}": np.sort(rng.choice(100, size, False)) for k, size in enumerate(sizes)}
    columns = rc.long_table(axes, value=array)
    shuffled = rng.permutation(array.size)
    table = rc.Table({name: column[shuffled] for name, column in columns.items()})
    np.testing.assert_array_equal(table.grid("value", *axes), array)
    order = rng.permutation(len(sizes))
    np.testing.assert_array_equal(
        table.grid("value", *(f"axis{k}" for k in order)), array.transpose(order)
    )


def test_long_table_broadcasts_values_and_text() -> None:
    columns = rc.long_table({"r": [0, 1], "t": [1, 2, 4]}, t_squared=[1, 4, 16], method="AffPCL")
    assert columns["t_squared"].tolist() == [1, 4, 16, 1, 4, 16]
    assert columns["method"].tolist() == ["AffPCL"] * 6


def test_where_selects_rows() -> None:
    table = rc.Table({"a": [1, 1, 2], "b": ["x", "y", "x"], "c": [0.1, 0.2, 0.3]})
    assert table.where(a=1, b="y")["c"].tolist() == [0.2]
    assert table.where(b="x").unique("a").tolist() == [1, 2]


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda t: t["mes"], "column must be one of"),
        (lambda t: t.where(a=7), "must exist; found none"),
        (lambda t: t.grid("c", "a"), "once; found 3 rows in 2 of 2 cells"),
        (lambda t: t.grid("c", "a", "b"), "once; found 3 rows in 3 of 4 cells"),
        (lambda t: rc.Table({"a": [1, 2], "b": [1]}), "equal length"),
        (lambda t: rc.long_table({"a": [1, 1]}, c=[1, 2]), "distinct values"),
        (lambda t: rc.long_table({"a": [1, 2]}, c=[1, 2, 3]), "must broadcast to"),
        (lambda t: rc.long_table({"a": [1, 2]}, a=[1, 2]), "both an axis and a value"),
    ],
)
def test_misuse_is_named(action: object, message: str) -> None:
    table = rc.Table({"a": [1, 1, 2], "b": ["x", "y", "x"], "c": [0.1, 0.2, 0.3]})
    with pytest.raises(InputError, match=message):
        action(table)  # type: ignore[operator]

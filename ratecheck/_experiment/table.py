"""Columns of equal length, and what an analysis asks of them: which rows, values, grid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linsys.validate import InputError

#: A column of a table, shape (rows,): numbers or texts.
Column = NDArray[Any]


def long_table(axes: Mapping[str, ArrayLike], /, **values: ArrayLike) -> dict[str, Column]:
    """Turn arrays over named axes into columns, one row per cell.

    ``axes`` maps names to the 1-D values of each axis, in the order of the arrays' dimensions;
    every array in ``values`` must broadcast to the shape (len(axis 0), len(axis 1), ...).

    Raises:
        InputError: axes that are not 1-D, or values of another shape.

    >>> long_table({"replicate": [0, 1], "t": [1, 10]}, mse=[[4.0, 2.0], [3.0, 1.0]])["t"].tolist()
    [1, 10, 1, 10]
    """
    points = {name: np.atleast_1d(np.asarray(axis)) for name, axis in axes.items()}
    for name, axis in points.items():
        if axis.ndim != 1 or axis.size == 0 or np.unique(axis).size != axis.size:
            raise InputError(
                f"axis `{name}` must be a list of distinct values; found shape {axis.shape}"
            )
    shape = tuple(axis.size for axis in points.values())
    meshes = np.meshgrid(*points.values(), indexing="ij")
    columns = {name: mesh.ravel() for name, mesh in zip(points, meshes, strict=True)}
    for name, value in values.items():
        if name in columns:
            raise InputError(f"`{name}` must not be both an axis and a value")
        array = np.asarray(value)
        try:
            columns[name] = np.broadcast_to(array, shape).ravel()
        except ValueError:
            raise InputError(
                f"`{name}` must broadcast to {shape} of axes {tuple(points)}; found {array.shape}"
            ) from None
    return columns


class Table(Mapping[str, Column]):
    """Read-only columns of equal length; ``table["mse"]`` is the column, shape (rows,).

    Raises:
        InputError: columns of unequal length; ``where`` and ``grid`` also without such rows.

    >>> table = Table(long_table({"replicate": [0, 1], "t": [1, 10]}, mse=[[4.0, 2.0], [3.0, 1.0]]))
    >>> table.where(t=10)["mse"].tolist()
    [2.0, 1.0]
    >>> table.grid("mse", "t", "replicate").tolist()
    [[4.0, 3.0], [2.0, 1.0]]
    """

    def __init__(self, columns: Mapping[str, ArrayLike]) -> None:
        arrays = {name: np.asarray(column) for name, column in columns.items()}
        shapes = {name: array.shape for name, array in arrays.items()}
        if len(set(shapes.values())) > 1 or any(len(shape) != 1 for shape in shapes.values()):
            raise InputError(f"columns must be 1-D and of equal length; found {shapes}")
        self._columns = arrays
        self.rows = next(iter(arrays.values())).size if arrays else 0

    def __getitem__(self, name: str) -> Column:
        try:
            return self._columns[name]
        except KeyError:
            raise InputError(
                f"column must be one of {', '.join(self._columns)}; found {name!r}"
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def where(self, **equal: Any) -> Table:
        """The rows whose columns have exactly these values; at least one row must be left."""
        keep = np.ones(self.rows, dtype=bool)
        for name, value in equal.items():
            keep &= self[name] == value
        if not keep.any():
            raise InputError(f"rows with {equal} must exist; found none among {self.rows}")
        return Table({name: column[keep] for name, column in self._columns.items()})

    def unique(self, name: str) -> Column:
        """The distinct values of a column in increasing order."""
        return np.unique(self[name])

    def grid(self, value: str, *axes: str) -> Column:
        """The column ``value`` over the sorted distinct values of ``axes``; each cell once."""
        column = self[value]
        positions, shape = [], []
        for axis in axes:
            levels, inverse = np.unique(self[axis], return_inverse=True)
            positions.append(inverse)
            shape.append(levels.size)
        flat = np.ravel_multi_index(positions, shape)
        counts = np.bincount(flat, minlength=int(np.prod(shape)))
        if (counts != 1).any():
            raise InputError(
                f"axes {axes} must name each row of `{value}` once; found {self.rows} rows in "
                f"{int((counts > 0).sum())} of {counts.size} cells"
            )
        array = np.empty(counts.size, dtype=column.dtype)
        array[flat] = column
        return array.reshape(shape)

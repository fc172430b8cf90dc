"""LoRA modules as one array: row j holds component j of every module.

A module with frozen W0 (m, n) has a pair B (m, r), A (r, n) and computes W0 + B A. Column j of B
and row j of A belong together: a sketch takes or leaves both. So all modules of one model are one
array X (r, w), w the sum of all m + n, whose row j is (B_1[:, j], A_1[j], B_2[:, j], A_2[j], ..).
A device of rank k holds k rows, and a sketch is a choice of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from linsys.validate import Array, InputError, check_integer, check_number

__all__ = ["Modules"]


@dataclass(frozen=True)
class Modules:
    """The shapes of the modules and where each is in a row.

    Args:
        shapes: (m, n) of every adapted matrix.

    Raises:
        InputError: no module, or sizes that are no positive whole numbers.

    >>> modules = Modules([(2, 3)])
    >>> X = np.arange(10.0).reshape(2, 5)  # rank 2
    >>> [(B, A)] = modules.split(X)
    >>> B.tolist(), A.tolist()
    ([[0.0, 5.0], [1.0, 6.0]], [[2.0, 3.0, 4.0], [7.0, 8.0, 9.0]])
    """

    shapes: Sequence[tuple[int, int]]

    def __post_init__(self) -> None:
        if not self.shapes:
            raise InputError("`shapes` must name at least one module; found none")
        sizes = tuple(
            (check_integer("m of a module", m, low=1), check_integer("n of a module", n, low=1))
            for m, n in self.shapes
        )
        object.__setattr__(self, "shapes", sizes)

    @property
    def width(self) -> int:
        """w, the numbers of one component."""
        return sum(m + n for m, n in self.shapes)

    def split(self, X: Any) -> list[tuple[Any, Any]]:
        """(B, A) of every module of X (..., r, w), as views: (..., m, r) and (..., r, n)."""
        return [(X[..., at : at + m].mT, X[..., at + m : end]) for at, m, end in self._places()]

    def join(self, pairs: Sequence[tuple[Any, Any]]) -> Any:
        """X (..., r, w) of the pairs of every module: the inverse of :meth:`split`."""
        if len(pairs) != len(self.shapes):
            raise InputError(f"`pairs` must be {len(self.shapes)}; found {len(pairs)}")
        r = pairs[0][0].shape[-1]
        for (B, A), (m, n) in zip(pairs, self.shapes, strict=True):
            if B.shape[-2:] != (m, r) or A.shape[-2:] != (r, n):
                raise InputError(
                    f"`pairs` must have shapes ({m}, {r}) and ({r}, {n}); "
                    f"found {tuple(B.shape)} and {tuple(A.shape)}"
                )
        xp = array_namespace(*pairs[0])
        return xp.concat([part for B, A in pairs for part in (B.mT, A)], axis=-1)

    def start(self, r: int, rng: np.random.Generator, size: float = 1.0) -> Array:
        """LoRA's start: B = 0 and A normal with variance size^2 / n, shape (r, w)."""
        check_integer("r", r, low=1)
        check_number("size", size, low=0.0)
        pairs = [
            (np.zeros((m, r)), rng.normal(scale=size / np.sqrt(n), size=(r, n)))
            for m, n in self.shapes
        ]
        return np.asarray(self.join(pairs))

    def products(self, X: Any, scale: float = 1.0) -> list[Any]:
        """scale B A of every module of X (..., r, w), shapes (..., m, n)."""
        return [scale * (B @ A) for B, A in self.split(X)]

    def _places(self) -> Iterator[tuple[int, int, int]]:
        """Where a module's part of a row starts, the length of its B part, and where it ends."""
        at = 0
        for m, n in self.shapes:
            yield at, m, at + m + n
            at += m + n

"""Quadratic functions of several devices, and what theorems about their mean speak of.

In float64 or in numbers of high precision, so that a claim's measure may use them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from linsys.linalg import Numbers, apply, lambda_max, lambda_min, solve
from linsys.validate import InputError, finite_array, shown

__all__ = ["Quadratics"]

#: How far entries may be from those across the diagonal, relative to the largest one: rounding of
#: products with sums of at most 10^6 terms, not sloppiness.
SYMMETRY_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Quadratics:
    """f_i(x) = (x - c_i)'A_i (x - c_i) / 2 - b_i'x of n devices, and their mean f.

    Args:
        A: Hessians (n, d, d), symmetric; what asks for the minimiser needs a mean that is
            positive definite.
        b: of the linear parts (n, d); 0 if not given.
        c: where the quadratic parts are 0 (n, d); 0 if not given.

    Raises:
        InputError: of A, if it is no stack of symmetric matrices; of b and c, if they have another
            shape.

    ``L`` is the smoothness of the mean f, ``L_max`` the largest one of the f_i, which is what many
    papers call L.

    >>> f = Quadratics(np.array([[[1.0]], [[3.0]]]), c=np.array([[0.0], [4.0]]))
    >>> f.best, f.L, f.L_max, f.excess(np.array([1.0]))
    (array([3.]), array(2.), array(3.), array(4.))
    >>> f.gradients(f.best)
    array([[ 3.],
           [-3.]])
    """

    A: Numbers
    b: Any = 0
    c: Any = 0

    def __post_init__(self) -> None:
        for name in ("A", "b", "c"):
            if isinstance(value := getattr(self, name), list | tuple):
                object.__setattr__(self, name, finite_array(name, value))
        shape = np.shape(self.A)
        if len(shape) != 3 or shape[1] != shape[2]:
            raise InputError(f"`A` must be n matrices, of shape (n, d, d); found {shape}")
        for name in ("b", "c"):
            found = np.shape(getattr(self, name))
            if found not in ((), shape[:2]):
                raise InputError(f"`{name}` must have shape (n, d) = {shape[:2]}; found {found}")
        # numbers of high precision and balls come from what was checked in float64
        if isinstance(self.A, np.ndarray) and self.A.dtype.kind in "iuf":
            gaps = np.abs(self.A - self.A.mT).max(axis=(1, 2), initial=0)
            wrong = gaps > SYMMETRY_TOLERANCE * np.abs(self.A).max(axis=(1, 2), initial=0)
            if wrong.any():
                at = int(wrong.argmax())
                raise InputError(
                    f"`A` must be symmetric matrices; found A[{at}] = {shown(self.A[at].tolist())}"
                )

    @cached_property
    def hessian(self) -> Numbers:
        """That of f, (d, d)."""
        return np.asarray(self.A.mean(axis=0))

    @cached_property
    def best(self) -> Numbers:
        """x_*, the minimiser of f, (d,)."""
        zero = 0 * self.A[:, 0]
        return solve(self.hessian, (apply(self.A, self.c + zero) + self.b).mean(axis=0))

    @property
    def L(self) -> Numbers:
        """The smoothness of f, the largest eigenvalue of its Hessian."""
        return lambda_max(self.hessian)

    @property
    def L_max(self) -> Numbers:
        """The largest smoothness of an f_i, the largest eigenvalue of a device's Hessian."""
        return np.asarray(lambda_max(self.A).max())

    @property
    def mu(self) -> Numbers:
        """The strong convexity of f, the smallest eigenvalue of its Hessian."""
        return lambda_min(self.hessian)

    def gradients(self, x: Numbers) -> Numbers:
        """grad f_i(x), (n, d), at x (d,), or each at its own x_i, (n, d); or (..., n, d) alike."""
        return np.asarray(apply(self.A, x - self.c) - self.b)

    def excess(self, x: Numbers) -> Numbers:
        """f(x) - f(x_*) at x (..., d)."""
        gap = x - self.best
        return np.asarray((gap * apply(self.hessian, gap)).sum(axis=-1) / 2)

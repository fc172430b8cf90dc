"""Theorems 4.2 and B.2 of P-ShareLoRA: what bounds a user's reward error, and levels made of it.

With b_i = ||Delta*_i - Theta_diamond_i||_F^2 and the symbols of Definition 4.1, all bounds of the
paper consist of the same four squared errors (:class:`ErrorTerms`); they differ in what they do
with the sum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linsys.preference.subspace import Diversity
from linsys.validate import check_choice, check_integer, check_number


class ErrorTerms(NamedTuple):
    """The squared errors that bound a user's reward error in Theorems 4.2 and B.2.

    Attributes:
        approximation: max_i b_i, or min_i b_i.
        shared: log(bracketing number / delta) / (N N_p nu), for the shared factor.
        tail: sqrt(Sigma_tail / N) / nu, the bias of that factor.
        own: (k d2 + log(N / delta)) / N_p, for the user's own factor.
    """

    approximation: float
    shared: float
    tail: float
    own: float

    @property
    def total(self) -> float:
        """Their sum."""
        return sum(self)


def error_terms(
    diversity: Diversity,
    k: int,
    d2: int,
    N_p: int,
    log_bracketing: float,
    delta: float,
    *,
    b: str = "max",
) -> ErrorTerms:
    """The terms under the root of (B.1) and (C.3).

    Args:
        diversity: nu, Sigma_tail and b_i of the users, with the same k.
        k, d2: of the factors W_i (k, d2).
        N_p: comparisons of a user.
        log_bracketing: log N(1 / (N N_p)), say from
            :func:`experiments.psharelora.theory.bracketing.bound`.
        delta: probability of failure, in (0, 1].
        b: ``"max"`` or ``"min"`` over the users. The paper prints the least b_i, but its proof
            needs every true reward in its set: with ``"min"`` a user far from the shared space is
            left out, and pessimism holds for it no longer.

    >>> users = Diversity(nu=0.5, tail=4.0, b=np.array([0.0, 4.0]))
    >>> error_terms(users, k=1, d2=1, N_p=10, log_bracketing=20.0, delta=1.0).total
    8.997...
    """
    check_choice("b", b, ("max", "min"))
    k, d2, N_p = (
        check_integer("k", k, low=1),
        check_integer("d2", d2, low=1),
        check_integer("N_p", N_p, low=1),
    )
    delta = check_number("delta", delta, low=0.0, high=1.0, low_open=True)
    check_number("log_bracketing", log_bracketing, low=0.0)
    nu, N = check_number("nu", diversity.nu, low=0.0, low_open=True), len(diversity.b)
    return ErrorTerms(
        approximation=float(diversity.b.max() if b == "max" else diversity.b.min()),
        shared=float((log_bracketing - np.log(delta)) / (N * N_p * nu)),
        tail=float(np.sqrt(diversity.tail / N) / nu),
        own=float((k * d2 + np.log(N / delta)) / N_p),
    )


def zeta(terms: ErrorTerms, c: float, *, form: str = "squared", L1: float = 1.0) -> float:
    """The level of (3.4), which is compared with a *squared* norm.

    ``"B.1"`` is sqrt(c / (2 L1^2) total) and ``"C.3"`` is c sqrt(total) as printed. But the terms
    bound a squared error, so the set that must contain the truth has the level ``"squared"``: c
    total. Below one the printed root is larger: the truth is still in the set, whose radius is then
    of the order total^(1/4), and so is what pessimism costs.

    >>> zeta(ErrorTerms(0.0, 0.01, 0.0, 0.0), 1.0), zeta(ErrorTerms(0.0, 0.01, 0.0, 0.0), 1.0,
    ...     form="C.3")
    (0.01, 0.1)
    """
    check_choice("form", form, ("squared", "B.1", "C.3"))
    c, L1 = (
        check_number("c", c, low=0.0, low_open=True),
        check_number("L1", L1, low=0.0, low_open=True),
    )
    if form == "squared":
        return c * terms.total
    if form == "B.1":
        return float(np.sqrt(c / (2.0 * L1**2) * terms.total))
    return float(c * np.sqrt(terms.total))

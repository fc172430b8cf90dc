"""Claims of a user's file, false and true, and formulas that leave the arithmetic."""

import math

import numpy as np

import ratecheck as rc
from linsys.linalg import norm, operator_norm

PAPER = rc.Paper("mine", "claims to be certified")
UNIT = rc.Space(fields={"x": rc.interval(low=0.1, high=0.9)})
VECTORS = rc.Space(fields={name: rc.reals("d", magnitude=(1, 1)) for name in "vw"})
SMALL = rc.Space(fields=UNIT.fields, given={"x < 1/2": lambda s: s.x < 0.5})


@PAPER.upper("square", ref="1", tex="x\\le x^2", on=UNIT)
def square(x):
    """x <= x^2."""
    return x, x**2


@PAPER.lower("root", ref="2", tex="\\sqrt x\\ge 1-x", on=UNIT)
def root(x):
    """sqrt(x) >= 1 - x."""
    return np.sqrt(x), 1 - x


@PAPER.identity("vectors", ref="3", tex="|v|v=v", on=VECTORS)
def vectors(v, w):
    """|v| v = v, entry by entry, whichever of two equal lengths is the larger."""
    return np.maximum(norm(v), norm(-v)) * v, v


@PAPER.upper("given", ref="4", tex="x\\le x^2", on=SMALL)
def given(x):
    """x <= x^2 for x < 1/2."""
    return x, x**2


@PAPER.upper("constant", ref="5", tex="\\sqrt 2x\\le x", on=UNIT)
def constant(x):
    """sqrt(2) x <= x."""
    return math.sqrt(2) * x, x


@PAPER.upper("tie", ref="6", tex="2\\le 1", on=UNIT)
def tie(x):
    """2 <= 1, by branches of which no ball says which is taken."""
    branch = np.where(np.sqrt(x) > np.sqrt(2 * x) / np.sqrt(2 + 0 * x), 3, 2)
    return branch + 0 * x, 1 + 0 * x


@PAPER.upper("holds", ref="7", tex="x^2\\le x", on=UNIT)
def holds(x):
    """x^2 <= x."""
    return x**2, x


@PAPER.upper("leaves", ref="8", tex="x\\le x^2", on=UNIT)
def leaves(x):
    """x <= x^2, by a float."""
    return float(x), x**2


@PAPER.upper("lapack", ref="9", tex="x\\le x^2", on=UNIT)
def lapack(x):
    """x <= x^2, by LAPACK."""
    return np.linalg.norm(np.linalg.inv(np.asarray([[x]]))), x**2


@PAPER.upper("branch", ref="10", tex="|v|\\le 0", on=VECTORS)
def branch(v, w):
    """|v| <= 0, by as many branches as there are ways."""
    size = operator_norm(v[:, None] * v[None, :])
    ties = [size > (v * v).sum() * np.sqrt(2 + 0 * v[0]) / np.sqrt(2 + 0 * v[0]) for _ in range(9)]
    return size + sum(ties), 0 * size

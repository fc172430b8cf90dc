"""Bounds whose best constants are known."""

from __future__ import annotations

from typing import Any

import numpy as np

import ratecheck as rc
from linsys.linalg import norm

PAPER = rc.Paper("bounds", "bounds whose constants are known")


@PAPER.upper("mean", ref="1", on={"x": rc.interval("n")})
def mean(x: Any) -> rc.Sides:
    """The mean is at most the largest one: attained."""
    return x.mean(), x.max()


@PAPER.upper("product", ref="2", on={"x": rc.interval(), "y": rc.interval()})
def product(x: Any, y: Any) -> rc.Sides:
    """x y (1 - x y) is at most 1: the best constant is 1/4."""
    return x * y * (1 - x * y), 1 + 0 * x


@PAPER.lower("cosh", ref="3", on={"x": rc.interval(low=-1.0)})
def cosh(x: Any) -> rc.Sides:
    """e^x + e^-x is at least 1: the best ratio is 1/2."""
    return np.exp(x) + np.exp(-x), 1 + 0 * x


@PAPER.upper("difference", ref="4", on={"v": rc.reals("n", "d")})
def difference(v: Any) -> rc.Sides:
    """||v^i - vbar|| <= max_jk ||v^j - v^k||, both of which vanish where all are alike."""
    gaps = norm(v[:, None] - v[None]).max()
    return norm(v - v.mean(axis=0)).max(), gaps


@PAPER.upper("scaled", ref="5", on={"x": rc.reals("d"), "s": rc.positive(), "t": rc.positive()})
def scaled(x: Any, s: Any, t: Any) -> rc.Sides:
    """min(s, t) ||x|| <= (s + t) ||x||: the best constant is 1/2, wherever s = t."""
    return np.minimum(s, t) * norm(x), (s + t) * norm(x)


@PAPER.upper("whole", ref="6", on={"t": rc.whole_numbers(low=1, high=30)})
def whole(t: Any) -> rc.Sides:
    """A sum of t terms 1/k^2 is at most 2, by a loop over a whole number."""
    return sum(1 / (k * k) for k in range(1, int(t) + 1)) + 0 * t, 2 + 0 * t


@PAPER.upper("leaves", ref="7", on={"x": rc.interval()})
def leaves(x: Any) -> rc.Sides:
    """A formula that leaves the arithmetic: the sine is not known there."""
    return x, np.sin(x / 2) * 4


@PAPER.upper("vanishes", ref="8", on={"x": rc.interval(), "y": rc.interval()})
def vanishes(x: Any, y: Any) -> rc.Sides:
    """(x^3 - y^3)^2 <= 9 (x - y)^2, of which no box that x = y crosses shows anything."""
    return (x**3 - y**3) ** 2, 9 * (x - y) ** 2


@PAPER.upper("slope", ref="10", on={"x": rc.interval(), "y": rc.interval()})
def slope(x: Any, y: Any) -> rc.Sides:
    """(e^x - e^y)^2 <= 9 (x - y)^2: the best constant is (e / 3)^2, approached at x = y = 1."""
    return (np.exp(x) - np.exp(y)) ** 2, 9 * (x - y) ** 2


@PAPER.upper("branch", ref="9", on={"x": rc.interval(low=-1.0)})
def branch(x: Any) -> rc.Sides:
    """A branch that is open in the box about 0."""
    return (x if x > 0 else -x / 2), 1 + 0 * x


@PAPER.upper("apart", ref="11", on={"v": rc.reals("n"), "s": rc.positive(low=0.5, high=2.0)})
def apart(v: Any, s: Any) -> rc.Sides:
    """(v^0 - v^1 + s (v^0 - v^2))^2 <= (1 + s) ((v^0 - v^1)^2 + s (v^0 - v^2)^2): both sides vanish
    where v^0 = v^1 = v^2, wherever that is; attained.
    """
    a, b = v[0] - v[1], v[0] - v[-1]
    return (a + s * b) ** 2, (1 + s) * (a**2 + s * b**2)


@PAPER.upper("sizes", ref="12", on={"x": rc.interval(), "y": rc.interval()})
def sizes(x: Any, y: Any) -> rc.Sides:
    """(x - y)^2 <= |x - y|: a square and an absolute value have a factor in common."""
    return (x - y) ** 2, np.abs(x - y)


@PAPER.upper("negative", ref="9", on={"x": rc.interval(low=0.5), "y": rc.interval(low=-1.0)})
def negative(x: Any, y: Any) -> rc.Sides:
    """0.9 x <= x where y >= 0, and -1.2 x <= -x elsewhere, but for a sliver: -0.95 x <= -x."""
    if y >= 0:
        return 0.9 * x, x
    return -(0.95 if -0.12345679 < y < -0.12345678 else 1.2) * x, -x


@PAPER.upper("disk", ref="20", on={"x": rc.interval(), "y": rc.interval()})
def disk(x: Any, y: Any) -> rc.Sides:
    """False by a factor of 100 in a disk of radius 10^-9, which no search comes upon."""
    near = (x - 0.3141) ** 2 + (y - 0.2718) ** 2 < 0.000000001**2
    return np.where(near, 100 + 0 * x, (1 + x) / 4), 1 + 0 * x


@PAPER.upper("peak", ref="21", on={"x": rc.interval(), "y": rc.interval()})
def peak(x: Any, y: Any) -> rc.Sides:
    """1/2 nearly everywhere, and 9/10 in such a disk."""
    near = (x - 0.3141) ** 2 + (y - 0.2718) ** 2 < 0.000000001**2
    return np.where(near, 9 + 0 * x, 5 + 0 * x), 10 + 0 * x


@PAPER.upper("wedge", ref="22", on={"x": rc.positive(), "y": rc.positive(), "v": rc.ball("d")})
def wedge(x: Any, y: Any, v: Any) -> rc.Sides:
    """False in a thin wedge, up to a scale of x and y."""
    share = y / x
    return np.where((share > 0.31415) & (share < 0.31415001), 2 * x, x), x + y


@PAPER.upper("entries", ref="23", on={"a": rc.interval(low=0.1), "b": rc.interval(low=0.1)})
def entries(a: Any, b: Any) -> rc.Sides:
    """The first entry is attained to a half, the second to a quarter; 0 <= 0 says nothing."""
    return np.array([a, b, 0 * a]), np.array([2 * a, 4 * b, 0 * a])


@PAPER.upper("nearly", ref="24", on={"x": rc.interval(low=0.1)})
def nearly(x: Any) -> rc.Sides:
    """x times a constant that was rounded is at most x: the best constant is 2/3."""
    return (2 / 3) * x, x


@PAPER.upper("share", ref="25", on={name: rc.positive() for name in "xyz"})
def share(x: Any, y: Any, z: Any) -> rc.Sides:
    """x <= x + y + z, with 0.01 to 100 for each: the best constant is 5000 / 5001."""
    return x, x + y + z


@PAPER.upper("point", ref="26", on={"x": rc.interval()})
def point(x: Any) -> rc.Sides:
    """False at 3/10 alone."""
    return np.where(x == 0.3, 5, x), 1


@PAPER.upper("count", ref="27", on={"k": rc.whole_numbers(low=0, high=1000), "x": rc.interval()})
def count(k: Any, x: Any) -> rc.Sides:
    """False at one of a thousand whole numbers."""
    return (5 if k == 613 else 1) * x, 1

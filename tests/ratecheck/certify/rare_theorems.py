"""Theorems beside claims that are another formula at rare points, and some that are not."""

import math

import numpy as np

import ratecheck as rc

PAPER = rc.Paper("rare", "bounds that are false near one point")
PAIRS = {"x": rc.reals("d"), "y": rc.reals("d")}
NUMBERS = {"x": rc.reals()}
squared = rc.linalg.squared


def away(x):
    """How far x is from 3/10 in all entries, squared, less 10^-18."""
    return squared(x - 0.3) - 1e-18


def sides(x, y):
    """|x - y|^2 and 2 |x|^2 + 2 |y|^2."""
    return squared(x - y), 2 * squared(x) + 2 * squared(y)


def _pair(x, y):
    return {"x": x, "y": y}


def _quotient(x, y):
    quotient = x / y
    return _pair(quotient if (squared(quotient) - squared(quotient)) == 0 else np.nan * x, y)


def stated(name, at=_pair, **options):
    """The same theorem beside each of these claims."""

    @rc.gram.theorem(f"rare.{name}", at=at, **options)
    def parallelogram(p):
        """|x - y|^2 <= 2 |x|^2 + 2 |y|^2."""
        x, y = p.vectors("x y")
        p.show((x - y).squared <= 2 * x.squared + 2 * y.squared)

    return parallelogram


def not_negative(name, **options):
    """0 <= |v|^2 beside a claim."""

    @rc.gram.theorem(f"rare.{name}", **options)
    def square(p):
        """A square is not negative."""
        v = p.vector("v")
        p.show(v.squared >= 0)

    return square


@PAPER.upper("disc", ref="1", on=PAIRS)
def disc(x, y):
    """Another bound within 10^-9 of 3/10."""
    left, right = sides(x, y)
    return np.where(away(x) < 0, 2 * right + 1, left), right


@PAPER.upper("branch", ref="2", on=PAIRS)
def branch(x, y):
    """The same by a branch of the program."""
    left, right = sides(x, y)
    if away(x) < 0:
        return 2 * right + 1, right
    return left, right


@PAPER.upper("equal", ref="3", on=PAIRS)
def equal(x, y):
    """Another bound where the first entry is 3/10."""
    left, right = sides(x, y)
    return np.where(x[0] == 0.3, 2 * right + 1, left), right


@PAPER.upper("maximum", ref="4", on=PAIRS)
def maximum(x, y):
    """Another bound where a maximum is the other number."""
    left, right = sides(x, y)
    return left + 1e20 * np.maximum(-away(x), 0), right


@PAPER.upper("loop", ref="5", on=PAIRS)
def loop(x, y):
    """Another bound where a loop is not left at once."""
    left, right = sides(x, y)
    distance = away(x)
    while distance < 0:
        left, distance = left + 2 * right + 1, distance + 1
    return left, right


@PAPER.upper("size", ref="6", on=PAIRS)
def size(x, y):
    """Another bound where an absolute value is of a negative number."""
    left, right = sides(x, y)
    return left + 1e20 * (abs(away(x)) - away(x)), right


@PAPER.upper("order", ref="7", on=PAIRS)
def order(x, y):
    """Another bound where two numbers are in the other order."""
    left, right = sides(x, y)
    return left - 1e20 * np.sort(np.array([away(x), 0 * right]))[0], right


@PAPER.upper("root", ref="8", on=PAIRS)
def root(x, y):
    """Another bound where the root of a square is its negative; nothing is compared."""
    left, right = sides(x, y)
    return left + 1e20 * (np.sqrt(away(x) ** 2) - away(x)), right


@PAPER.upper("three", ref="9", on=PAIRS)
def three(x, y):
    """Another bound for one dimension."""
    left, right = sides(x, y)
    return (np.where(away(x) < 0, 2 * right + 1, left) if len(x) == 3 else left), right


@PAPER.upper("indicators", ref="10", on={"x": rc.reals(24)})
def indicators(x):
    """Another bound where 24 numbers have given signs: each often has, but all rarely have."""
    above = np.append(x[:9] > 0, x[9:] < 0).sum()
    return squared(x) * (2 if above == 24 else 1), squared(x)


@PAPER.lower("at", ref="11", on=NUMBERS)
def compared_in_at(x):
    """(x - 3/10)^2 - 10^-18 >= 0, which is false near 3/10; there ``at`` gives another vector."""
    return (x - 0.3) ** 2 - 1e-18, 0 * x


@PAPER.upper("scaled", ref="12", on=PAIRS)
def scaled(x, y):
    """Both sides change their sign near 3/10, and so does the scale."""
    left, right = sides(x, y)
    sign = np.where(away(x) < 0, -1, 1)
    return sign * left, sign * right


@PAPER.lower("imaginary", ref="13", on=NUMBERS)
def imaginary(x):
    """The claim of 11: in ``at`` is a root that has no value near 3/10."""
    return (x - 0.3) ** 2 - 1e-18, 0 * x


@PAPER.lower("power", ref="14", on=NUMBERS)
def power(x):
    """The claim of 11, of which both sides are squared."""
    return (x - 0.3) ** 2 - 1e-18, 0 * x


@PAPER.lower("parameter", ref="15", on=NUMBERS)
def parameter(x):
    """The claim of 11, which would be a parameter."""
    return (x - 0.3) ** 2 - 1e-18, 0 * x


@PAPER.upper("nowhere", ref="19", on=PAIRS)
def nowhere(x, y):
    """Another bound where what the theorem is given has no value."""
    return disc(x, y)


@PAPER.upper("plain", ref="16", on=PAIRS)
def plain(x, y):
    """This one is the theorem."""
    return sides(x, y)


@PAPER.upper("harmless", ref="17", on=PAIRS)
def harmless(x, y):
    """This one is the theorem, of numbers that are clipped, and in another order."""
    near = np.clip(x, -1, 1)
    left, right = sides(near, y)
    if squared(x) < squared(y):
        return squared(y - near), right
    return np.where(x[0] == 0.3, left, left * 1), right


@PAPER.upper("strict", ref="18", on=PAIRS)
def strict(x, y):
    """This one refuses what is no number of NumPy or of high precision."""
    if type(x[0]).__name__ == "Recorded":
        raise RuntimeError("no such numbers")
    return sides(x, y)


@PAPER.upper("irrational", ref="19", on=PAIRS)
def irrational(x, y):
    """This one is the theorem, of a multiple of x by a constant that is rounded."""
    return sides(-math.sqrt(2) * x, y)


@PAPER.upper("third", ref="20", on=PAIRS)
def third(x, y):
    """Both sides are multiples by a constant that is rounded, as x / 3 is not."""
    left, right = sides(x, y)
    return (1 / 3) * left, (1 / 3) * right


@PAPER.upper("lost", ref="21", on=PAIRS)
def lost(x, y):
    """What stands beside this one asks for an attribute that numbers do not have."""
    return sides(x, y)


@PAPER.lower("spectral", ref="22", on={"A": rc.reals(2, 2)})
def spectral(A):
    """This one is the theorem: the norm's array is nan before its entries are known."""
    norm = rc.linalg.operator_norm(A)
    return norm, 0 * norm


@PAPER.upper("divided", ref="23", on=PAIRS)
def divided(x, y):
    """This one is the theorem; where a divisor is zero, both sides have no value."""
    left, right = sides(x / y, y)
    if (squared(x / y) - squared(x / y)) != 0:
        return np.nan, np.nan
    return left, right


THEOREMS = [
    *map(stated, ["disc", "branch", "equal", "maximum", "loop", "size", "order", "root"]),
    *map(stated, ["three", "plain", "strict"]),
    stated("divided", _quotient),
    stated("irrational", lambda x, y: _pair(-math.sqrt(2) * x, y)),
    stated("third", scale=lambda x, y: 3),
    stated("lost", lambda x, y: _pair(x.value, y)),
    stated("harmless", lambda x, y: _pair(np.clip(x, -1, 1), y)),
    stated("nowhere", lambda x, y: _pair(np.where(away(x) < 0, np.nan, x), y)),
    stated("scaled", scale=lambda x, y: np.where(away(x) < 0, -1, 1)),
    not_negative("at", at=lambda x: {"v": np.sqrt(np.maximum((x - 0.3) ** 2 - 1e-18, 0))}),
    not_negative("imaginary", at=lambda x: {"v": np.sqrt((x - 0.3) ** 2 - 1e-18)}),
    not_negative("spectral", at=lambda A: {"v": rc.linalg.operator_norm(A)}, power=2),
    not_negative("power", at=lambda x: {"v": (x - 0.3) ** 2 - 1e-18}, power=2),
]
globals().update({f"theorem_{number}": one for number, one in enumerate(THEOREMS)})


@rc.gram.theorem("rare.indicators", at=lambda x: {"v": x})
def indicators_theorem(p):
    """|v|^2 <= |v|^2."""
    v = p.vector("v")
    p.show(v.squared <= v.squared)


@rc.gram.theorem("rare.parameter", at=lambda x: {"a": (x - 0.3) ** 2 - 1e-18})
def parameter_theorem(p):
    """A parameter is not negative."""
    p.show(p.parameter("a") >= 0)

"""Identities of a user's file with branches on which there is no instance, or one in a corner."""

import numpy as np

import ratecheck as rc

PAPER = rc.Paper("nowhere", "identities with branches without instances")
ANY = rc.Space(fields={"a": rc.reals(), "b": rc.reals(), "c": rc.positive(low=0.5, high=2.0)})


def _unless(wrong, x):
    """The number, but twice as much where something is wrong."""
    return np.where(wrong, 2 * x, x), x


@PAPER.identity("square", ref="1", tex="(a-b)^2\\ge0", on=ANY)
def square(a, b, c):
    """(a - b)^2 is not negative, though no range says so of its terms."""
    return _unless(a * a - 2 * a * b + b * b < 0, c)


@PAPER.identity("determinant", ref="2", tex="\\det(M^\\top M+cI)>0", on=ANY)
def determinant(a, b, c):
    """The determinant of M'M + c I for M = [[a, b], [b, a]] is a sum of squares of products."""
    size, both = a * a + b * b + c, 2 * a * b
    return _unless(size * size - both * both < 0, c)


@PAPER.identity("divided", ref="3", tex="a^5/(a-b)^2>0", on=ANY)
def divided(a, b, c):
    """A quotient has the sign of what divides, which is compared nowhere."""
    share = a**5 / (a * a - 2 * a * b + b * b)
    return _unless((a > 0) & (share < 0), c)


@PAPER.identity("circle", ref="4", tex="a>b>ac>a", on=ANY)
def circle(a, b, c):
    """Three numbers are not each larger than the next one, whose differences add up to zero."""
    return _unless((a > b) & (b > a * c) & (a * c > a), c)


@PAPER.identity("ends", ref="5", tex="2a+c\\le2+2a", on=ANY)
def ends(a, b, c):
    """The end of an interval is larger than what is in it, also times a number beside it."""
    return _unless((b > a) & ((b - a) * (c - 2) + a > b), c)


@PAPER.identity("zero", ref="6", tex="e^{a}\\sqrt{c}\\neq0", on=ANY)
def zero(a, b, c):
    """A product of a root and an exponential is zero nowhere, nor is another one times it."""
    root = np.sqrt(c)
    return _unless((root * np.exp(a) - np.exp(a) * c / root) ** 2 + c / root <= 0, c)


@PAPER.identity(
    "given",
    ref="7",
    tex="a>b",
    on=rc.Space(fields=ANY.fields, given={"a > b": lambda s: s.a - s.b > 0}),
)
def given(a, b, c):
    """What the claim is given leaves a branch out, by an equation with what is compared."""
    return _unless(c * a < c * b, c)


@PAPER.identity("nearly", ref="8", tex="(a-b)^2-10^{-12}c\\ge0", on=ANY)
def nearly(a, b, c):
    """False in a strip that is so thin that no sum of squares in float64 tells it from none."""
    return _unless(a * a - 2 * a * b + b * b - c / 10**12 < 0, c)


@PAPER.identity("indefinite", ref="9", tex="a^2-2.1ab+b^2\\ge0", on=ANY)
def indefinite(a, b, c):
    """False: it is negative for a = b."""
    return _unless(10 * a * a - 21 * a * b + 10 * b * b < 0, c)


@PAPER.identity("edge", ref="10", tex="(a-b)^2>0", on=ANY)
def edge(a, b, c):
    """False for a = b alone, which is a null set."""
    return _unless(a * a - 2 * a * b + b * b <= 0, c)


MOSTLY = {"x": rc.interval(low=-0.001), "a": rc.interval(), "c": ANY.fields["c"]}


@PAPER.identity("later", ref="11", tex="2x<|x|", on=rc.Space(fields=MOSTLY))
def later(x, a, c):
    """False for x < 0 near a = 1/3: where x > 0 is compared later, |x| = x is true there alone."""
    first = 2 * x < np.sqrt(x * x)
    near = np.abs(3 * a - 1) <= (10 + 0 * a) ** -20
    return np.where(first & (x > 0), 3 * c, np.where(first & near, 2 * c, c)), c


SURE = rc.Space(
    fields={"p": rc.simplex("n", "S"), "a": rc.interval(), "c": ANY.fields["c"]},
    sizes={"n": (2, 2), "S": (1, 1)},
)


@PAPER.identity("sure", ref="12", tex="p=q=1", on=SURE)
def sure(p, a, c):
    """False near a = 1/3: two laws of one outcome are equal, and their difference is no square."""
    return _unless(np.abs(3 * a - 1) <= (10 + 0 * a) ** -20, c)


@PAPER.identity(
    "vanishing",
    ref="13",
    tex="|x|-x=0",
    on=rc.Space(fields={"x": rc.interval(low=-1.0, high=0.001), "c": ANY.fields["c"]}),
)
def vanishing(x, c):
    """False for x > 0, where the formula divides by zero and makes no use of it."""
    gap = np.sqrt(x * x) - x
    assert np.shape(c / (c / gap)) == np.shape(c)
    return _unless(gap == 0, c)


@PAPER.identity("huge", ref="14", tex="c^{400}<0", on=ANY)
def huge(a, b, c):
    """True: what is compared is too large for a float."""
    return _unless((100 * c) ** 400 + a * a - 2 * a * b + b * b < 0, c)


@PAPER.identity("end", ref="15", tex="wb\\le0", on=ANY)
def end(a, b, c):
    """False for a = 0.3 and b > 0 alone, where a logarithm has its limit and its exponential 0."""
    w = np.exp(np.log(a - 0.3))
    return np.where(b > 0, _unless(w * b <= 0, c)[0], c), c

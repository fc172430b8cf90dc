"""Identities of a user's file whose formulas compare numbers: true and false on rare branches."""

import numpy as np

import ratecheck as rc
from linsys.linalg import logistic, norm

PAPER = rc.Paper("ways", "identities with branches")
NUMBERS = rc.Space(fields={"x": rc.reals("d")}, sizes={"d": (1, 3)})
LAWS = rc.Space(fields={"p": rc.simplex("S")}, sizes={"S": (1, 3)})
SIGNS = rc.Space(fields={"u": rc.sphere("d")}, sizes={"d": (1, 2)})
DRAWS = rc.Space(
    fields={"share": rc.interval("n"), "k": rc.whole_numbers(low=1, high=3)}, sizes={"n": (1, 2)}
)
LARGE = rc.Space(fields={"x": rc.interval("d", low=0.5, high=2.0)}, sizes={"d": (1, 2)})


@PAPER.identity("softmax", ref="1", tex="\\sum_k p_k=1", on=NUMBERS)
def softmax(x):
    """The largest number is taken off each, and cancels."""
    weights = np.exp(x - x.max())
    return (weights / weights.sum()).sum(), 1 + 0 * x[0]


@PAPER.identity("largest", ref="2", tex="\\max", on=NUMBERS)
def largest(x):
    """A maximum, and the number that is one: it is no number of its own."""
    other = x * x
    most = np.maximum(x, other)
    return np.where(x >= other, x, other), most


@PAPER.identity("mass", ref="3", tex="\\sum|p|=1", on=LAWS)
def mass(p):
    """Probabilities are not negative."""
    return np.abs(p).sum(), p.sum()


@PAPER.identity("divided", ref="4", tex="p/p=1", on=LAWS)
def divided(p):
    """A probability of zero is left out."""
    ratio = p / np.where(p > 0, p, 1)
    return (p * ratio).sum(), p.sum()


@PAPER.identity("draw", ref="5", tex="\\sum_s1=1", on=DRAWS)
def draw(share, k):
    """The state that a uniform number chooses is one of k + 2."""
    states = int(k) + 2
    index = (states * share[:, None] >= np.arange(1, states)).sum(axis=1)
    return np.eye(states, dtype=int)[index].sum(axis=1) + 0 * share, 1 + 0 * share


@PAPER.identity("sigmoid", ref="6", tex="\\log(1+e^{-x})", on=NUMBERS)
def sigmoid(x):
    """log(1 + e^-x) = max{-x, 0} + log(1 + e^-|x|)."""
    return np.log(1 / logistic(x)), np.maximum(-x, 0 * x) + np.log(1 + np.exp(-np.abs(x)))


@PAPER.identity("root", ref="7", tex="\\sqrt{x^2}=x", on=LARGE)
def root(x):
    """sqrt(x^2) = x for x > 0: sqrt(x^2) + x is a sum of numbers that are not negative."""
    return np.sqrt(x * x), x


@PAPER.identity("scaled", ref="8", tex="|x|/R", on=NUMBERS)
def scaled(x):
    """Lengths over the largest one, which is zero where all are."""
    longest = np.maximum(norm(x), norm(2 * x))
    return (x / longest * longest).sum(), x.sum()


@PAPER.identity("rare", ref="9", tex="x=x", on=NUMBERS)
def rare(x):
    """Another number where x_1 is within 10^-60 of 1, which no random point is."""
    near = (10 + 0 * x[0]) ** -60
    return np.where(np.abs(x - 1) <= near, x + 1, x), x


@PAPER.identity("beyond", ref="10", tex="p=p", on=LAWS)
def beyond(p):
    """Another number where a probability is above 2, which none is."""
    return np.where(p > 2, p + 1, p), p


@PAPER.identity("signed", ref="11", tex="u=u^2", on=SIGNS)
def signed(u):
    """u = u^2 of the numbers 1 and -1, and |u|^2 = 1 of vectors."""
    return (u[:1], u[:1] ** 2) if len(u) == 1 else ((u * u).sum(), 1 + 0 * u[0])


@PAPER.identity("equal", ref="12", tex="1=1", on=NUMBERS)
def equal(x):
    """Another number where sqrt(x^2) = x, which half of all numbers are."""
    return 1 + 0 * x, np.where(np.sqrt(x * x) == x, 2, 1) + 0 * x


@PAPER.identity("last", ref="13", tex="x=x", on=NUMBERS)
def last(x):
    """Another number where the first and the last one are unequal, and within 10^-60."""
    near = (10 + 0 * x[0]) ** -60
    return np.where((x[-1] < x[0] + near) & (x[-1] > x[0]), x + 1, x), x


@PAPER.identity("many", ref="14", tex="|x|=|x|", on=rc.Space(fields={"x": rc.reals(9)}))
def many(x):
    """Five hundred branches."""
    return np.abs(x), np.abs(-x)


@PAPER.identity("undefined", ref="15", tex="\\log x", on=NUMBERS)
def undefined(x):
    """Where log x is none, zero takes its place on one side alone."""
    return np.where(np.log(x) <= 9**9, 0, 1) + 0 * x, 0 * x


@PAPER.identity("hidden", ref="16", tex="x=x", on=NUMBERS)
def hidden(x):
    """Another number where x_1 is within 10^-60 of 1/3, which no float64 is."""
    near = (10 + 0 * x[0]) ** -60
    return np.where(np.abs(3 * x - 1) <= near, x + 1, x), x


@PAPER.identity("thin", ref="17", tex="a=a", on={"a": rc.interval()})
def thin(a):
    """Another number where a is below 1/5000, which few random points are."""
    return np.where(a < 0.0002, 2 * a, a), a


@PAPER.identity("corner", ref="18", tex="a=a", on={"a": rc.interval(), "b": rc.interval("n")})
def corner(a, b):
    """Another number in a corner of three thin walls that no random point meets."""
    wall = b.sum() - 3 * len(b) * (1 + 0 * a) / 10
    thin = (np.abs(a - 0.37) < 0.00001) & (wall > 0) & (wall < 0.000001)
    return np.where(thin, a + 1, a), a


@PAPER.identity("slow", ref="19", tex="x=x", on=rc.Space(fields={"x": rc.reals(12)}))
def slow(x):
    """Four thousand branches, and a product that takes a while at a point."""
    return np.abs(x) * (1 + x) ** 40, np.abs(-x) * (1 + x) ** 40


@PAPER.identity("unsure", ref="20", tex="\\sqrt{w^2}=w", on=LARGE)
def unsure(x):
    """sqrt(w^2) = w for w = x^2 - x + 1, of which ranges do not say that it is positive."""
    w = x * x - x + 1
    return np.sqrt(w * w), w


@PAPER.identity("compared", ref="21", tex="\\sqrt{x^2}=|x|", on=NUMBERS)
def compared(x):
    """What was compared before tells the sign, also on a branch that the point is not on."""
    return np.sqrt(x * x) * np.exp(x), np.where(x >= 0, x, -x) * np.exp(x)


@PAPER.identity("within", ref="22", tex="e^{\\log|w|}", on=LARGE)
def within(x):
    """The logarithm of a product of two numbers, of which each is positive."""
    w, y = 1 + x * np.exp(x), x + np.exp(-x)
    return np.exp(np.log(w * y) - np.log(y)), w


@PAPER.identity("lower", ref="23", tex="\\sqrt{w^2}=-w", on={"x": rc.interval(high=2.0)})
def lower(x):
    """sqrt((x - 1)^2) = 1 - x, which is false above 1."""
    return np.sqrt((x - 1) ** 2), 1 - x


PLANE = rc.Space(fields={"x": rc.interval(), "y": rc.interval()})


def disc(x, y):
    """Positive in a small disc alone."""
    return (1 - 10**7 * ((x - 0.37) ** 2 + (y - 0.61) ** 2)) / 10**7


@PAPER.identity("fourth", ref="30", tex="(a^4)^{1/4}=-a", on=PLANE)
def fourth(x, y):
    """False in a small disc, where a is positive; no degree is known of it."""
    a = np.sin(disc(x, y))
    return (a**4) ** 0.25, -a


@PAPER.identity("none", ref="31", tex="q/q=1", on=PLANE)
def none(x, y):
    """In a small disc a number is zero over zero, which is not equal to itself."""
    q = np.sqrt(disc(x, y) ** 2) - disc(x, y)
    return np.where(q / q == 1, 1, 2), 1 + 0 * x

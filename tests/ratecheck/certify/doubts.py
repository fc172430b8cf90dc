"""False identities made to pass: each is true at nearly all points, or where nothing is seen."""

import numpy as np

import ratecheck as rc

PAPER = rc.Paper("doubt", "identities that are false somewhere")
UNIT = {"x": rc.interval()}


@PAPER.identity("infinite", ref="1", on=UNIT)
def infinite(x):
    """One side is infinite within 10^-60 of 1/2."""
    near = np.abs(x - 0.5) < (10 + 0 * x) ** -60
    return np.where(near, np.inf, x), x


@PAPER.identity("opposite", ref="2", on=UNIT)
def opposite(x):
    """The sides are infinite within 10^-60 of 1/2, one up and one down."""
    near = np.abs(x - 0.5) < (10 + 0 * x) ** -60
    return np.where(near, np.inf, x), np.where(near, -np.inf, x)


@PAPER.identity("alike", ref="3", on=UNIT)
def alike(x):
    """This one is true: both sides are infinite in the same way above 1/2."""
    return np.where(x > 0.5, np.inf, x), np.where(x - 0.5 > 0, np.inf, x)


@PAPER.identity("ends", ref="4", on={"x": rc.interval(low=-1, high=1)})
def ends(x):
    """This one is true: the ends of the interval are whole numbers of Python."""
    return x + x, 2 * x


@PAPER.identity("roots", ref="5", on={"x": rc.reals(), "y": rc.reals()})
def roots(x, y):
    """sqrt(x) sqrt(y) is -sqrt(x y) in complex numbers where x and y are negative."""
    return np.sqrt(x) * np.sqrt(y), np.sqrt(x * y)

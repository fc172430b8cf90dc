"""False identities made to pass: each is true at nearly all points, or where nothing is seen."""

import numpy as np
from numpy import nan_to_num

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
    """Where x and y are negative the left side has no value, and the right one has."""
    return np.sqrt(x) * np.sqrt(y), np.sqrt(x * y)


def _at_most_n(fields):
    return {**fields, "k": np.minimum(fields["k"], fields["n"])}


COUNTS = {"x": rc.interval(), "k": rc.whole_numbers(low=0, high=99)}
MANY = {"x": rc.interval(), "k": rc.whole_numbers(low=0, high=10**6)}
PAIRS = rc.Space(
    fields={
        "x": rc.interval(),
        "k": rc.whole_numbers(low=0, high=9),
        "n": rc.whole_numbers(low=0, high=9),
    },
    repair=_at_most_n,
)


@PAPER.identity("one_count", ref="6", on=COUNTS)
def one_count(x, k):
    """Another number for one of 100 whole numbers."""
    return x + (1 if int(k) == 37 else 0), x


@PAPER.identity("one_branch", ref="7", on=COUNTS)
def one_branch(x, k):
    """Another number for one of 100 whole numbers, within 10^-60 of 1/2."""
    near = np.abs(x - 0.5) < (10 + 0 * x) ** -60
    return np.where(near, x + (1 if int(k) == 37 else 0), x), x


@PAPER.identity("one_pair", ref="8", on=PAIRS)
def one_pair(x, k, n):
    """Another number for one of 55 pairs, which a repair makes."""
    return x + (1 if (int(k), int(n)) == (3, 8) else 0), x


@PAPER.identity("no_pair", ref="9", on=PAIRS)
def no_pair(x, k, n):
    """This one is true: another number for pairs that the repair leaves none of."""
    return x + (1 if k > n else 0), x


@PAPER.identity("one_in_a_million", ref="10", on=MANY)
def one_in_a_million(x, k):
    """Another number for one whole number."""
    return x + np.where(k == 345678, 1, 0), x


@PAPER.identity("one_root", ref="11", on=MANY)
def one_root(x, k):
    """Another number for whole numbers below 5: sqrt((k - 5)^2) = k - 5 is true of most others."""
    return np.sqrt((k - 5) ** 2) + 0 * x, k - 5 + 0 * x


@PAPER.identity("cube", ref="12", on=MANY)
def cube(x, k):
    """This one is true of all numbers, whole ones among them."""
    return (x + k) ** 3, x**3 + 3 * x**2 * k + 3 * x * k**2 + k**3


@PAPER.identity("equal", ref="13", on=UNIT)
def equal(x):
    """Another number where x is 3/10."""
    return np.where(x == 0.3, x + 1, x), x


@PAPER.identity("between", ref="14", on=UNIT)
def between(x):
    """Another number where x is 3/10, by two comparisons that both hold there alone."""
    return np.where((x - 0.3 <= 0) & (x - 0.3 >= 0), x + 1, x), x


@PAPER.identity("end", ref="15", on=UNIT)
def end(x):
    """Another number where x is 0, the end of its interval."""
    return np.where(x > 0, x, x + 1), x


@PAPER.identity("sides", ref="16", on=UNIT)
def sides(x):
    """This one is true, also where x is 3/10, which belongs to one side; and roots have limits."""
    return np.where(x <= 0.3, 0.3 - x, x - 0.3), np.abs(x - 0.3) + np.sqrt(x) - np.sqrt(x)


@PAPER.identity("by_type", ref="17", on=UNIT)
def by_type(x):
    """Another number for ordinary numbers: by their type."""
    return x + (1 if isinstance(x, float) else 0), x


@PAPER.identity("by_kind", ref="18", on={"x": rc.reals("d")})
def by_kind(x):
    """Another number for ordinary arrays: by what they hold."""
    return x + (1e-3 if x.dtype.kind == "f" else 0), x


@PAPER.identity("by_exception", ref="19", on=UNIT)
def by_exception(x):
    """Another number where something else than a number becomes a float."""
    try:
        return float(x) + 1, x
    except Exception:
        return x, x


@PAPER.identity("power", ref="20", on=UNIT)
def power(x):
    """Another number where x is 37/100, at which a power is zero."""
    return 7 + np.where(np.abs(x - 0.37) ** 0.3 == 0, 1, 0) + 0 * x, 7 + 0 * x


@PAPER.identity("infinitely_low", ref="21", on=UNIT)
def infinitely_low(x):
    """Another number where x is 37/100, at which a logarithm is minus infinity."""
    return np.where(np.log(np.abs(x - 0.37)) == -np.inf, x + 1, x), x


@PAPER.identity("power_of_infinity", ref="22", on=UNIT)
def power_of_infinity(x):
    """Another number where x is 37/100, at which e is taken to the power of minus infinity."""
    return np.where(np.exp(2 * np.log(np.abs(x - 0.37))) > 0, x, x + 1), x


@PAPER.identity("power_of_a_size", ref="23", on=UNIT)
def power_of_a_size(x):
    """This one is true: the power that is compared is of a number that is not zero."""
    return np.where((x + 1) ** 0.3 > 0, x, x + 1), x


@PAPER.identity("negated", ref="24", on=UNIT)
def negated(x):
    """Another number within 10^-9 of 3/10: NumPy negates an outcome, and ``~True`` is -2."""
    return np.where(~(np.abs(x - 0.3) < 1e-9), x, x + 1), x


@PAPER.identity("last", ref="25", on=UNIT)
def last(x):
    """Another number within 10^-9 of 3/10, where a root has no value, which NumPy sorts first."""
    root = np.sqrt((x - 0.3) ** 2 - 1e-18)
    return np.argmin(np.array([-1 + 0 * x, root])) + x, x


@PAPER.identity("clipped", ref="26", on=UNIT)
def clipped(x):
    """Another number within 10^-9 of 3/10, where what is clipped has no value."""
    root = np.sqrt((x - 0.3) ** 2 - 1e-18)
    return np.where(np.clip(root, 0.25, 1) <= 1, x, x + 1), x


@PAPER.identity("without_nan", ref="27", on=UNIT)
def without_nan(x):
    """Another number within 10^-9 of 3/10, where what has no value becomes 2."""
    root = np.sqrt((x - 0.3) ** 2 - 1e-18)
    return np.where(np.nan_to_num(root, nan=2.0) <= 1, x, x + 1), x


@PAPER.identity("without_nan_by_name", ref="27", on=UNIT)
def without_nan_by_name(x):
    """The same by a function that was imported before the proof."""
    root = np.sqrt((x - 0.3) ** 2 - 1e-18)
    return np.where(nan_to_num(root, nan=2.0) <= 1, x, x + 1), x


@PAPER.upper("not_negative", ref="28", on=UNIT)
def not_negative(x):
    """This one is true: NumPy negates an outcome by ``~``."""
    return np.where(~(x >= 0), 2, x), 1 + 0 * x


@PAPER.upper("either", ref="29", on=UNIT)
def either(x):
    """This one is true: NumPy's sum of two outcomes is one."""
    return ((x >= 0) + (x <= 1)) * 1.0 + 0 * x, 1 + 0 * x


@PAPER.upper("largest", ref="30", on=UNIT)
def largest(x):
    """This one has no value at 1/4, where it is not violated."""
    return 2 * np.maximum(np.where(x == 0.25, np.nan, 0 * x), 0.5), 2 + 0 * x


@PAPER.identity("clipped_nan", ref="31", on=UNIT)
def clipped_nan(x):
    """This one is true: NaN that is clipped is NaN, which is at most no number."""
    return np.where(np.clip(np.where(x < 0.5, np.nan, x), 0.25, 1) <= x - 1, x + 1, x), x

"""Claims of a user's file and the theorems that state them, true and false."""

import ratecheck as rc
from linsys.linalg import norm, squared

PAPER = rc.Paper("vec", "claims about vectors")
PAIRS = rc.Space(
    fields={"v": rc.reals("d"), "w": rc.reals("d"), "a": rc.interval(low=0.0, high=1.0)},
    sizes={"d": (1, 3)},
)


@PAPER.upper("mix", ref="1", tex="|av+(1-a)w|^2", on=PAIRS)
def mix(v, w, a):
    """|a v + (1 - a) w|^2 <= a |v|^2 + (1 - a) |w|^2."""
    return squared(a * v + (1 - a) * w), a * squared(v) + (1 - a) * squared(w)


@PAPER.lower("product", ref="2", tex="v'w", on=PAIRS)
def product(v, w, a):
    """-<v, w> >= -|v| |w|."""
    return -(v * w).sum(), -norm(v) * norm(w)


@PAPER.upper("length", ref="3", tex="|v+w|", on=PAIRS)
def length(v, w, a):
    """|v + w| <= |v| + |w|."""
    return norm(v + w), norm(v) + norm(w)


@PAPER.upper("other", ref="4", tex="|v+w|^2", on=PAIRS)
def other(v, w, a):
    """|v + w|^2 <= 2 |v|^2 + 3 |w|^2, of which the theorem says something else."""
    return squared(v + w), 2 * squared(v) + 3 * squared(w)


@PAPER.upper("unmet", ref="5", tex="|v|^2", on=PAIRS)
def unmet(v, w, a):
    """|v|^2 <= |v|^2 + |w|^2, by an assumption that does not hold."""
    return squared(v), squared(v) + squared(w)


def _given(v, w, a):
    return {"v": v, "w": w, "a": a, "m": norm(v), "n": norm(w)}


@rc.gram.theorem("vec.mix", at=_given)
def mix_theorem(p):
    """Convexity of the square, for every a in [0, 1]."""
    v, w = p.vectors("v w")
    a = p.parameter("a")
    p.assume(a <= 1, "a <= 1")
    p.squares(v, w)
    p.show((a * v + w - a * w).squared <= a * v.squared + w.squared - a * w.squared)


@rc.gram.theorem("vec.product", at=_given)
def product_theorem(p):
    """The inequality of Cauchy and Schwarz."""
    v, w = p.vectors("v w")
    m, n = p.parameter("m"), p.parameter("n")
    p.bounded(v, m, "|v|")
    p.bounded(w, n, "|w|")
    p.cauchy_schwarz(v, w, "Cauchy-Schwarz")
    p.show(-m * n <= -(v @ w))


@rc.gram.theorem("vec.length", at=_given, power=2)
def length_theorem(p):
    """The triangle inequality, squared."""
    v, w = p.vectors("v w")
    m, n = p.parameter("m"), p.parameter("n")
    p.bounded(v, m, "|v|")
    p.bounded(w, n, "|w|")
    p.cauchy_schwarz(v, w, "Cauchy-Schwarz")
    p.show((v + w).squared <= (m + n) ** 2)


@rc.gram.theorem("vec.other", at=_given)
def other_theorem(p):
    """|v + w|^2 <= 2 |v|^2 + 2 |w|^2, which is not the claim."""
    v, w = p.vectors("v w")
    p.show((v + w).squared <= 2 * v.squared + 2 * w.squared)


@rc.gram.theorem("vec.unmet", at=_given)
def unmet_theorem(p):
    """From an assumption that instances do not meet."""
    v, w = p.vectors("v w")
    p.assume(v.squared <= w.squared, "|v| <= |w|")
    p.show(v.squared <= v.squared + w.squared)


@PAPER.upper("false", ref="6", tex="|v+w|^2", on=PAIRS)
def false(v, w, a):
    """|v + w|^2 <= 2 |v|^2 + (19/10) |w|^2, which is false near v = w alone."""
    return squared(v + w), 2 * squared(v) + 19 * squared(w) / 10


@rc.gram.theorem(
    "vec.false", at=_given, back=lambda worst: {"v": worst["v"], "w": worst["w"], "a": 0.5}
)
def false_theorem(p):
    """The same for all dimensions."""
    v, w = p.vectors("v w")
    p.show((v + w).squared <= 2 * v.squared + "19/10" * w.squared)

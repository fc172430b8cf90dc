"""Two-sided constants: the best one lies between what a search finds and what boxes prove.

For an upper bound the constant is the smallest q with measured <= q bound, for a lower one that
with bound <= q measured: the largest ratio of the two sides, as in a verdict. From below it is the
ratio at an instance, which balls enclose, see :mod:`ratecheck._certify.ratios`. From above it is
proved by branch and bound over boxes that hold every instance of the sizes; here the tree of a
certificate is gone through anew. :mod:`ratecheck._certify.constant_search` finds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ratecheck._certify.branch import replay
from ratecheck._certify.check import interval, rational
from ratecheck._certify.cover import Chart, Cover, Weights
from ratecheck._certify.enclosures import Unprovable
from ratecheck._certify.examine import Problem, problem
from ratecheck._certify.ratios import of_sizes, verify_found
from ratecheck._certify.stated import check_sizes, same, sizes_of_instance
from ratecheck._claims.certificates import evaluate
from ratecheck._claims.claim import Claim
from ratecheck._claims.samples import draw
from ratecheck._claims.space import Fault, Sizes
from ratecheck._verdicts.certificates import IN_RANGES

__all__ = ["ARITHMETIC", "KEYS", "KIND", "MORE", "replayed", "said", "verify"]

KIND, ARITHMETIC = "constant", "float64, rounded outward"
#: What a certificate says of a bound with a constant below 1, where the boxes show it.
SIGNED = "not negative"
#: What a certificate has to say of a constant.
KEYS = {"sizes", "ratio", "target", "alike", "boxes", "tree", "instance"}
#: What it may say besides.
MORE = {"charts", "bound", "formula", "at"}
#: So many instances are drawn and looked at in float64, and what rounding may add to a tightness.
_DRAWN, _ROUNDED = 100, 1e-6


def verify(content: Mapping[str, Any], claim: Claim) -> str:
    """Evaluate every box of a certificate's tree anew; what it proves, in a line.

    Raises:
        Unprovable: it does not prove what it says.
    """
    if "at" in content and "formula" not in content:
        raise Unprovable("`at` must stand beside a `formula`, of whose boxes it is a point")
    known = replayed(content, claim)
    if "bound" in content and not ("bound" in known and content["bound"] == SIGNED):
        raise Unprovable(f"`bound` must be that of the boxes; found {content['bound']!r:.80}")
    return said(content)


def replayed(content: Mapping[str, Any], claim: Claim) -> dict[str, str]:
    """Evaluate every box of a certificate's tree anew; what is known of the bound besides.

    With a constant below 1 a bound holds as it stands only where it is not negative.

    Raises:
        Unprovable: the boxes do not prove the constant.
    """
    if claim.relation == "==":
        raise Unprovable(f"`relation` must be <= or >= of a bound; found {claim.relation}")
    if content["arithmetic"] != ARITHMETIC:
        raise Unprovable(f"`arithmetic` must be {ARITHMETIC}; found {content['arithmetic']!r}")
    try:
        low, high = interval(content["ratio"])
        target, tree, sizes = float(content["target"]), content["tree"], content["sizes"]
        alike = [tuple(map(rational, row)) for row in content["alike"]]
        charts = [tuple(chart) for chart in content.get("charts", [])]
        lists = content["ratio"], content["alike"], *content["alike"], *content.get("charts", [])
        if not all(isinstance(one, list) for one in lists):
            raise ValueError("not a list")
        if content["target"] != repr(target) or not isinstance(tree, str):
            raise ValueError("not the text of a float")
        proved = float(high)
        proved = proved if Fraction(proved) <= high else float(np.nextafter(proved, 0.0))
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise Unprovable(
            f"`ratio`, `target` and `alike` must be numbers, as text in lists: {error}"
        ) from None
    if not (0 <= low <= high and 0 < target <= proved):
        raise Unprovable(
            "`ratio` must be two numbers in order, and `target` not above them; "
            f"found {content['ratio']} and {target}"
        )
    check_sizes(claim, sizes)
    cover_problem = _checked(claim, sizes, alike, charts)
    boxes, signed = replay(cover_problem, tree, target, proved)
    if not same(boxes, content["boxes"]):
        raise Unprovable(f"`boxes` must be {boxes}; found {content['boxes']!r:.80}")
    _check_drawn(claim, sizes, float(high))
    if low > 0:
        verify_found({**content, "ratio": content["ratio"][0]}, claim)
    elif sizes_of_instance(claim, content["instance"]) != sizes:
        raise Unprovable(f"`instance` must be of the sizes {sizes}; found others")
    return {"bound": SIGNED} if signed and high < 1 else {}


def _check_drawn(claim: Claim, sizes: Sizes, high: float) -> None:
    """Refuse an upper end that a drawn instance exceeds in float64: boxes had another formula."""
    claim = of_sizes(claim, sizes)
    tightness = high if high <= 1 else 2 - 1 / high
    for batch in draw(claim.space, 0, 0, _DRAWN):
        passed = batch.subset(np.flatnonzero(batch.passed))
        if not len(passed):
            continue
        try:
            sides = evaluate(claim, passed)
        except Fault:  # it has no value there
            continue
        bottom = sides.bound if claim.relation == "<=" else sides.measured
        if ((sides.tightness > tightness + _ROUNDED) & (bottom > 0) & ~sides.doubtful).any():
            raise Unprovable(
                f"the ratio must be at most {high:.6g} in float64 as well; found a larger one, "
                "as of a formula that depends on the type of numbers"
            )


def _checked(
    claim: Claim, sizes: Sizes, alike: Sequence[Weights], charts: Sequence[Chart]
) -> Problem:
    """The problem with stated differences of degrees; whether they are enough is seen in the boxes.

    Raises:
        Unprovable: they are of other coordinates.
    """
    k = len(Cover(claim.space, sizes, charts=charts).coordinates)
    if any(len(row) != k for row in alike):
        raise Unprovable(f"`alike` must have rows of {k} numbers")
    return problem(claim, sizes, alike, charts)


def said(content: Mapping[str, Any]) -> str:
    """What a certificate says, in a line.

    >>> said({"ratio": ["0.99985", "1.0004"], "sizes": {"n": 2}, "boxes": 12})[:38]
    'ratio in [0.99985, 1.0004] for n = 2, '
    """
    sizes = ", ".join(f"{name} = {size}" for name, size in content["sizes"].items())
    where = f" for {sizes}" if sizes else ""
    low, high = content["ratio"]
    if Fraction(high) < 1 and "bound" not in content:
        where += " where the bound is not negative"
    return f"ratio in [{low}, {high}]{where}{IN_RANGES}; {content['boxes']:,} boxes"

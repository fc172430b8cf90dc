"""Two-sided constants: the best one lies between what a search finds and what boxes prove.

For an upper bound the constant is the smallest q with measured <= q bound, for a lower one that
with bound <= q measured: the largest ratio of the two sides, as in a verdict. From below it is the
ratio at an instance, which balls enclose. From above it is proved by branch and bound over boxes
that hold every instance of the sizes.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from linsys.linalg.balls import Undecided
from linsys.validate import InputError
from ratecheck._certify.at_a_point import Broken
from ratecheck._certify.branch import Branching, grown, replay
from ratecheck._certify.certificate import head
from ratecheck._certify.check import Interval, interval, rational
from ratecheck._certify.cover import Chart, Cover, Weights, charts_of, independent
from ratecheck._certify.enclosures import BITS, Unprovable, enclose
from ratecheck._certify.examine import Problem, Unscaled, problem
from ratecheck._certify.stated import check_met, check_sizes, same, sizes_of_instance
from ratecheck._claims.certificates import (
    EXCESS,
    certify as in_high_precision,
    evaluate,
    ratio,
)
from ratecheck._claims.claim import Claim, Relation
from ratecheck._claims.samples import Batch
from ratecheck._claims.space import Fault, Fields, Sizes
from ratecheck._discover.catalogue import Item
from ratecheck._processes.limit import TimeLimit, time_limit
from ratecheck._search.search import EFFORTS, Effort, Search
from ratecheck._verdicts.certificates import IN_RANGES
from ratecheck._verdicts.verdict import plain, tightest_instance

__all__ = [
    "ARITHMETIC",
    "KEYS",
    "KIND",
    "MORE",
    "Least",
    "constant",
    "found",
    "least",
    "of_sizes",
    "smallest",
    "verify",
    "verify_found",
]

KIND, ARITHMETIC = "constant", "float64, rounded outward"
#: What a certificate says of a bound with a constant below 1, where the boxes show it.
SIGNED = "not negative"
#: What a certificate has to say of a constant.
KEYS = {"sizes", "ratio", "target", "alike", "boxes", "tree", "instance"}
#: What it may say besides.
MORE = {"charts", "bound"}
#: How far above the ratio found a constant is proved: of bounds that are attained, of others, and
#: of all where that took little time.
ATTAINED, WITHIN, CLOSE = 0.019, 0.0095, 0.0005
#: The share of the limit that the first proof may take for a second one.
_LITTLE = 0.1
#: The shares of the limit for the coordinates of the space, and for all others, before it is seen
#: with which of them something is known everywhere.
_FIRST, _OTHERS = 0.2, 0.5
#: The search for a ratio from below.
EFFORT = Effort(random=1_500, examples=1, ascents=2, budget=1_500)
#: That of all sizes together.
_ALL = EFFORTS["normal"]
#: Combinations of sizes that are looked at for one at which the claim says something.
_SIZES = 12
#: A ratio from which on a bound that is proved is as good as attained; and one from which on its
#: constant is known to 1 %.
_NEAR, _KNOWN = Fraction(999, 1000), Fraction(100, 101)
#: A ratio from which on other searches at the same sizes may come near 1, and their seeds.
_CLIMBING, _SEEDS = Fraction(9, 10), range(1, 4)
#: What is said of a certificate is rounded to so many digits, outward.
_DIGITS = 12
#: A certificate states the constant of the search and this share of it, against rounding; or, where
#: the checker's way through the tree needs more, the second one, far below the 1 % that counts.
_MARGIN, _SLACK = 1e-9, 4e-4
#: The claim is evaluated in the middles of so many of the worst boxes at each step; where that
#: finds larger ratios than were to be proved, the search begins anew, so often at most.
_MIDDLES, _RESTARTS = 8, 12
#: Seconds after which a search is kept once more, so that a kill loses no more.
_KEPT = 10.0
#: A tree that is found level by level has at most so many times the boxes of the first one.
_GROWN = 4
#: Seconds that the evaluation under way may take after the limit.
_GRACE = 3.0

#: Told of a search: boxes so far, boxes left, the ratio found and the one that is proved so far.
Doing = Callable[[int, int, tuple[float, float]], None]


class Least:
    """The largest ratio that a search found at given sizes.

    Args:
        sizes: of the instance.
        ratio: of the two sides; 0 where no instance has two positive sides.
        instance: plain lists by field.
        surely: a rational that the ratio at the instance is not below, by balls; None where balls
            do not say so.
    """

    def __init__(
        self, sizes: Sizes, ratio: float, instance: Mapping[str, Any], surely: Fraction | None
    ) -> None:
        self.sizes, self.ratio, self.instance, self.surely = sizes, ratio, instance, surely


def of_sizes(claim: Claim, sizes: Sizes) -> Claim:
    """The claim about instances of these sizes alone.

    Raises:
        InputError: the space has other sizes.
    """
    check_sizes(claim, sizes)
    space = claim.space

    def fits(corner: Fields) -> bool:
        stacks = {name: np.asarray(corner[name], dtype=float)[None] for name in space.fields}
        try:
            return space.sizes_of(stacks) == sizes
        except InputError:
            return False

    corners = [corner for corner in space.corners if fits(corner)]  # type: ignore[arg-type]
    fixed = {name: (size, size) for name, size in sizes.items()}
    return replace(claim, space=replace(space, sizes=fixed, corners=corners), family=())


def smallest(claim: Claim) -> Least:
    """The largest ratio found at the smallest sizes at which both sides are ever positive."""
    nothing = None
    for sizes in claim.space.all_sizes()[:_SIZES]:
        one = least(claim, sizes)
        if one.ratio > 0:
            return one
        nothing = nothing or one
    assert nothing is not None
    return nothing


def least(claim: Claim, sizes: Sizes | None, seed: int = 0) -> Least:
    """The largest ratio of the two sides that a search finds at these sizes, or at all sizes."""
    effort = _ALL if sizes is None else EFFORT
    search = Search(replace(claim, family=()) if sizes is None else of_sizes(claim, sizes), seed)
    search.run(effort)
    if not search.instances:
        return Least(sizes or {}, 0.0, {}, None)
    _, scored = tightest_instance(search, effort)
    largest = ratio(claim.relation, in_high_precision(claim, scored.fields))
    instance = plain(scored.fields)
    if largest is None or largest <= 0:
        return Least(scored.sizes, 0.0, instance, None)
    return Least(scored.sizes, largest, instance, at_least(claim, instance))


def at_least(claim: Claim, instance: Mapping[str, Any]) -> Fraction | None:
    """A rational that the ratio of the sides at an instance is not below, by balls.

    Of several entries it is the largest one; an entry whose bound may be zero has none.
    """
    best = None
    for bits in BITS[:3]:
        try:
            enclosed = enclose(claim, instance, bits, by=_quotient)
        except (Undecided, Unprovable, InputError):
            continue
        try:
            check_met(claim, instance, enclosed.assumptions)
        except Unprovable:  # what the claim is given, or assumes
            return None
        ratios = [
            max(_quotient(claim.relation, case.measured, case.bound), Fraction(0))
            for case in enclosed.cases
        ]
        best = max(min(ratios), best or Fraction(0))
        if min(ratios) > 0:
            return best
    return best or None


def _quotient(relation: Relation, measured: Interval, bound: Interval) -> Fraction:
    """What the ratio of two sides is not below; -1 where it has no sense."""
    top, bottom = (bound, measured) if relation == ">=" else (measured, bound)
    return top[0] / bottom[1] if bottom[0] > 0 else Fraction(-1)


def found(claim: Claim, known: Sequence[Any] = ()) -> dict[str, Any]:
    """What a proof that a bound holds says of its best constant: ``found``, or nothing.

    It is a ratio of the two sides that balls prove at an instance, with the instance and its sizes:
    the largest one that a search finds, the smallest sizes first, up to those at which the constant
    is known to 1 %. Where none of the smallest will do, as where a side is zero at all of them,
    there is a search of all sizes together. A limit of time ends the search, not the proof.

    Args:
        claim: an upper or a lower bound.
        known: instances that were found before, plain lists by field; what is none of the claim's
            space says nothing.
    """
    best: Least | None = None
    try:
        before = [one for instance in known if (one := _evaluated(claim, instance))]
        for sizes in (*claim.space.all_sizes()[:_SIZES], None):
            best = max([best, *(one for one in before if sizes in (None, one.sizes))], key=_surely)
            best = _searched_from(best, claim, sizes)
            if _surely(best) >= _KNOWN:
                break
    except TimeLimit:
        pass
    if best is None:
        return {}
    exact = str(_surely(best))  # a quotient that rounding would put below what it is
    ratio = exact if len(exact) <= _DIGITS else rounded(_surely(best), ROUND_FLOOR)
    return {"found": {"ratio": ratio, "sizes": dict(best.sizes), "instance": dict(best.instance)}}


def _searched_from(best: Least | None, claim: Claim, sizes: Sizes | None) -> Least | None:
    """The largest ratio known, or what searches at these sizes, or all, find that is larger."""
    for seed in (0, *_SEEDS)[: 1 if sizes is None else None]:
        try:
            one = least(claim, sizes, seed)
        except Fault:
            break
        best = max(best, one, key=_surely)
        if _surely(best) >= _NEAR or _surely(one) < _CLIMBING:
            break
    return best


def _evaluated(claim: Claim, instance: Any) -> Least | None:
    """The ratio at an instance; None where it is none of the claim's space or balls prove none."""
    try:
        given = sizes_of_instance(claim, instance)
    except Unprovable:
        return None
    sizes, surely = {name: given[name] for name in claim.space.sizes}, at_least(claim, instance)
    return None if surely is None else Least(sizes, float(surely), instance, surely)


def _surely(one: Least | None) -> Fraction:
    """The ratio that balls prove; 0 where they prove none."""
    return Fraction(0) if one is None or one.surely is None else one.surely


def verify_found(content: Any, claim: Claim) -> None:
    """Evaluate the ratio of the two sides at a certificate's instance anew.

    Args:
        content: ``ratio``, ``sizes`` and ``instance``.
        claim: an upper or a lower bound.

    Raises:
        Unprovable: the ratio there is smaller, or the instance has other sizes.
        InputError: the claim has no such sizes.
    """
    try:
        low = rational(content["ratio"])
        sizes, instance = content["sizes"], content["instance"]
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise Unprovable(
            f"`ratio`, `sizes` and `instance` must be those of an instance: {error!r}"
        ) from None
    check_sizes(claim, sizes)
    given = sizes_of_instance(claim, instance)
    if given != sizes:
        raise Unprovable(f"`instance` must be of the sizes {sizes}; found {given}")
    least_ratio = at_least(claim, instance)
    if least_ratio is None or least_ratio < low:
        shown = None if least_ratio is None else float(least_ratio)
        raise Unprovable(f"the ratio at `instance` must be {low} or more; found {shown}")


def constant(
    item: Item,
    sizes: Sizes | None = None,
    limit: float = 60.0,
    *,
    state: Path | None = None,
    doing: Doing = lambda boxes, left, gap: None,
) -> tuple[dict[str, Any] | None, str]:
    """The certificate of a bound's constant and where a gap is left, or why there is none.

    Args:
        item: an upper or a lower bound.
        sizes: of the instances; by default the smallest ones at which the claim says something.
        limit: seconds of CPU time.
        state: file in which a search that the limit ends is kept, and from which it goes on.
        doing: told how far it is.

    Raises:
        InputError: the claim has no such sizes.
        Broken: an instance breaks the bound, which the search had not found before.
    """
    claim = item.entry
    assert isinstance(claim, Claim)
    before = time.process_time()
    try:
        with time_limit(limit):
            low = smallest(claim) if sizes is None else least(claim, sizes)
    except TimeLimit as late:
        return None, f"the search for a ratio took too long: {late}"
    except Fault as fault:
        return None, f"the search for a ratio ended: {fault}"
    if low.ratio <= 0:
        return None, "at the instance nearest to a violation the two sides are not both positive"
    over = _Over(item, claim, low, state, doing)
    left = max(limit - (time.process_time() - before), 1.0)
    try:
        with time_limit(left + _GRACE):
            return over.prove(left / 2)  # going through the tree once more takes as long
    except TimeLimit:
        return None, "one evaluation takes longer than the limit"
    except Unprovable as error:
        return None, str(error)


class _Larger(Exception):
    """A ratio was found that is above what was to be proved."""


class _Over:
    """Branch and bound for one claim, above a ratio that was found.

    The claim is evaluated at the middles of the boxes in which its constant is largest: a larger
    ratio there is what is proved from then on, and one above 1 breaks the bound.
    """

    def __init__(
        self, item: Item, claim: Claim, low: Least, state: Path | None, doing: Doing
    ) -> None:
        self.item, self.claim, self.low, self.state, self.doing = item, claim, low, state, doing
        self.restarts = 0

    def prove(self, limit: float) -> tuple[dict[str, Any] | None, str]:
        """The certificate of the best constant in this time; None where there is no finite one.

        Where nothing is known about some place after a part of the time, other coordinates are
        tried, and those are kept with which something is known everywhere.
        """
        start = time.process_time()
        plain = self._problem(())
        branching = self._searched(plain, _FIRST * limit)
        if not np.isfinite(branching.proved):
            charts = charts_of(self.claim.space, self.low.sizes)
            for one in charts:
                try:
                    other = self._problem(one)
                    tried = self._searched(other, _OTHERS * limit / len(charts))
                except (Unprovable, Fault):
                    continue
                if np.isfinite(tried.proved):
                    branching = tried
                    break
        return self._finished(branching, limit, start)

    def _problem(self, charts: Sequence[Chart]) -> Problem:
        """The bound with these charts and all scalings that its first boxes allow."""
        alike: Sequence[Weights] | None = None
        while True:
            try:
                made = problem(self.claim, self.low.sizes, alike, charts)
                low, high = made.cover.roots()
                made.examine(low[:, :1], high[:, :1], 1.0, 1.0)
                return made
            except Unscaled as error:
                alike = independent([*made.alike, *error.alike])

    def _begun(self, made: Problem) -> Branching:
        """A search with the first target, from its first boxes or from where it was kept."""
        within = ATTAINED if self.low.ratio > 1 - 1e-7 else WITHIN
        branching = Branching(made, self.low.ratio * (1 + within))
        self._load(branching)
        return branching

    def _searched(self, made: Problem, seconds: float) -> Branching:
        """A search with the first target, for some time."""
        while True:
            try:
                branching = self._begun(made)
                self._go_on(branching, seconds)
                return branching
            except _Larger:
                continue
            except Unscaled as error:
                alike = independent([*made.alike, *error.alike])
                made = problem(self.claim, self.low.sizes, alike, made.cover.charts)

    def _go_on(self, branching: Branching, seconds: float, *, keep: bool = False) -> str:
        """Divide boxes for some time; why it ended before, if it did. ``keep`` it now and then."""
        start, kept = time.process_time(), time.monotonic()
        try:
            while not branching.done and time.process_time() - start < seconds:
                self._try_middles(branching)
                branching.step()
                gap = self.low.ratio, branching.proved
                self.doing(len(branching.codes), len(branching.ratio), gap)
                if keep and time.monotonic() - kept > _KEPT:
                    self._save(branching)
                    kept = time.monotonic()
        except Unscaled:
            raise
        except Unprovable as error:
            return str(error)
        return ""

    def _try_middles(self, branching: Branching) -> None:
        """Evaluate the claim at the middles of the worst boxes.

        Raises:
            Broken: it is violated there.
            _Larger: a ratio there is above the target.
        """
        if self.low.ratio > 1 + EXCESS:  # it is broken, and by how much is asked
            return
        one = _tightest(self.claim, self.low.sizes, branching)
        if one is None or one.ratio <= self.low.ratio:
            return
        self.low = one
        if one.ratio > branching.target and self.restarts < _RESTARTS:
            self.restarts += 1
            raise _Larger

    def _finished(
        self, branching: Branching, limit: float, start: float
    ) -> tuple[dict[str, Any] | None, str]:
        while True:
            left = limit - (time.process_time() - start)
            try:
                reason = self._go_on(branching, left, keep=True)
                break
            except _Larger:
                branching = self._begun(branching.problem)
            except Unscaled as error:
                made = branching.problem
                alike = independent([*made.alike, *error.alike])
                made = problem(self.claim, self.low.sizes, alike, made.cover.charts)
                branching = Branching(made, branching.target)
        searched = [branching]
        left = limit - (time.process_time() - start)
        if not branching.done:
            self._save(branching)
        elif limit - left <= _LITTLE * limit:
            closer = Branching(branching.problem, self.low.ratio * (1 + CLOSE))
            with contextlib.suppress(Unscaled, _Larger):
                self._go_on(closer, left)
                searched.insert(0, closer)
        for one in sorted(searched, key=lambda branching: branching.proved):
            if np.isfinite(one.proved) and (certificate := self._confirmed(one)):
                if self.state is not None and branching.done:
                    self.state.unlink(missing_ok=True)
                gap = "" if one.done else f"the gap is where {one.worst()}"
                return certificate, gap
        if np.isfinite(branching.proved):
            return None, "the tree that was found is not confirmed where it is evaluated anew"
        return None, reason or f"the limit ended it; nothing is known where {branching.worst()}"

    def _confirmed(self, branching: Branching) -> dict[str, Any] | None:
        """The certificate, if the checker's way through the tree proves it.

        Forms depend a little on the boxes that are evaluated together with theirs, so that some
        leaf may need a constant that is larger by a little. Where it needs one that is much larger,
        as with comparisons that are open, another tree is found in the checker's order of boxes.
        """
        for margin in (_MARGIN, _SLACK):
            certificate = self._certificate(branching, margin)
            with contextlib.suppress(Unprovable):
                return certificate | replayed(certificate, self.claim)
        if not branching.done:
            return None
        with contextlib.suppress(Unprovable):
            most = _GROWN * len(branching.codes)
            tree, boxes = grown(branching.problem, branching.target, branching.proved, most)
            certificate = self._certificate(branching) | {"tree": tree, "boxes": boxes}
            return certificate | replayed(certificate, self.claim)
        return None

    def _key(self, branching: Branching) -> str:
        charts = branching.problem.cover.charts
        parts = head(self.item, KIND)["revision"], self.low.sizes, branching.target, charts
        return repr((self.item.id, *parts))

    def _load(self, branching: Branching) -> None:
        if self.state is not None:
            branching.load(self.state, self._key(branching))

    def _save(self, branching: Branching) -> None:
        if self.state is not None:
            branching.save(self.state, self._key(branching))

    def _certificate(self, branching: Branching, margin: float = _MARGIN) -> dict[str, Any]:
        made = branching.problem
        low = self.low
        return {
            **head(self.item, KIND),
            "arithmetic": ARITHMETIC,
            "sizes": dict(low.sizes),
            "ratio": [
                rounded(Fraction(low.surely or 0), ROUND_FLOOR),
                rounded(Fraction(branching.proved * (1 + margin)), ROUND_CEILING),
            ],
            "target": repr(branching.target),
            "alike": [list(map(str, row)) for row in made.alike],
            **(
                {"charts": [list(chart) for chart in made.cover.charts]}
                if made.cover.charts
                else {}
            ),
            "boxes": len(branching.codes),
            "tree": branching.tree(),
            "instance": dict(low.instance),
        }


def _tightest(claim: Claim, sizes: Sizes, branching: Branching) -> Least | None:
    """The largest ratio at the middles of the worst boxes; None where nothing is known there.

    Raises:
        Broken: the claim is violated at one.
    """
    space, cover = claim.space, branching.problem.cover
    found: list[Fields] = []
    for middle in branching.middles(_MIDDLES).T:
        with contextlib.suppress(Fault):
            fields = cover.instance(middle)
            found += [fields] if space.meets(fields)[0] else []
    if not found:
        return None
    stacks = {name: np.concatenate([one[name] for one in found]) for name in space.fields}
    try:
        tight = evaluate(claim, Batch(space, stacks, sizes)).tightness
        fields = found[int(np.argmax(tight))]
        sides = in_high_precision(claim, fields)
    except Fault:
        return None
    instance, largest = plain(fields), ratio(claim.relation, sides)
    if sides.violated:
        where = ", ".join(f"{name} = {value}" for name, value in instance.items())
        raise Broken(f"the attempt at a proof broke the claim: {where:.200}", instance)
    if largest is None or largest <= 0:
        return None
    return Least(sizes, largest, instance, at_least(claim, instance))


def rounded(value: Fraction, rounding: str) -> str:
    """A rational as a decimal of 12 digits, rounded up or down.

    >>> rounded(Fraction(1, 3), ROUND_CEILING)
    '0.333333333334'
    """
    context = Context(prec=_DIGITS, rounding=rounding)
    return str(context.divide(Decimal(value.numerator), Decimal(value.denominator)))


def verify(content: Mapping[str, Any], claim: Claim) -> str:
    """Evaluate every box of a certificate's tree anew; what it proves, in a line.

    Raises:
        Unprovable: it does not prove what it says.
    """
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
    if low > 0:
        verify_found({**content, "ratio": content["ratio"][0]}, claim)
    elif sizes_of_instance(claim, content["instance"]) != sizes:
        raise Unprovable(f"`instance` must be of the sizes {sizes}; found others")
    return {"bound": SIGNED} if signed and high < 1 else {}


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


def sizes_of_text(settings: Sequence[str]) -> Sizes:
    """Sizes from words such as ``n=2``.

    Raises:
        InputError: a word is of another form.
    """
    sizes: Sizes = {}
    for word in itertools.chain.from_iterable(text.split(",") for text in settings):
        name, _, value = word.partition("=")
        if not name or not value.isdigit():
            raise InputError(f"`--sizes` must look like n=2,d=1; found {word!r}")
        sizes[name] = int(value)
    return sizes

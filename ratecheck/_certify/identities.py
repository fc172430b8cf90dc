"""Identities, decided by exact arithmetic at random points.

The numbers of an instance are polynomials or quotients of them in coordinates u, whole numbers from
0 to 2^k: an interval [a, b] holds a + (b - a) u / 2^k, a distribution u_i / sum u. Where both sides
are quotients of polynomials, too, their difference is P / Q with a known bound D of the degree of
P. If it is not zero for all u, it is zero at a random point with a chance of at most D / 2^k
(Schwartz and Zippel). Where roots, exponentials or logarithms take part, the difference is zero by
rules that are true of these functions, and D bounds all comparisons of numbers that the rules need
(:mod:`linsys.linalg.formal`). k is chosen so that all points together have a chance below 2^-100.

What is said of a claim is fixed before the points are drawn: D counts as the bound that is checked
at the end, and no comparison after the first wrong one matters, as up to there all comparisons are
those of a computation with functions.

A formula that compares numbers is another one for each outcome of the comparisons: what is decided
are those that the points meet. As these are few, instances that a search draws are tried as well:
a branch that neither meets stays undecided. Whole numbers are tried in all combinations where these
are few; where they are many, numbers of any kind take their place, if the formula is a quotient of
polynomials in them and compares nothing; else they are taken as they are drawn. Where the space has
joint assumptions the points are drawn from a small box around an instance that meets them: an
identity of such functions that holds in a box holds wherever they are defined, and their
comparisons come out the same. Sizes at which nothing is decided are left out, and the certificate
says so.
"""

from __future__ import annotations

import contextlib
import math
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ratecheck._certify.at_a_point import (
    CHANCE,
    MARGIN,
    WHOLE_POINTS,
    AtPoint,
    Broken,
    at,
    has_whole,
)
from ratecheck._certify.enclosures import Unprovable
from ratecheck._certify.every_branch import Branches, Open, every_branch
from ratecheck._certify.random_points import (
    ALL_WHOLE,
    DRAWN_WHOLE,
    FOUND_WHOLE,
    Draw,
    NoInstance,
    Source,
    Whole,
    anywhere,
    near_an_instance,
    repaired,
    whole_numbers,
)
from ratecheck._claims.claim import Claim
from ratecheck._claims.space import Fault, Sizes
from ratecheck._processes.limit import TimeLimit, time_limit
from ratecheck._search.search import Effort, Search
from ratecheck._verdicts.verdict import plain

#: Points for each combination of sizes, and how many combinations are tried at most.
POINTS, COMBINATIONS = 3, 64
#: The share of a limit of time that one combination of sizes may take, and of what is left that its
#: branches may; and that the points of all sizes may together, where a formula compares numbers.
_SHARE, _BRANCHES, _HALF = 1 / 8, 1 / 4, 1 / 2
#: Seconds of a search for which none are left.
_LEAST = 0.1
#: After so many combinations of sizes with a branch that is not decided no others are tried.
_FAILURES = 3
_NO_TIME = "no answer within the limit"
#: The instances at which an identity that compares numbers is tried besides, in float64, and the
#: CPU seconds that this may take.
_INSTANCES, _SECONDS = Effort(random=3_000, examples=1, ascents=0, budget=0), 20.0
#: The best first.
_COVERED = (ALL_WHOLE, FOUND_WHOLE, DRAWN_WHOLE)


@dataclass(frozen=True)
class Decided:
    """An identity that holds at all points.

    Args:
        sizes: the combinations of sizes for which it is decided.
        all_sizes: whether these are all that the space has.
        left: how many were tried in vain, and why the first of them; empty if none was.
        degree: bound of the degree of the difference's numerator, or of all that was compared
            together, the largest of all points.
        points: how many were drawn, with those that the space does not contain.
        branches: outcomes of the comparisons of the formula that the points met; 1 without any.
        compares: whether the formula compares numbers that depend on the point.
        every: the combinations of sizes for which it holds on every branch of such a formula.
        open: how many other combinations there are, and why the first of them is not decided on
            some branch; empty if none is.
        differ: whether the sides differ as functions on a branch without a known instance.
        ways: how many branches these have together.
        empty: how many times comparisons excluded each other, on branches that are left out.
        formal: whether roots, exponentials or logarithms take part.
        chance: the logarithm to base 2 of the chance that a false identity was not noticed, at
            most.
        whole: how far whole numbers are covered, for the sizes where that is least; empty without
            any.
        ties: whether the branches leave null sets out on which numbers that are compared are equal
            and comparisons come out as nowhere else.
    """

    sizes: tuple[Sizes, ...]
    all_sizes: bool
    left: str
    degree: int
    points: int
    branches: int
    compares: bool
    every: tuple[Sizes, ...]
    open: str
    differ: bool
    ways: int
    empty: int
    formal: bool
    chance: int
    whole: str
    ties: bool


def decide(
    claim: Claim,
    draw: Draw = secrets.randbelow,
    sizes: Sequence[Sizes] | None = None,
    limit: float | None = None,
    every: Sequence[Sizes] | None = None,
) -> Decided:
    """Evaluate an identity at random points.

    Args:
        claim: one whose two sides are to be equal.
        draw: of random whole numbers.
        sizes: the combinations of sizes for which it is to be decided; by default those of the
            space, at most 64 of them, for which that succeeds.
        limit: seconds of CPU time; of an identity that compares numbers at most half of it is for
            the points, and the rest for its branches.
        every: the combinations of sizes for which it is to be decided on every branch; by default
            those for which that succeeds.

    Raises:
        Unprovable: the arithmetic does not show that the sides are equal, or no point is in the
            space.
        Broken: the sides differ.

    >>> from ratecheck import claim, reals
    >>> @claim(
    ...     id="mine.binomial", source="", kind="identity", text="",
    ...     fields={"x": reals(), "y": reals()},
    ... )
    ... def binomial(x, y):
    ...     return (x + y) ** 2, x * x + 2 * x * y + y * y
    >>> decided = decide(binomial)
    >>> decided.degree, decided.chance < -100
    (2, True)
    """
    all_sizes = claim.space.all_sizes()
    tried = _some(all_sizes) if sizes is None else list(sizes)
    decided: dict[int, _Points] = {}
    errors: list[Unprovable | TimeLimit] = []
    start = time.process_time()
    for number in sorted(range(len(tried)), key=lambda k: sum(tried[k].values())):
        compares = any(point.outcomes for some in decided.values() for point in some.points)
        left = _left(limit, start, _HALF if compares else 1.0)
        try:
            if limit is None:
                decided[number] = _at_points(claim, tried[number], draw)
            elif left > 0:
                with time_limit(min(left, max(_SHARE, 1 / len(tried)) * limit)):
                    decided[number] = _at_points(claim, tried[number], draw)
            else:
                raise TimeLimit(_NO_TIME)
        except (Unprovable, TimeLimit) as error:
            if sizes is not None:
                raise
            late = left > 0 and isinstance(error, TimeLimit)
            errors.append(_of_share(claim, tried[number], limit, error) if late else error)
    if not decided:
        raise errors[0]
    known = tuple(tried[number] for number in sorted(decided))
    points = [point for some in decided.values() for point in some.points]
    compares = any(point.outcomes for point in points)
    if compares:
        _search(claim, min(_SECONDS, _left(limit, start)))
    rest = None if limit is None else _left(limit, start)
    complete, failed = _on_every_branch(claim, draw, known if compares else (), rest, every)
    missing = len(known) - len(complete) if compares else 0
    differ = [error for error in failed if isinstance(error, Open) and error.differ]
    met = {(number, p.outcomes) for number, some in decided.items() for p in some.points}
    covered = [some.whole for some in decided.values()]
    return Decided(
        sizes=known,
        all_sizes=len(known) == len(all_sizes),
        left=f"{len(errors)} others: {errors[0]}" if errors else "",
        degree=max(point.degree for point in points),
        points=sum(point.drawn for point in points),
        branches=len(met),
        compares=compares,
        every=tuple(one for one in known if any(one == other for other, _ in complete)),
        open=f"{missing} of the sizes: {[*differ, *failed, _NO_TIME][0]}" if missing else "",
        differ=bool(differ),
        ways=sum(found.count for _, found in complete),
        empty=sum(found.empty for _, found in complete),
        formal=any(point.formal for point in points),
        chance=max([one.chance for one in decided.values()] + [b.chance for _, b in complete])
        + (2 * len(known)).bit_length(),
        whole=max(covered, key=_COVERED.index) if has_whole(claim) else "",
        ties=any(found.ties for _, found in complete),
    )


def _left(limit: float | None, start: float, share: float = 1.0) -> float:
    """The CPU seconds that are left of a share of a limit."""
    return math.inf if limit is None else share * limit - (time.process_time() - start)


def _search(claim: Claim, seconds: float) -> None:
    """Refuse an identity that is false on a branch that many instances meet and no point did.

    Raises:
        Broken: the sides differ at an instance, in high precision.
    """
    search = Search(replace(claim, family=()), 0)
    with contextlib.suppress(TimeLimit, Fault), time_limit(max(seconds, _LEAST)):
        search.run(_INSTANCES)
    if search.violation is not None:
        instance = plain(search.violation.fields)
        raise Broken("the sides differ at an instance that a search finds", instance)


def _on_every_branch(
    claim: Claim,
    draw: Draw,
    sizes: Sequence[Sizes],
    limit: float | None,
    wanted: Sequence[Sizes] | None,
) -> tuple[list[tuple[Sizes, Branches]], list[Open | TimeLimit]]:
    """Combinations of sizes for which an identity holds on every branch, and why others do not."""
    if wanted is not None:
        return [(one, every_branch(claim, one, draw)) for one in sizes if one in wanted], []
    done: list[tuple[Sizes, Branches]] = []
    failed: list[Open | TimeLimit] = []
    start = time.process_time()
    for one in sorted(sizes, key=lambda each: sum(each.values())):
        left = _left(limit, start)
        if len(failed) == _FAILURES or left <= 0:
            break
        try:
            if limit is None:
                done.append((one, every_branch(claim, one, draw)))
            else:
                with time_limit(min(left, max(_BRANCHES, 1 / len(sizes)) * limit)):
                    done.append((one, every_branch(claim, one, draw)))
        except (Open, TimeLimit) as error:
            failed.append(error)
    return done, failed


def _of_share(
    claim: Claim, sizes: Sizes, limit: float | None, error: Unprovable | TimeLimit
) -> TimeLimit:
    """What to do where sizes took longer than their share of the time."""
    named = f" for {', '.join(f'{k} = {v}' for k, v in sizes.items())}" if sizes else ""
    text = f"{error}{named}, a share of {limit:g} s (--limit)"
    text += "; smaller whole numbers in the space take less" * has_whole(claim)
    return TimeLimit(text)


def _some(every: Sequence[Sizes]) -> list[Sizes]:
    """At most 64 combinations of sizes, evenly spaced."""
    pick = np.linspace(0, len(every) - 1, min(len(every), COMBINATIONS)).round().astype(int)
    return [every[k] for k in pick]


@dataclass(frozen=True)
class _Points:
    """Points at which the sides are equal, the chance of an error to base 2, and whole numbers."""

    points: list[AtPoint]
    chance: int
    whole: str


def _at_points(claim: Claim, sizes: Sizes, draw: Draw) -> _Points:
    """Both sides at random points, with all combinations of whole numbers if that can be."""
    if not has_whole(claim):
        return _with_bits(claim, sizes, draw, [{}] * POINTS)
    if (every := whole_numbers(claim.space, sizes)) is not None:
        return _with_bits(claim, sizes, draw, every * -(-WHOLE_POINTS // len(every)))
    if claim.space.repair is None:
        with contextlib.suppress(Broken, Unprovable):
            found = _with_bits(claim, sizes, draw, [{}] * POINTS, real=True)
            # what is a polynomial everywhere is one at whole numbers; a branch or a root may not be
            if not any(point.outcomes or point.formal for point in found.points):
                return found
    return replace(_with_bits(claim, sizes, draw, [{}] * WHOLE_POINTS), whole=DRAWN_WHOLE)


def _with_bits(
    claim: Claim, sizes: Sizes, draw: Draw, each: Sequence[Whole], real: bool = False
) -> _Points:
    """A point for each of these whole numbers, with as many bits as the chance asks for."""
    bits = CHANCE + 64
    while True:
        points: list[AtPoint] = []
        chance, covered = -math.inf, ALL_WHOLE
        none: NoInstance | None = None
        for kept in each:
            source = Source(draw, bits, kept=kept, real=real)
            try:
                points.append(_at_a_point(claim, sizes, source))
            except NoInstance as error:
                none, covered = error, FOUND_WHOLE
                if not kept:
                    raise
                continue
            if kept and source.whole != kept:
                covered = FOUND_WHOLE
            most = max(point.degree for point in points) * sum(point.drawn for point in points)
            chance = most.bit_length() - bits
            if chance >= -CHANCE - MARGIN:
                break
        if none is not None and not points:
            raise none
        if chance < -CHANCE - MARGIN:
            return _Points(points, int(chance), covered)
        bits = CHANCE + most.bit_length() + 2 * MARGIN


def _at_a_point(claim: Claim, sizes: Sizes, source: Source) -> AtPoint:
    """Both sides at a random point, where they are equal."""
    space = claim.space
    if space.repair is None:
        return at(claim, anywhere, sizes, source)
    try:
        return at(claim, near_an_instance, sizes, source)
    except (Broken, Unprovable) as error:
        if error.__cause__ is not None:  # it is the formula that is no quotient of polynomials
            raise
        return at(claim, repaired, sizes, source)  # an equation, which a box breaks

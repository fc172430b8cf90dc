"""What the audit says of one entry of a catalogue, and the one function that says it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np

from linsys.validate import (
    InputError,
    check_choice,
    check_function,
    check_instance,
    check_integer,
    check_number,
    finite_array,
    shown,
)
from ratecheck._claims.certificates import (
    CANDIDATE,
    DIGITS,
    SAME,
    STEADY,
    Certificate,
    Watch,
    certify,
    ratio,
)
from ratecheck._claims.claim import (
    Claim,
    Entry,
    NotChecked,
    RateClaim,
    Regime,
    Statement,
    StatisticalClaim,
)
from ratecheck._claims.samples import Batch
from ratecheck._claims.space import Fault, Fields, Unsettled, call
from ratecheck._processes.limit import TimeLimit, time_limit
from ratecheck._rates.regimes import of_regime, of_regimes
from ratecheck._search.others import without_rounding
from ratecheck._search.search import EFFORTS, Effort, Families, ScoredInstance, Search
from ratecheck._search.small_numbers import with_small_numbers
from ratecheck._search.witness import Witness, choose
from ratecheck._verdicts.evidence import Evidence
from ratecheck._verdicts.statistical import instances_of, sampled

#: Counts the changes of what :func:`judge` finds or says. Verdicts kept with the papers carry it,
#: and are all judged again when it is raised. What this version finds is recorded by
#: ``tests/ratecheck/audit/test_version.py``, which fails when something else is found.
VERSION = 1
#: CPU seconds for one entry, by effort, unless the caller says otherwise.
LIMITS = {"quick": 30.0, "normal": 120.0, "hunt": 1800.0}
#: A bound so many times a trivial one, on every instance, says nothing that was not known.
UNREACHABLE = 10.0
#: How the reason begins of what holds although no instance could be evaluated in high precision.
FLOAT64_ONLY = "ratio in float64 only"
#: A call of the measure that takes more than this share of the limit does not return.
_MOST = 0.5
#: Of what those are functions that are told how far a search is.
_TOLD = {"watch": ("fields", "index"), "violated": ("verdict",)}
#: What can be said against a counterexample, the gravest first, and what it means.
DOUBTS = {
    "maybe rounding": "its sides are so near that the last digits of a constant such as 1/n may be "
    "all that is between them",
    "degenerate": "none of its neighbours within 1 % violates the statement",
    "at the edge": "it has numbers at the edge of what the statement is about",
    "narrowly": "it misses the bound by less than 5 %",
}
#: What its witness says where there is no such doubt.
_SIGNS = {"degenerate": "near", "at the edge": "credible", "narrowly": "clear"}
#: Instances that may be tried for the tightest one.
_CONFIRMED = 12
#: By so much larger is a ratio for which a second search counts.
_NEARER = 0.01
#: Two sides up to this are rounding in high precision.
_NOTHING = 1e-60


@dataclass
class Verdict:
    """The outcome for one entry.

    Attributes:
        id: the entry's id.
        verdict: one of :data:`ratecheck._claims.claim.VERDICTS`.
        ratio: measured / bound of the tightest instance (bound / measured for a lower bound, one
            plus the relative difference for an identity); None where that says nothing.
        instances: how many instances were measured, without those of a second search for small
            numbers that adds nothing; see :mod:`ratecheck._search.small_numbers`.
        counterexample: an instance that violates the claim, or on which it cannot be evaluated, as
            plain lists by field.
        corrected: id of the claim that replaces a false one.
        best: the tightest instance.
        measured: first digits of the measured side there, in high precision where there is one.
        bound: the same of the bound.
        reason: one line on why the verdict is what it is, where that needs saying.
        evidence: what decided, in the words of :class:`ratecheck._verdicts.evidence.Evidence`, such
            as "confirmed at 40 and 80 digits" or "fitted, 2 exponents, each on 3 systems". Of a
            search, also how instances are constructed.
        witness: what speaks for a counterexample: whether its numbers are "credible", whether it is
            "clear" (by 5 %), and which share of its neighbours within 1 % ("near") and 10 % ("far")
            violates the claim as well; "rounding" where its sides are so near that this may be all
            that is between them; and the "assumptions" that it was checked to meet. See
            :mod:`ratecheck._search.witness`.
        seconds: time it took.
        details: further numbers, such as per-regime exponents; ``unfinished`` of a search that its
            limit ended, which depends on the machine and is not stored.

    Raises:
        InputError: of ``from_dict``, other keys than a verdict's.

    >>> import ratecheck as rc
    >>> verdict = rc.Verdict("mine.half", "holds", ratio=1.0, instances=9)
    >>> verdict.verdict, rc.Verdict.from_dict(verdict.to_dict()) == verdict
    ('holds', True)
    """

    id: str
    verdict: str
    ratio: float | None = None
    instances: int = 0
    counterexample: dict[str, Any] | None = None
    corrected: str | None = None
    best: dict[str, Any] | None = None
    measured: str = ""
    bound: str = ""
    reason: str = ""
    evidence: str = ""
    witness: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The verdict, with the first of :data:`DOUBTS` about its counterexample."""
        seen = self.witness
        doubts = [doubt for doubt, sign in _SIGNS.items() if seen and not seen[sign]]
        doubts = ["maybe rounding"] * ("rounding" in seen) + doubts
        return ", ".join([self.verdict, *doubts[:1]])

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON: floats survive exactly, numbers that are not finite become None."""
        return {name: _json(value) for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Verdict:
        """The verdict that :meth:`to_dict` wrote.

        >>> Verdict.from_dict(Verdict("mine.a", "holds", ratio=0.1).to_dict()).ratio
        0.1
        """
        known = {f.name for f in fields(cls)}
        if set(data) - known:
            raise InputError(f"a verdict has the keys {sorted(known)}; found {sorted(data)}")
        return cls(**data)

    @classmethod
    def of_known(cls, data: Mapping[str, Any]) -> Verdict:
        """The verdict in what was written with other texts beside it, and without ``best``."""
        return cls(**{f.name: data[f.name] for f in fields(cls) if f.name in data})


def judge(
    entry: Entry,
    effort: str = "quick",
    seed: int = 0,
    *,
    limit: float | None = None,
    watch: Watch | None = None,
    enough: float = math.inf,
    families: Families | None = None,
    violated: Callable[[Verdict], None] | None = None,
) -> Verdict:
    """Search, shrink and re-check in high precision what was found, and say what came out.

    Args:
        entry: a claim, a rate claim or an unchecked statement.
        effort: "quick", "normal" or "hunt".
        seed: of everything random; equal seeds give equal verdicts.
        limit: seconds of CPU time (or of waiting) after which the search ends; by default those of
            the effort. The answer is then "violated" where a violation was confirmed that was
            to be made simple, else "not decided", with what was done, or "error" where a single
            call of the measure took most of it. Compilation does not count.
        watch: called before every call of a measure with the arrays (B, *shape) by field and the
            number of the instance (None if all B at once), for a caller that may have to kill the
            process and wants to say what was under evaluation.
        enough: the tightness at which a search ends, for a caller who knows how tight the bound is.
        families: by the id of a claim that this one uses, the counterexamples of its ``family``;
            they are tried first, as far as they are instances of this claim's space.
        violated: told the verdict of a violation as it was found, before a simpler one is looked
            for, which may take long.

    Raises:
        InputError: no claim, an effort that there is not, or another argument that cannot be used.

    >>> from ratecheck import claim, interval
    >>> @claim(
    ...     id="mine.half", source="my paper, Lemma 2", kind="upper", text="x (1 - x) <= x / 2",
    ...     fields={"x": interval()},
    ... )
    ... def half(s):
    ...     return s.x * (1 - s.x), s.x / 2
    >>> verdict = judge(half)
    >>> verdict.verdict, verdict.counterexample
    ('violated', {'x': 0.1})
    """
    check_instance("entry", entry, Statement, "a claim")
    check_choice("effort", effort, list(EFFORTS))
    if limit is not None:
        check_number("limit", limit, low=0)
    check_integer("seed", seed)
    if not isinstance(enough, Real):
        raise InputError(f"`enough` must be a number, or inf; found {shown(enough)}")
    if not isinstance(families, Mapping | None):
        raise InputError(
            f"`families` must be instances by the id of their claim; found {shown(families)}"
        )
    for name, told in (("watch", watch), ("violated", violated)):
        if told is not None:
            check_function(name, told, *_TOLD[name])
    start = time.perf_counter()

    def tell(search: Search) -> None:
        if violated is not None:
            violated(_as_found(search, "its process ended"))

    search = Search(entry, seed, watch, families, tell) if isinstance(entry, Claim) else None
    try:
        with time_limit(LIMITS[effort] if limit is None else limit):
            if isinstance(entry, NotChecked):
                verdict = Verdict(entry.id, "not checked", reason=entry.note)
            elif isinstance(entry, RateClaim):
                verdict = _of_rate(entry)
            elif isinstance(entry, StatisticalClaim):
                verdict = _of_samples(entry, instances_of(entry, effort, seed), seed, effort)
            else:
                assert search is not None
                search.run(EFFORTS[effort], enough)
                verdict = _of_search(search, EFFORTS[effort])
                small = with_small_numbers(search.claim)
                # who knows how tight the bound is has searched before
                if small is not None and verdict.verdict != "violated" and math.isinf(enough):
                    before, search = search.examined, Search(small, seed, watch, violated=tell)
                    search.before = before
                    search.run(EFFORTS[effort])
                    again = _of_search(search, EFFORTS[effort])
                    if again.verdict == "violated" or _is_nearer(again, verdict):
                        verdict = again
                if search.claim.family:
                    verdict.details["family"] = _of_family(search.claim)
    except TimeLimit as error:
        verdict = _unfinished(entry, search, str(error), LIMITS[effort] if limit is None else limit)
    except Fault as error:
        verdict = _error_verdict(entry, search, str(error))
    verdict.corrected = entry.corrected
    verdict.evidence = evidence(entry, verdict)
    verdict.seconds = time.perf_counter() - start
    return verdict


def evidence(entry: Entry, verdict: Verdict) -> str:
    """What decided; empty where nothing was."""
    unfinished = verdict.details.get("unfinished") and verdict.verdict != "violated"
    if unfinished or verdict.verdict in ("error", "not checked"):
        return ""
    if isinstance(entry, StatisticalClaim):
        return f"{Evidence.SAMPLED}, wrong with probability at most {entry.alpha:g}"
    if isinstance(entry, RateClaim):
        of = [regime["systems"] for regime in verdict.details["regimes"]]
        counts = f"{min(of)} to {max(of)}" if min(of) < max(of) else f"{of[0]}"
        exponents = "one exponent" if len(of) == 1 else f"{len(of)} exponents, each"
        return f"{Evidence.FITTED}, {exponents} on {counts} system{'s' * (max(of) != 1)}"
    if verdict.verdict == "violated":
        return f"{Evidence.CONFIRMED} at {' and '.join(map(str, DIGITS))} digits"
    if verdict.verdict == "holds" and entry.derivation:
        return Evidence.DERIVED.value
    assert isinstance(entry, Claim)
    if entry.space.every_instance() is not None:
        return Evidence.EVERY.value
    where = f", constructed: {entry.space.constructed}" if entry.space.constructed else ""
    return f"{Evidence.SEARCHED}{where}"


def replay(
    claim: Claim | StatisticalClaim, instance: Mapping[str, Any], limit: float = LIMITS["quick"]
) -> Verdict:
    """The verdict on one stored instance, in high precision: "violated", "holds" or "error".

    A statistical claim is sampled anew.

    Args:
        claim: the claim it is about.
        instance: plain lists by field, as in :attr:`Verdict.counterexample`.
        limit: seconds of CPU time (or of waiting) after which the answer is "error".

    Raises:
        InputError: a claim without instances, or an instance whose fields are not the claim's.

    >>> from ratecheck import claim, interval
    >>> @claim(
    ...     id="mine.square", source="", kind="upper", text="", fields={"x": interval()}
    ... )
    ... def square(s):
    ...     return s.x, s.x**2
    >>> verdict = replay(square, {"x": 0.1})
    >>> verdict.verdict, verdict.measured, verdict.bound
    ('violated', '0.1', '0.01')
    """
    check_instance("claim", claim, Statement, "a claim")
    if not isinstance(claim, Claim | StatisticalClaim):
        raise InputError(f"`claim` must have instances; found {claim.id}, of the kind {claim.kind}")
    if not isinstance(instance, Mapping):
        raise InputError(
            f"`instance` must be values by field, such as {{'x': 0.5}}; found {instance!r:.80}"
        )
    check_number("limit", limit, low=0)
    if set(instance) != set(claim.space.fields):
        raise InputError(
            f"`instance` must have the fields {sorted(claim.space.fields)}; "
            f"found {sorted(instance)}"
        )
    arrays = {name: finite_array(name, instance[name])[None] for name in claim.space.fields}
    claim.space.sizes_of(arrays)
    try:
        with time_limit(limit):
            broken = claim.space.first_broken(arrays)
            if broken is not None:
                raise Fault(f"the instance breaks {broken[0]!r}")
            if not claim.space.passing(arrays)[0]:
                raise Fault("the instance does not meet what the claim is given")
            if isinstance(claim, StatisticalClaim):
                sizes = claim.space.sizes_of(arrays)
                return _of_samples(claim, [Batch(claim.space, arrays, sizes)], 0)
            sides = certify(claim, arrays)
    except (Fault, TimeLimit) as error:
        return Verdict(claim.id, "error", reason=str(error), counterexample=dict(instance))
    verdict = _with_sides(claim, "violated" if sides.violated else "holds", sides)
    verdict.instances = 1
    verdict.best = plain(arrays)
    verdict.counterexample = verdict.best if sides.violated else None
    verdict.corrected = claim.corrected
    return verdict


def _of_search(search: Search, effort: Effort) -> Verdict:
    if search.violation is not None:
        return _violated(search, search.violation, effort)
    if not search.instances:
        return _vacuous(search)
    verdict, instance = tightest_instance(search, effort)
    search.repeat_one(instance.fields)
    if search.rejected:
        verdict.details["rejected"] = search.rejected
        if search.unchecked:
            verdict.details["unchecked"] = search.unchecked
            same = search.claim.relation == "=="
            seen = "the two sides differ" if same else "the measured side exceeds the bound"
            verdict.reason = verdict.reason or (
                f"on some instances {seen} in float64; high precision found that to be rounding "
                f"wherever it was asked, and was not asked for {search.unchecked} of them"
            )
    if np.isfinite(search.looseness):
        verdict.details["looseness"] = search.looseness
        if search.looseness >= UNREACHABLE:
            verdict.verdict = "unreachable"
            verdict.reason = (
                f"on every instance tried the bound is at least {search.looseness:.3g} times one "
                "that is known without the claim"
            )
    elif not search.bounded:
        verdict.verdict = "unreachable"
        verdict.reason = "on every instance tried the bound is infinite"
    verdict.instances = search.examined
    if search.families:
        verdict.details["families"] = search.families
    return verdict


def _is_nearer(one: Verdict, other: Verdict) -> bool:
    """Whether a search came clearly nearer to a bound that holds than another one."""
    if one.verdict != "holds" or one.ratio is None:
        return False
    return other.ratio is None or one.ratio > (1 + _NEARER) * other.ratio


def tightest_instance(search: Search, effort: Effort) -> tuple[Verdict, ScoredInstance]:
    """The tightest instance that high precision confirms to be one: not both sides rounding.

    Where it finds a violation that float64 took for rounding, that is the verdict. Where it
    confirms none, that with the largest ratio.
    """
    claim = search.claim
    tried: list[tuple[Verdict, ScoredInstance]] = []
    best = search.best[:_CONFIRMED]
    for instance in chain(best, without_rounding(search, effort)):
        search.current = instance.fields, 0
        try:
            sides = certify(claim, instance.fields)
        except Unsettled:
            raise
        except Fault as fault:
            if instance.tightness > CANDIDATE:
                raise Fault(f"float64 exceeds the bound, but {fault.reason}") from fault
            if tried:
                break
            reason = f"{FLOAT64_ONLY}: {fault.reason}"
            verdict = Verdict(claim.id, "holds", ratio=instance.tightness, reason=reason)
            verdict.best = plain(instance.fields)
            return verdict, instance
        if sides.violated:  # float64 had its doubts
            return _violated(search, instance, effort), instance
        verdict = _with_sides(claim, "holds", sides)
        verdict.best = plain(instance.fields)
        if max(abs(sides.measured), abs(sides.bound)) <= _NOTHING:  # the quotient of two roundings
            verdict.ratio = None
        tried.append((verdict, instance))
        if verdict.ratio is not None and abs(sides.tightness - instance.tightness) <= SAME:
            if len(tried) <= len(best):
                return tried[-1]
            break
    return max(tried, key=lambda one: -np.inf if one[0].ratio is None else one[0].ratio)


def _violated(search: Search, instance: ScoredInstance, effort: Effort) -> Verdict:
    shown = choose(search, instance, effort)
    search.repeat_one(shown.fields)
    if not shown.sides.violated:  # as it was a moment ago
        raise Unsettled(f"measure exceeds the bound at times; {STEADY.format('the instance')}")
    verdict = _with_sides(search.claim, "violated", shown.sides)
    verdict.counterexample = verdict.best = plain(shown.fields)
    verdict.witness = shown.to_dict()
    verdict.reason = _doubts(shown)
    verdict.instances = search.examined
    if search.families:
        verdict.details["families"] = search.families
    return verdict


def _doubts(shown: Witness) -> str:
    """What can be said against the only counterexample there is."""
    doubts = []
    if not shown.near:
        doubts.append("is degenerate: none of its neighbours within 1 % violates the claim")
    if not shown.credible:
        doubts.append("has numbers at the edge of what the statement is about")
    return f"every counterexample found {', and '.join(doubts)}" if doubts else ""


def _of_family(claim: Claim) -> list[dict[str, str]]:
    """Both sides of the counterexamples that a claim names, in high precision."""
    sides = []
    for number, instance in enumerate(claim.family):
        verdict = replay(claim, instance)
        if verdict.verdict != "violated":
            said = verdict.reason or f"measured {verdict.measured}, bound {verdict.bound}"
            raise Fault(f"`family` must be counterexamples; found number {number}: {said}")
        sides.append({"measured": verdict.measured, "bound": verdict.bound})
    return sides


def _vacuous(search: Search) -> Verdict:
    never = [name for name, count in search.passed.items() if not count]
    which = f"{never[0]!r}" if never else "all of " + ", ".join(map(repr, search.passed))
    return Verdict(
        search.claim.id,
        "vacuous",
        reason=f"none of {search.sampled} instances meets {which}",
        details={"sampled": search.sampled, "passed": dict(search.passed)},
    )


def _of_rate(entry: RateClaim) -> Verdict:
    """The verdict of exponents, measured twice: it must not depend on chance."""
    regimes = list(call("regimes", entry.regimes))
    if not all(isinstance(regime, Regime) for regime in regimes):
        raise Fault(f"regimes must be a list of Regime; found {regimes!r:.100}")
    said, decisive = of_regimes(regimes)
    again = of_regimes(list(call("regimes", entry.regimes)))[1]
    numbers = (decisive.measured, decisive.lo, decisive.hi)
    if not np.allclose(numbers, (again.measured, again.lo, again.hi), rtol=SAME, atol=SAME):
        raise Unsettled(
            f"regimes returned the exponent {decisive.measured:.6g} and then "
            f"{again.measured:.6g}; {STEADY.format('the claim')}"
        )
    return Verdict(
        entry.id,
        said,
        instances=len(regimes),
        measured=f"{decisive.measured:.4g}",
        bound=f"{decisive.predicted:.4g}",
        reason=f"{decisive.name}: exponent of {decisive.variable} in "
        f"[{decisive.lo:.4g}, {decisive.hi:.4g}], stated {decisive.predicted:.4g}",
        details={"regimes": [{**asdict(r), "verdict": of_regime(r)} for r in regimes]},
    )


def _of_samples(
    claim: StatisticalClaim, batches: Sequence[Batch], seed: int, effort: str = "hunt"
) -> Verdict:
    """The verdict of sequential tests on these instances."""
    if not batches:
        return Verdict(claim.id, "vacuous", reason="no instance meets what the claim is given")
    tests, why_unfinished = sampled(claim, batches, seed, effort)
    total = sum(one.samples for one in tests)
    verdict = Verdict(claim.id, "holds", instances=len(tests), corrected=claim.corrected)
    verdict.details = {"samples": total, "alpha": claim.alpha, "within": claim.within}
    odds = f"with error probability at most {claim.alpha:g}"
    undecided = [one for one in tests if one.said == "not decided"]
    signed = {"<=": 1, ">=": -1}.get(claim.relation, 0)
    worst = max(tests, key=lambda one: signed * one.mean if signed else abs(one.mean), default=None)
    if worst is not None:
        worst = next((one for one in tests if one.said == "violated"), worst)
        verdict.best, verdict.details["mean"] = plain(worst.batch.fields), worst.mean
        verdict.measured, verdict.bound = f"{worst.mean:.4g}", "0"
    if worst is not None and worst.said == "violated":
        verdict.verdict, verdict.counterexample = "violated", verdict.best
        verdict.reason = (
            f"{odds}: the mean of {worst.samples:,} samples of measured - bound is {worst.mean:.4g}"
        )
    elif why_unfinished:
        verdict.verdict, verdict.details["unfinished"] = "not decided", True
        verdict.reason = (
            f"{why_unfinished}: no violation on {len(tests)} of "
            f"{max(len(tests), len(batches))} instances; a larger limit allows more"
        )
    elif undecided:
        verdict.verdict = "not decided"
        verdict.reason = (
            f"on {len(undecided)} of {len(tests)} instances {claim.most:,} samples do not decide "
            f"between 0 and {claim.within:g}; a larger `most` may"
        )
    else:
        verdict.reason = f"on these instances to within {claim.within:g}, {odds}"
    return verdict


def with_option(reason: str, option: str) -> str:
    """A verdict's reason that also names the option by which a surface takes the limit."""
    return reason.replace("a larger limit ", f"a larger limit ({option}) ")


def _unfinished(entry: Entry, search: Search | None, late: str, limit: float) -> Verdict:
    """What a search says that was ended by its limit."""
    if search is None:
        return _error_verdict(entry, search, f"{late}; a larger limit allows more")
    if search.violation is not None:
        return _as_found(search, late)
    some = f"{search.examined:,} instance{'s' * (search.examined != 1)}"
    done = f"no violation in {some}; a larger limit allows more"
    if not search.examined:
        reason = f"{late}: the first call of the measure takes longer; a larger limit allows more"
        return Verdict(entry.id, "not decided", reason=reason, details={"unfinished": True})
    if search.is_stuck(_MOST * limit):
        return _error_verdict(entry, search, f"{late} on this instance; {done}")
    reason = f"{late}: {done}"
    if search.open_candidates:
        reason += (
            f"; {search.open_candidates:,} of them exceed the bound in float64, and high precision "
            "was not asked yet"
        )
    if search.before:
        reason += "; where `whole_numbers` has log=True, no second search for small ones is needed"
    verdict = Verdict(entry.id, "not decided", instances=search.examined, reason=reason)
    best = search.best[0] if search.best else None
    if best is not None and 0 < best.tightness <= CANDIDATE:
        verdict.ratio, verdict.best = best.tightness, plain(best.fields)
    verdict.details["unfinished"] = True
    return verdict


def _as_found(search: Search, late: str) -> Verdict:
    """The verdict of a violation that something ended the simplification of."""
    assert search.violation is not None
    assert search.certificate is not None  # at two precisions, which agree
    verdict = _with_sides(search.claim, "violated", search.certificate)
    verdict.counterexample = verdict.best = plain(search.violation.fields)
    verdict.instances = search.examined
    verdict.corrected = search.claim.corrected
    verdict.reason = f"{late} before the counterexample was made simple; a larger limit allows it"
    verdict.details["unfinished"] = True
    verdict.evidence = evidence(search.claim, verdict)
    return verdict


def _error_verdict(entry: Entry, search: Search | None, reason: str) -> Verdict:
    verdict = Verdict(entry.id, "error", reason=reason)
    if search is not None:
        verdict.instances = search.examined
        if search.current is not None:
            arrays, index = search.current
            one = slice(index or 0, (index or 0) + 1)
            verdict.counterexample = plain({name: v[one] for name, v in arrays.items()})
    return verdict


def _with_sides(claim: Claim, verdict: str, sides: Certificate) -> Verdict:
    measured, bound = sides.text
    return Verdict(
        claim.id, verdict, ratio=ratio(claim.relation, sides), measured=measured, bound=bound
    )


def plain(arrays: Fields) -> dict[str, Any]:
    """One instance (B = 1) as plain lists by field."""
    return {name: values[0].tolist() for name, values in arrays.items()}


def _json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""What every claim has to pass: one search, and what only needs a look at single instances.

1. The statement is complete: it has a text and a source, its LaTeX can be read, and what replaces a
   false one is true.
2. The verdict is the expected one, and no certificate in the results says the contrary.
3. Both sides are the same numbers in float64 and in high precision, on drawn instances.
4. The verdict could have been another one: with a bound tightened by a tenth past the tightest
   instance found, with an identity whose sides are a thousandth apart, with an exponent lowered by
   a quarter, the same judge refuses the statement.
5. Where earlier verdicts are kept, the bound is as tight as it was, to a tenth: the search finds
   such an instance, or one that is kept is as tight as ever. So a bound that has become looser, or
   tighter, is noticed as well.

PYTEST_DONT_REWRITE: the messages say all; the values of our variables would only hide them.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from linsys.linalg import precision
from linsys.validate import check_choice, check_instance, check_number
from ratecheck._claims.certificates import certify
from ratecheck._claims.claim import Claim, Entry, RateClaim, Regime, Relation, StatisticalClaim
from ratecheck._claims.eased import as_numbers, eased
from ratecheck._claims.fields import Numbers
from ratecheck._claims.samples import Batch, generator
from ratecheck._claims.space import Fault, Fields, call, quiet
from ratecheck._discover.catalogue import families
from ratecheck._processes.limit import TimeLimit, time_limit
from ratecheck._rates.regimes import of_regime, of_regimes
from ratecheck._search.search import EFFORTS, Search
from ratecheck._verdicts.evidence import Evidence
from ratecheck._verdicts.testing import check_certificates, entry_of, evaluated, failure
from ratecheck._verdicts.verdict import LIMITS, Verdict, judge

#: By how much a bound is tightened past the tightest instance, and an identity or a rate changed.
TENTH, TWENTIETH, THOUSANDTH, QUARTER = 0.1, 0.05, 1e-3, 0.25
#: A search may end where it comes so near to a bound that is attained, or, of another one, to the
#: tightest instance known.
ATTAINED, NEAR = 1e-3, 0.05
#: Sides that differ by less are not apart; a power of two, which every precision holds.
_AMOUNT = 2.0**-30
#: Digits with which drawn instances are measured again, and how far float64 may be from them:
#: relative to a side, and, of what cancels, to the squared size of the instance.
DIGITS, RELATIVE, CANCELLED = 30, 1e-9, 1e-11


@dataclass(frozen=True)
class Options:
    """How a claim is judged: effort, seed and limit as :func:`ratecheck.judge` has them.

    Raises:
        InputError: an effort that there is not, or a limit that is no positive number.

    >>> import ratecheck as rc
    >>> rc.Options(effort="normal", limit=60.0).seed
    0
    """

    effort: str = "quick"
    seed: int = 0
    limit: float | None = None

    def __post_init__(self) -> None:
        check_choice("effort", self.effort, list(EFFORTS))
        if self.limit is not None:
            check_number("limit", self.limit, low=0)


@dataclass(frozen=True)
class Known:
    """How tight a claim that holds is known to be.

    Args:
        ratio: of the tightest instance that any search found.
        near: what a short search finds, where that is less.
        instance: one of the ratio ``near``, where no short search finds any.

    >>> import ratecheck as rc
    >>> rc.Known(ratio=1.0, near=0.97).near
    0.97
    """

    ratio: float
    near: float | None = None
    instance: Mapping[str, Any] | None = None


def check_claim(
    claim: Entry | str,
    options: Options = Options(),
    *,
    others: Mapping[str, Entry] | None = None,
    known: Known | None = None,
) -> None:
    """Check one claim as pytest does: its verdict, and that it could be another.

    The statement must be complete, the verdict the one that the claim expects, which no certificate
    in the results contradicts, both sides the same numbers in float64 and in high precision, and a
    bound a tenth too tight must be refused.

    Args:
        claim: the claim, or the id of one of the catalogue.
        options: effort, seed and limit of the search.
        others: claims by id: the one that replaces a false one, and those that its proof uses.
        known: how tight a claim that holds is known to be, which then must be found again.

    Raises:
        AssertionError: in a few lines, with the statement and the instance.
        InputError: if this is no claim, or the id of none.

    >>> import ratecheck as rc
    >>> @rc.claim(
    ...     id="mine.half", source="my paper, Lemma 2", kind="upper", text="x (1 - x) <= 1 / 4",
    ...     fields={"x": rc.interval()},
    ... )
    ... def half(x):
    ...     return 4 * x * (1 - x), 1
    >>> rc.check_claim(half, known=rc.Known(1.0))
    """
    entry = entry_of(claim)
    check_instance("options", options, Options, "rc.Options(...)")
    _check_statement(entry, others or {})
    if isinstance(entry, Claim) and entry.expect == "violated" and _is_refuted(entry, options):
        with _telling(entry):
            _check_precision(entry, options.seed)
        check_certificates(entry, Evidence.CONFIRMED, entry.expect)
        return
    enough = math.inf
    if known is not None:
        attained = known.ratio > 1 - ATTAINED
        enough = 1 - ATTAINED if attained else known.ratio * (1 - NEAR)
    verdict = judge(
        entry,
        options.effort,
        options.seed,
        limit=options.limit,
        enough=enough,
        families=families(entry, others or {}),
    )
    if verdict.verdict != entry.expect:
        raise AssertionError(failure(entry, verdict, entry.expect))
    check_certificates(entry, verdict.evidence, verdict.verdict)
    with _telling(entry, verdict):
        if isinstance(entry, RateClaim):
            _check_exponents(entry, verdict)
        if isinstance(entry, StatisticalClaim) and entry.expect == "holds":
            _check_samples(entry, verdict, options)
        if isinstance(entry, Claim):
            _check_precision(entry, options.seed)
            if entry.expect in ("holds", "unreachable"):
                _check_near(entry, verdict, known)
                _check_refusal(entry, verdict, options)


@contextmanager
def _telling(entry: Entry, verdict: Verdict | None = None) -> Iterator[None]:
    """Have what fails in the block say the statement and, of a verdict, what it rests on."""
    try:
        yield
    except AssertionError as error:
        lines = [str(error), f"the statement ({entry.source}): {' '.join(entry.text.split())}"]
        raise AssertionError(
            "\n".join(lines + (evaluated(entry, verdict) if verdict else []))
        ) from None


def kept_ratios(folder: Path) -> dict[str, Known]:
    """How tight claims are known to be, by id, from a folder of results.

    Args:
        folder: with the ``verdicts.json`` that ``ratecheck audit --write`` leaves, or without. For
            claims of which a short search finds no instance that is nearly so tight, a file
            ``near.json`` beside it has, by the claim's id, the ``ratio`` of what it finds, or an
            ``instance`` and its ratio.
    """
    verdicts, near = (_read(folder / name) for name in ("verdicts.json", "near.json"))
    return {
        record["id"]: Known(
            record["ratio"],
            near.get(record["id"], {}).get("ratio"),
            near.get(record["id"], {}).get("instance"),
        )
        for record in verdicts.get("claims", ())
        if record["verdict"] == "holds" and record["ratio"]
    }


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def tightened(claim: Claim, ratio: float = 1.0, by: float = TENTH) -> Claim:
    """The claim with a bound that the tightest instance known misses by ``by``.

    Args:
        claim: a bound, or an identity, whose two sides are then ``by`` apart.
        ratio: how near instances come to the bound as it is.
        by: what is taken from the bound, as a part of it.

    >>> import ratecheck as rc
    >>> @rc.claim(id="my.a", source="", text="", kind="upper", fields={"x": rc.interval()})
    ... def a(x):
    ...     return x / 2, 1 - x / 2
    >>> rc.judge(a).verdict, rc.judge(tightened(a)).verdict
    ('holds', 'violated')
    """
    return replace(eased(claim, (1 - by) * ratio), expect="violated")


def _check_statement(entry: Entry, others: Mapping[str, Entry]) -> None:
    assert entry.text, f"{entry.id} must say what it states"
    assert entry.source, f"{entry.id} must say where it is from"
    if entry.latex and find_spec("latex2mathml"):
        from latex2mathml.converter import convert

        convert(entry.latex)
    better = others.get(entry.corrected or "")
    if better is not None:
        assert better.expect in ("holds", "unreachable"), f"{better.id} must correct {entry.id}"


def _is_refuted(claim: Claim, options: Options) -> bool:
    """Whether a search finds a violation; that of a false claim need not be made small."""
    limit = LIMITS[options.effort] if options.limit is None else options.limit
    try:
        with time_limit(limit):
            return _search(claim, options.effort, options.seed).violation is not None
    except (Fault, TimeLimit):  # the judge says what it was
        return False


def _check_precision(claim: Claim, seed: int) -> None:
    """Compare both sides of a few drawn instances in float64 and in high precision."""
    for one in _drawn(claim, seed):
        floats = _sides(claim, one.fields)
        with precision(DIGITS):
            exact = _sides(claim, claim.space.precise(one.fields))
        size = max(1.0, *(float(np.abs(v).max(initial=0)) for v in one.fields.values())) ** 2
        for name, rounded, side in zip(("measured", "bound"), floats, exact, strict=True):
            gap = np.abs(np.where(rounded == side, 0.0, rounded - side))
            allowed = RELATIVE * np.abs(side) + CANCELLED * size
            if not (gap <= allowed).all():
                at = np.argmax(gap - allowed)
                raise AssertionError(
                    f"{claim.id}: {name} is {rounded.flat[at]:.12g} in float64 and "
                    f"{side.flat[at]:.12g} in high precision, on the instance\n"
                    + json.dumps({field: v[0].tolist() for field, v in one.fields.items()})
                )


def _drawn(claim: Claim, seed: int) -> Iterator[Batch]:
    """One instance of the smallest, of a middle and of the largest sizes, where given allows."""
    sizes = claim.space.all_sizes()
    for number in sorted({0, len(sizes) // 2, len(sizes) - 1}):
        layout = claim.space.layout(sizes[number])
        rng = generator(seed, claim.id, "precision", number)
        coordinates = rng.uniform(size=(40, layout.coordinates))
        batch = Batch(claim.space, layout.decode(coordinates), layout.sizes)
        passed = np.flatnonzero(claim.space.passing(batch.fields))
        if passed.size:
            yield batch.subset(passed[:1])


def _sides(claim: Claim, fields: Fields) -> list[Numbers]:
    """Both sides of one instance, as float64."""
    with quiet():
        views = claim.space.views(fields)
        answer = call("measure", claim.measure, views if claim.space.batched else views[0])
        return [np.asarray(side).astype(float) for side in answer]


def _check_near(claim: Claim, verdict: Verdict, known: Known | None) -> None:
    """Be as tight as is known, to a tenth: in this search, or on the instance that is kept."""
    if known is None or claim.relation == "==":
        return
    told = f"{claim.id}: the tightest instance found has the ratio {verdict.ratio}, known"
    assert verdict.ratio is None or verdict.ratio <= (1 + TENTH) * known.ratio, (
        f"{told} is {known.ratio}"
    )
    near = known.ratio if known.near is None else known.near
    if known.instance is not None:
        wrong = tightened(claim, near)
        assert certify(wrong, _arrays(known.instance)).violated, f"{told} is an instance of {near}"
    else:
        assert verdict.ratio is not None, f"{told} is {near}"
        assert verdict.ratio > (1 - TENTH) * near, f"{told} is {near}"


def _check_refusal(claim: Claim, verdict: Verdict, options: Options) -> None:
    """Refuse the claim with a bound that is a little too small, at the instance or by a search."""
    if claim.relation == "==":
        wrong = tightened(claim, by=THOUSANDTH)
    elif verdict.ratio is None:  # a bound of zero: there is nothing to take away from it
        wrong = _opposite(claim)
    else:
        wrong = tightened(claim, verdict.ratio)
    if verdict.best is not None and certify(wrong, _arrays(verdict.best)).violated:
        return
    refused = _search(wrong, options.effort, options.seed).violation is not None
    assert refused, f"{claim.id}: a statement that is a little too strong is not refused"


def _opposite(claim: Claim) -> Claim:
    """The other relation, up to an amount far above the rounding of sides that are equal."""
    relation: Relation = "<=" if claim.relation == ">=" else ">="
    amount = _AMOUNT if relation == ">=" else -_AMOUNT

    def measure(instance: Any) -> tuple[Any, Any]:
        measured, bound = claim.measure(instance)
        return as_numbers(measured) + amount, bound

    return replace(claim, measure=measure, relation=relation, trivial=None)


def _arrays(instance: Mapping[str, Any]) -> Fields:
    """An instance from its plain lists, as a stack of one."""
    return {name: np.asarray(values, dtype=float)[None] for name, values in instance.items()}


def _search(claim: Claim, effort: str, seed: int) -> Search:
    search = Search(claim, seed)
    search.run(EFFORTS[effort])
    return search


def _check_samples(claim: StatisticalClaim, verdict: Verdict, options: Options) -> None:
    """Refuse samples whose worst mean is a twentieth of their range on the wrong side of zero."""
    low, high = claim.between
    wanted = TWENTIETH * (low - high if claim.relation == ">=" else high - low)
    more = wanted - verdict.details["mean"]

    def measure(*arguments: Any, **named: Any) -> Any:
        answer = claim.measure(*arguments, **named)
        if isinstance(answer, tuple):
            return as_numbers(answer[0]) + more, answer[1]
        return as_numbers(answer) + more

    measure.__signature__ = inspect.signature(claim.measure)  # type: ignore[attr-defined]
    wrong = replace(claim, measure=measure, between=(low + more, high + more))
    said = judge(wrong, options.effort, options.seed, limit=options.limit).verdict
    assert said == "violated", (
        f"{claim.id}: a statement that is a little too strong is not refused, but {said}"
    )


def _check_exponents(entry: RateClaim, verdict: Verdict) -> None:
    """Refuse every exponent that is attained if it is lowered by a quarter."""
    if entry.expect != "consistent":
        return
    told = [{k: v for k, v in r.items() if k != "verdict"} for r in verdict.details["regimes"]]
    regimes = [Regime(**one) for one in told]
    for number, regime in enumerate(regimes):
        if of_regime(regime) != "consistent":
            continue
        faster = replace(regime, predicted=regime.predicted - QUARTER)
        said, _ = of_regimes([*regimes[:number], faster, *regimes[number + 1 :]])
        assert said == "violated", (
            f"{entry.id}, {regime.name}: an exponent of {faster.predicted:g} is not refused"
        )

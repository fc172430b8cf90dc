"""What a person reads of the audit: verdicts by section, a claim in full, counterexamples."""

from __future__ import annotations

import functools
import inspect
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from ratecheck._claims.claim import RELATIONS, Claim, Entry, RateClaim, StatisticalClaim
from ratecheck._claims.families import by_outcome
from ratecheck._claims.fields import Ball, Contraction, Field, Interval, Simplex, Sphere, Whole
from ratecheck._claims.space import Space
from ratecheck._discover.catalogue import Item, module
from ratecheck._discover.named import given_beside
from ratecheck._report import notation
from ratecheck._report.describe import file_of
from ratecheck._report.kept import (
    assumes,
    check_again,
    decided,
    latest,
    proof,
    replay_path,
    word,
)
from ratecheck._report.screen import few
from ratecheck._report.terminal import console, say, show_list
from ratecheck._report.words import in_words
from ratecheck._verdicts import certified
from ratecheck._verdicts.constant import has_constant, made_simple
from ratecheck._verdicts.records import Records, Result
from ratecheck._verdicts.replay import Replayed
from ratecheck._verdicts.verdict import FLOAT64_ONLY, Verdict, replay, with_option

#: What is said wherever a certificate's words are: anybody may have written the file.
NOT_CHECKED = "as the file says, and not checked anew"
_STYLES = {"violated": "yellow", "vacuous": "yellow", "unreachable": "yellow"}


def show_results(results: Sequence[Result], records: Records) -> None:
    """Print all verdicts by section, what is false or unexpected in full, and a summary."""
    screen = console()
    for (_, title), group in groupby(results, key=lambda r: (r.item.origin, r.item.section)):
        part = list(group)
        rows = [_row(result) for result in part]
        styles = {k: _style(result) for k, result in enumerate(part) if _style(result)}
        headers = ("claim", "verdict", "evidence", "ratio", "instances", "source")
        show_list(headers, rows, ("source",), title, styles)
    told = [r for r in results if not r.ok or r.verdict.verdict == "violated"]
    for result in sorted(told, key=lambda r: not r.ok):  # surprises last, next to the summary
        say(screen, ["", *explained(result, records)])
    for result in told_in_float64(results):
        say(screen, ["", f"{result.item.id}: {result.verdict.verdict}, {result.verdict.reason}"])
    say(screen, ["", *summary(results, records)])


def told_in_float64(results: Sequence[Result]) -> list[Result]:
    """Claims that hold as far as float64 knows: their measures know no higher precision."""
    alone = [r for r in results if r.verdict.reason.startswith(FLOAT64_ONLY)]
    return [result for result in alone if result.ok]


def show_summary(results: Sequence[Result], records: Records) -> None:
    """Print how the claims came out, without the tables."""
    say(console(), summary(results, records))


def summary(results: Sequence[Result], records: Records, most: int | None = None) -> list[str]:
    """How often each verdict occurs, which are not as expected, and where to look.

    Of those that are not as expected so many are named; by default all.
    """
    strangers = [result.item.id for result in results if not result.ok]
    named = few(strangers, len(strangers) if most is None else most)
    surprise = f"not as expected: {named}" if strangers else "all as expected"
    lines = [f"{headline(results)}; {surprise}", f"Verdicts: {records.root}"]
    if any(result.verdict.counterexample for result in results):
        lines.append(f"Counterexamples: {records.counterexamples}")
    if command := check_again(result.item for result in results):
        lines.append(f"Certificates: {NOT_CHECKED}: {command}")
    return lines


def headline(results: Sequence[Result]) -> str:
    """The number of claims and how many came out how."""
    return f"{len(results)} claim{'s' * (len(results) != 1)}: {counted(results)}"


def counted(results: Iterable[Result]) -> str:
    """How many claims came out how, such as "20 hold, 3 false as printed, 1 misprint"."""
    return in_words(_outcomes(results))


def _outcomes(results: Iterable[Result]) -> dict[str, int]:
    """How many claims came out how."""
    return by_outcome(result.facts for result in results)


def sections(items: Sequence[Item], records: Records) -> list[dict[str, Any]]:
    """Every section of the catalogue as plain JSON values, with how its claims came out last."""
    rows = []
    for place, group in groupby(items, key=lambda item: item.place):
        part = list(group)
        judged = [last for item in part if (last := latest(item, records))]
        verdicts = _outcomes(judged)
        if len(judged) < len(part):
            verdicts["not judged yet"] = len(part) - len(judged)
        rows.append(
            {
                "id": place,
                "paper": part[0].entry.paper,
                "title": part[0].section,
                "kind": "claims",
                "claims": len(part),
                "verdicts": verdicts,
            }
        )
    return rows


def show_catalogue(rows: Sequence[dict[str, Any]]) -> None:
    """Print what ``listing`` gave."""
    headers = ("id", "kind", "source", "statement", "last verdict")
    keys = ("id", "kind", "source", "statement", "verdict")
    cells = [[row[key] or "-" for key in keys] for row in rows]
    show_list(headers, cells, ("source", "statement"))


def listing(item: Item, records: Records) -> dict[str, Any]:
    """One claim as plain JSON values; ``verdict`` is the one stored last, or None.

    With what can be said against its counterexample: "violated, degenerate".
    """
    entry, last = item.entry, latest(item, records)
    return {
        "id": entry.id,
        "kind": entry.kind,
        "source": entry.source,
        "section": item.section,
        "statement": " ".join(entry.text.split()),
        "verdict": last and last.verdict.label,
    }


def description(item: Item, records: Records) -> dict[str, Any]:
    """All about one claim as plain JSON values, with the verdict stored last."""
    entry, last = item.entry, latest(item, records)
    return {
        **listing(item, records),
        "latex": entry.latex,
        "assumptions": (
            assumptions(entry.space) if isinstance(entry, Claim | StatisticalClaim) else []
        ),
        "sampling": _sampling(entry) if isinstance(entry, StatisticalClaim) else [],
        "expected": entry.expect,
        "note": entry.note,
        "reading": entry.reading,
        "printed_as": entry.printed_as,
        "uses": list(entry.uses),
        **{name: getattr(entry, name) for name in RELATIONS},
        "derivation": entry.derivation,
        "file": _file(item),
        "evidence": decided(item, last.evidence if last else "") or "",
        "certificate": proof(item),
        "contradiction": (
            last.contradiction if last else certified.contradiction(item.origin, item.id, "", "")
        ),
        "assumed": assumes(item),
        "check": check_again([item]),
        "result": last and plain(last),
    }


def plain(result: Result) -> dict[str, Any]:
    """A result as plain JSON values; ``evidence`` is the strongest that there is.

    ``contradiction`` says in a line that what is known cannot all be true; empty where it can.
    """
    seen = decided(result.item, result.evidence) or ""
    return {**result.to_dict(), "evidence": seen, "contradiction": result.contradiction}


def show_claim(item: Item, records: Records, correction: Item | None) -> None:
    """Print all about one claim, and the claim that replaces it."""
    entry, last = item.entry, latest(item, records)
    lines = [f"{entry.id} ({entry.source}; {entry.kind})", f"File: {_file(item)}"]
    lines += ["", " ".join(entry.text.split())]
    if entry.printed_as != "statement":
        lines.append(f"Printed as: {entry.printed_as}")
    if entry.reading:
        lines.append(f"Read so: {' '.join(_paragraph(entry.reading))}")
    if entry.uses:
        lines.append(f"Its proof uses: {', '.join(entry.uses)}")
    if entry.latex:
        lines += ["", f"LaTeX: {entry.latex}"]
    if isinstance(entry, Claim | StatisticalClaim):
        lines += ["", "Instances:", *(f"  {line}" for line in assumptions(entry.space))]
    if isinstance(entry, StatisticalClaim):
        lines += ["", "Samples:", *(f"  {line}" for line in _sampling(entry))]
    lines += ["", *(explained(_simplified(last), records, best=True) if last else _unjudged(item))]
    if correction is not None:
        text = " ".join(correction.entry.text.split())
        lines += ["", f"Corrected: {correction.id}", text]
        lines += _paragraph(correction.entry.derivation)
    say(console(), lines)


def _simplified(result: Result) -> Result:
    """With a tightest instance of what holds as simple as a counterexample is."""
    verdict, entry = result.verdict, result.item.entry
    quotient = verdict.ratio
    if (
        verdict.verdict != "holds"
        or verdict.best is None
        or not quotient
        or not has_constant(entry)
    ):
        return result
    simple = made_simple(entry, verdict.best, quotient)
    shown = replay(entry, simple)
    sides = (shown.measured, shown.bound) if shown.measured else (verdict.measured, verdict.bound)
    told = replace(verdict, best=simple, measured=sides[0], bound=sides[1])
    return replace(result, verdict=told)


def _unjudged(item: Item) -> list[str]:
    """What is known of a claim of which no verdict is stored."""
    judge = f"No verdict of the current code is stored: ratecheck audit {item.reference}"
    return [judge, *_certified(item, in_full=True), *_reasons(item)]


def _certified(item: Item, *, in_full: bool) -> list[str]:
    """What a certificate says, if there is one, and how to have it checked."""
    told = proof(item)
    if not told:
        return []
    assumed = [f"    assumed: {one}" for one in assumes(item) if in_full]
    again = f"  the proof: ratecheck certify {item.reference}"
    return [f"  {told}", *assumed, again, f"  {NOT_CHECKED}: {check_again([item])}"]


def _file(item: Item) -> str:
    """The file where a claim is stated, and the line of its function."""
    home = module(item.origin)
    function: Any = getattr(item.entry, "function", None)
    if function is None or function.__module__ != home.__name__:
        return file_of(home)
    return f"{file_of(home)}:{inspect.getsourcelines(function)[1]}"


def assumptions(space: Space) -> list[str]:
    """What instances are, line by line: sizes, domains, repairs and predicates."""
    lines = [f"{axis} from {low} to {high}" for axis, (low, high) in space.sizes.items()]
    for name, domain in space.fields.items():
        meaning = f"; {space.meaning[name]}" if name in space.meaning else ""
        lines.append(f"{name}: {_domain(domain)}{meaning}")
    if space.repair is not None:
        lines.append(f"then: {_about(space.repair)}")
    if space.constructed:
        lines.append(f"constructed: {space.constructed}")
    lines += [f"by construction: {name}" for name in space.assumes]
    lines += [f"given: {name}" for name in space.given]
    return lines


def _sampling(claim: StatisticalClaim) -> list[str]:
    """What is sampled and how that decides, line by line."""
    low, high = claim.between
    excess, none = {
        "<=": ("above 0", f"at most {claim.within:g}"),
        ">=": ("below 0", f"at least {-claim.within:g}"),
        "==": ("not 0", f"between {-claim.within:g} and {claim.within:g}"),
    }[claim.relation]
    return [
        f"of measured - bound, each between {low:g} and {high:g}",
        f"violated: their mean is {excess} on some instance",
        f"holds: their mean is {none} on every instance tried",
        f"either of these is wrong with probability at most {claim.alpha:g}",
        f"not decided: {claim.most:,} samples of an instance say neither",
    ]


def _about(function: Any) -> str:
    """The first line that a function says of itself, or that is said right above it; its name."""
    while isinstance(function, functools.partial):
        function = function.func
    comment = (inspect.getcomments(function) or "").removeprefix("#")
    return (function.__doc__ or comment or function.__name__).strip().splitlines()[0]


def _domain(domain: Field) -> str:
    """The values of a field in words."""
    if isinstance(domain, Interval):
        what = "whole numbers" if isinstance(domain, Whole) else "numbers"
        words = f"{what} from {domain.low:g} to {domain.high:g}"
    elif isinstance(domain, Simplex):
        words = "probability distributions"
    elif isinstance(domain, Contraction):
        words = "matrices of operator norm at most 1"
    elif isinstance(domain, Sphere):
        words = "vectors of length 1"
    elif isinstance(domain, Ball):
        words = "vectors of length at most 1"
    else:
        words = f"real numbers of magnitude up to {domain.magnitude[1]:g}"
    return f"{words} ({', '.join(map(str, domain.axes))})" if domain.axes else words


def show_replay(replayed: Replayed) -> None:
    """Print both sides of a replayed instance, the verdict, and whether it was to be expected."""
    verdict = replayed.verdict
    lines = [
        f"{verdict.id}: {verdict.verdict} (the file says: {replayed.stated})",
        *_sides(replayed.item.entry, verdict, best=True),
    ]
    say(console(), [*lines, "reproduced" if replayed.ok else "NOT reproduced"])


def _row(result: Result) -> list[str]:
    outcome, entry = result.verdict, result.item.entry
    surprise = "" if outcome.verdict == entry.expect else f", EXPECTED {entry.expect}"
    verdict = f"{outcome.label}{surprise}"
    return [entry.id, verdict, word(result), ratio(result), f"{outcome.instances:,}", entry.source]


def ratio(result: Result) -> str:
    """How near to the bound, in a table; of a rate, the exponent and the one stated."""
    verdict = result.verdict
    if isinstance(result.item.entry, RateClaim) and verdict.measured:
        return f"{verdict.measured} ({verdict.bound})"
    if verdict.ratio is None:
        return "-"
    short = notation.ratio(verdict.ratio, 6)
    # what exceeds a bound must not look as if it attained it
    return f"{verdict.ratio:.12g}" if short == "1" and verdict.verdict == "violated" else short


def _style(result: Result) -> str:
    return _STYLES.get(result.verdict.verdict, "") if result.ok else "bold red"


def explained(result: Result, records: Records, *, best: bool = False) -> list[str]:
    """A verdict in a few lines: both sides, the counterexample, why, and what to do with it.

    Where there is no counterexample, the tightest instance stands in its place if ``best``.
    """
    verdict, entry = result.verdict, result.item.entry
    expected = "" if verdict.verdict == entry.expect else f" (expected: {entry.expect})"
    lines = [f"{entry.id}: {verdict.label}{expected}"]
    if verdict.evidence:
        lines.append(f"  {result.evidence}{_generic(verdict)}")
        against = result.contradiction
        lines += [f"  {against}"] * bool(against) + _certified(result.item, in_full=best)
    if verdict.verdict == "violated":
        lines.append(f"  {' '.join(entry.text.split())}")
    lines += _sides(entry, verdict, best=best)
    lines += [f"  {line}" for line in _reasons(result.item)]
    if verdict.counterexample is not None:
        beside, path = given_beside(result.item.origin), replay_path(result.item, records)
        again = shlex.join(["ratecheck", "audit", *beside, "--replay", str(path)])
        lines.append(f"  again: {again}")
    return lines


def _sides(entry: Entry, verdict: Verdict, *, best: bool) -> list[str]:
    """Measured and bound, the instance they are from, and what else is to be said."""
    lines = []
    if verdict.measured and not isinstance(entry, RateClaim):
        lines.append(f"  measured {verdict.measured}, bound {verdict.bound}")
    instance = verdict.counterexample or (verdict.best if best else None) or {}
    lines += [f"  {line}" for line in fields_of(entry, instance)]
    if regimes := verdict.details.get("regimes"):
        return lines + [f"  {_exponent(regime)}" for regime in regimes]
    return lines + [f"  {line}" for line in _paragraph(with_option(verdict.reason, "--limit"))]


def fields_of(entry: Entry, instance: Mapping[str, Any]) -> list[str]:
    """The fields of an instance of a claim, line by line: "H = 2"."""
    space = getattr(entry, "space", None)
    domains = {} if space is None else space.fields
    return [
        f"{name} = {_numbers(value, whole=isinstance(domains.get(name), Whole))}"
        for name, value in instance.items()
    ]


def _exponent(regime: Mapping[str, Any]) -> str:
    """One exponent of a rate: stated, measured, and what that says."""
    lo, hi = notation.ends(regime["lo"], regime["hi"])
    return (
        f"{regime['name']}: exponent of {regime['variable']} in [{lo}, {hi}], stated "
        f"{regime['predicted']:.4g}: {regime['verdict']}"
    )


def _generic(verdict: Verdict) -> str:
    """How generic a counterexample is."""
    seen = verdict.witness
    if not seen:
        return ""
    near, far = (f"{seen[name]:.0%}" for name in ("near", "far"))
    said = f"; {near} of its neighbours within 1 % violate it, {far} of those within 10 %"
    if "rounding" in seen:
        said += "; maybe by rounding alone, of a float such as 1/n: have x / n for x * (1 / n)"
    return said


def _numbers(values: Any, *, whole: bool) -> str:
    """Lists of numbers as they are written in JSON; zero without a sign, which says nothing."""
    numbers = np.asarray(values, dtype=float) + 0.0
    if whole and (numbers == np.round(numbers)).all():
        return json.dumps(np.vectorize(int, otypes=[object])(numbers).tolist())
    return json.dumps(numbers.tolist())


def _reasons(item: Item) -> list[str]:
    entry = item.entry
    lines = [*_paragraph(entry.note), *_paragraph(entry.derivation)]
    return [*lines, f"corrected: {entry.corrected}"] if entry.corrected else lines


def _paragraph(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]

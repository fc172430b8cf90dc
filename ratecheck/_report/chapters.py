"""What the page says of each paper: what holds, what does not, why, and its figures."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from ratecheck._claims.families import (
    CATEGORIES,
    IN_WORDS,
    Record,
    by_outcome,
    category,
    false,
    roles,
)
from ratecheck._claims.paper import Paper
from ratecheck._discover.papers import installed
from ratecheck._experiment.model import Check
from ratecheck._fallback import import_ours
from ratecheck._report.experiments import by_outcome as by_outcome_of_checks, predicted, verdict
from ratecheck._report.maths import mathml
from ratecheck._report.notation import ends, lines, ratio, short
from ratecheck._report.words import in_words
from ratecheck._run.job import Outcome
from ratecheck._verdicts.certified import CONTRADICTORY
from ratecheck._verdicts.evidence import decided_by
from ratecheck._verdicts.verdict import Verdict

#: Of a longer counterexample the page has a link to its file.
_SHOWN = 400
_HOLDS = ("holds", "consistent", "faster than stated")

#: What a template shows: plain values, and texts of which some are markup.
Shown = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where the page lies, for links to the files beside it."""

    folder: Path

    def link(self, path: Path) -> str:
        """The address of a file, relative to the page."""
        return quote(Path(os.path.relpath(path, self.folder)).as_posix())


def chapters(
    records: Sequence[Record],
    outcomes: Sequence[Outcome],
    place: Place,
    of_models: Mapping[str, str] = MappingProxyType({}),
) -> list[Shown]:
    """A chapter for every paper that has claims or experiments, in the order in which they come.

    ``of_models`` says of which paper an experiment on language models is, by its id.
    """
    papers = [of_models.get(one.experiment.id, one.experiment.paper) for one in outcomes]
    names = [*map(_paper, records), *papers]
    return [
        _chapter(
            name,
            [record for record in records if _paper(record) == name],
            [one for one, paper in zip(outcomes, papers, strict=True) if paper == name],
            place,
        )
        for name in dict.fromkeys(names)
    ]


def _paper(record: Record) -> str:
    return str(record["id"].partition(".")[0])


def _chapter(
    name: str, records: Sequence[Record], outcomes: Sequence[Outcome], place: Place
) -> Shown:
    title, citation = _title(name, records)
    checks = [check for outcome in outcomes for check in outcome.analysis.checks]
    clear = [record for record in records if not record.get("contradiction")]
    main = [_stated(r) for r in clear if r["main"] and r["verdict"] in _HOLDS]
    holds, broken = _holding(clear, records, title), _broken(clear, records, place)
    return {
        "id": f"paper-{name}",
        "title": title,
        "citation": citation,
        "statements": in_words(came_out(records)),
        "decided": decided_by(clear),
        "checks": counted(checks),
        "experiments": len(outcomes),
        "main": main,
        "holds": holds,
        "broken": broken,
        "placed": _placed(broken, main, holds),
        "figures": [_figure(outcome, place) for outcome in outcomes],
    }


def contradictory(records: Sequence[Record], place: Place) -> list[Shown]:
    """The statements of which what is known cannot all be true, which belong to no other group."""
    return [
        {**_stated(record), **_counterexample(record, place), "is_place": True}
        for record in records
        if record.get("contradiction")
    ]


def came_out(records: Sequence[Record]) -> dict[str, int]:
    """How many statements came out how; first those of which what is known cannot all be true."""
    clear = [record for record in records if not record.get("contradiction")]
    others = len(records) - len(clear)
    return {**({CONTRADICTORY.lower(): others} if others else {}), **by_outcome(clear)}


def _placed(
    broken: Sequence[Shown], main: Sequence[Shown], holds: Sequence[tuple[str, Sequence[Shown]]]
) -> set[str]:
    """The claims that a chapter has, of which each is marked at the one place that its id names."""
    told = [claim for group in broken for claim in group["claims"]]
    placed: set[str] = set()
    for claim in (*told, *main, *(claim for _, held in holds for claim in held)):
        claim["is_place"] = claim["id"] not in placed
        placed.add(claim["id"])
    return placed


def _title(name: str, records: Sequence[Record]) -> tuple[str, str]:
    """The paper's name and citation; those of a user's file are what its sources begin with."""
    if name in installed():
        try:
            paper = import_ours(f"{installed()[name]}.paper").PAPER
        except (ImportError, AttributeError):
            paper = None  # a paper of experiments alone has none
        if isinstance(paper, Paper):
            return paper.name, paper.citation
    sources = [record["source"].partition(",")[0] for record in records]
    return (sources[0] if sources else name), ""


def counted(checks: Sequence[Check]) -> str:
    """How the checks came out, in words: "3 agree with the paper, 1 undecided"."""
    plural = {"agrees with the paper": "agree with the paper"}
    plural |= {"contradicts the paper": "contradict the paper"}
    plural |= {"our own prediction": "our own predictions"}
    plural |= {"our own prediction fails": "of our own predictions fail"}
    counts = by_outcome_of_checks(checks)
    return ", ".join(f"{n} {plural.get(o, o) if n > 1 else o}" for o, n in counts.items() if n)


def _holding(
    clear: Sequence[Record], records: Sequence[Record], title: str
) -> list[tuple[str, list[Shown]]]:
    """What holds of what the paper states, by section, each with its place in the paper.

    Of the ``clear`` records; the others belong to them.
    """
    role = roles(records)
    # what replaces a statement of one's own, such as a wrong constant, is no correction of a paper
    of_papers = {r["corrected"] for r in records if false(r) and r["printed_as"] != "ours"}
    sections: dict[str, list[Shown]] = {}
    for record in clear:
        name = record["id"]
        stated = name not in role or (role[name] == "corrected" and name not in of_papers)
        if record["verdict"] in _HOLDS and stated and record["printed_as"] == "statement":
            where = record["source"].removeprefix(title).lstrip(", ")
            section = record["section"].removeprefix(title).lstrip(", ")
            shown = {"id": record["id"], "where": where}
            sections.setdefault(section, []).append(shown)
    for held in sections.values():
        places = [shown["where"] for shown in held]
        for shown in held:  # several of one place are told apart by their names
            if not shown["where"] or places.count(shown["where"]) > 1:
                shown["name"] = shown["id"].partition(".")[2]
    return list(sections.items())


def _broken(clear: Sequence[Record], records: Sequence[Record], place: Place) -> list[Shown]:
    """What is not true as it stands, by category; all but the first one is folded.

    Of the ``clear`` records; the others belong to them.
    """
    by_id = {record["id"]: record for record in records}
    role = roles(records)
    groups: dict[str, list[Shown]] = {name: [] for name in CATEGORIES.values()}
    for record in clear:
        if record["verdict"] != "violated" and not category(record):
            continue
        better = by_id.get(record["corrected"] or "")
        groups[category(record)].append(
            {
                **_stated(record),
                "mark": role.get(record["id"], ""),
                **_counterexample(record, place),
                "correction": better and _stated(better),
            }
        )
    filled = [(name, group) for name, group in groups.items() if group]
    return [
        {"name": name, "open": number == 0, "claims": group}
        for number, (name, group) in enumerate(filled)
    ]


def _counterexample(record: Record, place: Place) -> Shown:
    """The counterexample, or where its file is if it is long."""
    text = "\n".join(lines(record["counterexample"]))
    path = record.get("instance")
    if len(text) <= _SHOWN or not path:
        return {"counterexample": text, "file": ""}
    return {"counterexample": "", "file": place.link(Path(path))}


def _stated(record: Record) -> Shown:
    """A record with its statement as MathML and its ratio in four digits."""
    numbers = {"ratio": ratio(record["ratio"]), "stated": IN_WORDS[record["relation"]]}
    label = Verdict.of_known(record).label
    return {**record, **numbers, "label": label, "math": mathml(record["latex"])}


def _figure(outcome: Outcome, place: Place) -> Shown:
    experiment, checks = outcome.experiment, outcome.analysis.checks
    pictures: Mapping[str, Path] = {path.suffix: path for path in outcome.figures}
    named = [check for check in checks if check.outcome.startswith(("contradicts", "our own"))]
    return {
        "id": experiment.id,
        "title": experiment.title,
        "source": experiment.source,
        "image": place.link(pictures[".png"]) if ".png" in pictures else "",
        "size": _size(pictures[".png"]) if ".png" in pictures else (0, 0),
        "file": place.link(pictures[".svg"]) if ".svg" in pictures else "",
        "problem": outcome.problem,
        "notes": outcome.notes,
        "counted": counted(checks),
        "contradictions": [
            f"{check.name}: {short(check.measured)}; predicted {predicted(check)}"
            for check in named
            if check.outcome != "our own prediction"
        ],
    }


def _size(picture: Path) -> tuple[int, int]:
    """Width and height of a PNG in pixels, which let a browser leave room for it."""
    with picture.open("rb") as opened:
        width, height = struct.unpack(">II", opened.read(24)[16:])
    return width, height


def rows_of_checks(outcomes: Sequence[Outcome]) -> list[Shown]:
    """Every check of every experiment, as the table of the page has it."""
    return [
        {
            "experiment": outcome.experiment.id,
            "name": check.name,
            "predicted": predicted(check),
            "measured": short(check.measured),
            "interval": interval(check.lo, check.hi),
            "outcome": check.outcome,
            "verdict": verdict(check),
        }
        for outcome in outcomes
        for check in outcome.analysis.checks
    ]


def interval(lo: float | None, hi: float | None) -> str:
    """Both ends of an interval; see :func:`ratecheck._report.notation.ends`.

    >>> interval(0.5, 2 / 3), interval(1, 1), interval(None, None)
    ('0.5 to 0.6667', 'exact', '')
    """
    if lo is None or hi is None:
        return ""
    return "exact" if lo == hi else " to ".join(ends(lo, hi))

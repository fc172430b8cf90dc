"""One HTML page of everything in the results folder: papers, claims, figures.

The page is made from the store alone: experiments are analysed and drawn from their stored tables,
verdicts are read as the audit left them. It loads nothing from a network. Each paper has a chapter;
tables of all statements, checks and exponents come last. What is large lies in files beside the
page, to which it has relative links: figures, and long counterexamples.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ratecheck._claims.families import Record, roles
from ratecheck._names import check_installed
from ratecheck._report.chapters import (
    Place,
    Shown,
    came_out,
    chapters,
    contradictory,
    interval,
    rows_of_checks,
)
from ratecheck._report.notation import ratio, short
from ratecheck._report.stored import Stored
from ratecheck._run.job import Outcome
from ratecheck._store.files import check_writable, write_whole, writing
from ratecheck._store.machine import machine, versions
from ratecheck._verdicts.evidence import MEANING
from ratecheck._verdicts.verdict import DOUBTS, Verdict


def check_libraries() -> None:
    """Raise InputError if the page cannot be made here."""
    check_installed("page", "jinja2", "latex2mathml")


def page(stored: Stored, folder: Path) -> str:
    """The text of the page that lies in this folder."""
    check_libraries()
    from jinja2 import Environment, PackageLoader

    records, outcomes = stored.records, stored.outcomes
    exponents = [*_claimed_exponents(records), *_measured_exponents(outcomes)]
    # what users write is text, not markup
    environment = Environment(
        loader=PackageLoader("ratecheck._report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    papers = chapters(records, outcomes, Place(folder), stored.of_models)
    doubtful = contradictory(records, Place(folder))
    told = {name for paper in papers for name in paper["placed"]} | {c["id"] for c in doubtful}
    return environment.get_template("page.html.j2").render(
        made=_made_with(),
        gaps=stored.gaps,
        statements=came_out(records),
        contradictory=doubtful,
        doubts=DOUBTS,
        kinds={str(kind): meaning for kind, meaning in MEANING.items()},
        papers=papers,
        claims=_claims(records, told),
        checks=rows_of_checks(outcomes),
        exponents=exponents,
        with_exponents={row["what"] for row in exponents},
    )


def write(stored: Stored, path: Path) -> None:
    """Write the page whole, or leave what was there; the folder is made."""
    content = page(stored, path.parent).encode()
    check_writable("folder of the report", path.parent)
    with writing("report", path):
        write_whole(path, content)


def _made_with() -> str:
    now = datetime.datetime.now().astimezone().isoformat(" ", "minutes")
    named = (f"{name} {number}" for name, number in versions().items())
    return f"{now}; {', '.join(named)}; {machine()['cpu']}"


def _claims(records: Sequence[Record], told: Collection[str]) -> list[Shown]:
    """Every statement, as the table of the page has it; ``told`` are those in a chapter."""
    role = roles(records)
    return [
        {
            "id": record["id"],
            "role": role.get(record["id"], ""),
            "told": record["id"] in told,
            "source": record["source"],
            "text": record["text"],
            "constructed": record.get("constructed", ""),
            "verdict": record["verdict"],
            "label": Verdict.of_known(record).label,
            "contradictory": bool(record.get("contradiction")),
            "evidence": record.get("proof") or record.get("decided", ""),
            "surprise": record["expected"] if record["verdict"] != record["expected"] else "",
            "current": record["current"],
            "ratio": ratio(record["ratio"]),
            "instances": int(record["instances"] or 0),
        }
        for record in records
    ]


def _claimed_exponents(records: Sequence[Record]) -> list[Shown]:
    return [
        _exponent(record["id"], {**regime, "regime": regime["name"]})
        for record in records
        for regime in record["details"].get("regimes", ())
    ]


def _measured_exponents(outcomes: Sequence[Outcome]) -> list[Shown]:
    return [
        _exponent(
            outcome.experiment.id,
            {
                "regime": check.name,
                "variable": outcome.experiment.variable or "",
                "predicted": check.predicted,
                "measured": check.measured,
                "lo": check.lo,
                "hi": check.hi,
                "verdict": check.outcome,
            },
        )
        for outcome in outcomes
        if outcome.experiment.kind == "rate"
        for check in outcome.analysis.checks
        if not isinstance(check.predicted, str)
    ]


def _exponent(what: str, row: Mapping[str, Any]) -> Shown:
    numbers = {name: short(row[name]) for name in ("predicted", "measured")}
    words = {name: row[name] for name in ("regime", "variable", "verdict")}
    return {"what": what, **words, **numbers, "interval": interval(row["lo"], row["hi"])}

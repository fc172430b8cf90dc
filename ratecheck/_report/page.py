"""One self-contained HTML page of everything in the results folder: figures, exponents, claims.

The page is made from the store alone: experiments are analysed and drawn from their stored tables,
verdicts are read as the audit left them. It loads nothing from a network; the table library and the
figures are inside.
"""

from __future__ import annotations

import base64
import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ratecheck._claims.families import CATEGORIES, IN_WORDS, Record, by_outcome, category, roles
from ratecheck._names import check_installed
from ratecheck._report.notation import lines, short
from ratecheck._report.stored import Stored
from ratecheck._run.job import Outcome
from ratecheck._store.files import check_writable, write_whole, writing
from ratecheck._store.machine import machine, versions
from ratecheck._verdicts.verdict import Verdict

_MARKS = {True: "yes", None: "open", False: "no"}
#: Options of DataTables for every table of the page.
_TABLE: dict[str, Any] = {
    "connected": False,
    "allow_html": True,
    "showIndex": False,
    "autoWidth": False,
    "paging": False,
    "display_logo_when_loading": False,
    "maxBytes": 0,
    "maxColumns": 0,
    "classes": "display compact",
    "style": "width:100%",
}


def check_libraries() -> None:
    """Raise InputError if the page cannot be made here."""
    check_installed("page", "itables", "jinja2", "latex2mathml")


def page(stored: Stored) -> str:
    """The page's text."""
    check_libraries()
    from jinja2 import Environment, PackageLoader

    records, outcomes = stored.records, stored.outcomes
    exponents = [*_claimed_exponents(records), *_measured_exponents(outcomes)]
    refuted = [record for record in records if record["verdict"] == "violated"]
    sections = [
        ("Claims", "claims", records),
        ("What is not true as it stands", "refuted", refuted),
        ("Exponents", "exponents", exponents),
        ("Figures and checks", "figures", outcomes),
    ]
    # what users write is text, not markup
    environment = Environment(
        loader=PackageLoader("ratecheck._report", "."),
        autoescape=True,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("page.html.j2").render(
        made=_made_with(),
        sections=[(title, anchor) for title, anchor, content in sections if content],
        counts=_counts(outcomes, records),
        gaps=stored.gaps,
        table_library=_table_library() if records or exponents else "",
        verdict_table=_verdict_table(records),
        refuted=_refuted(refuted, records),
        exponent_table=_exponent_table(exponents),
        figures=[_figure(outcome) for outcome in outcomes],
    )


def write(stored: Stored, path: Path) -> None:
    """Write the page whole, or leave what was there; the folder is made."""
    content = page(stored).encode()
    check_writable("folder of the report", path.parent)
    with writing("report", path):
        write_whole(path, content)


def _made_with() -> str:
    now = datetime.datetime.now().astimezone().isoformat(" ", "minutes")
    named = (f"{name} {number}" for name, number in versions().items())
    return f"{now}; {', '.join(named)}; {machine()['cpu']}"


def _counts(outcomes: Sequence[Outcome], records: Sequence[Record]) -> list[tuple[str, str, int]]:
    """Class, label and number: verdicts of claims, then checks of figures."""
    mark = {name: "violated" for name in CATEGORIES.values()}
    counts = [
        (mark.get(name, name.split()[0]), name, number)
        for name, number in by_outcome(records).items()
    ]
    for ok, label in ((True, "checks hold"), (None, "checks not decided"), (False, "checks fail")):
        counts.append((_MARKS[ok], label, sum(outcome.count(ok) for outcome in outcomes)))
    return [entry for entry in counts if entry[2]]


def _table_library() -> str:
    import itables.options
    from itables.javascript import generate_init_offline_itables_html

    library = str(generate_init_offline_itables_html(Path(itables.options.dt_bundle)))
    return library.partition("<div")[0]  # what follows is about notebooks


def _data_table(columns: Mapping[str, Sequence[Any]], **options: Any) -> str:
    import pyarrow as pa
    from itables import to_html_datatable

    return str(to_html_datatable(pa.table(dict(columns)), **_TABLE, **options))


def _verdict_table(records: Sequence[Record]) -> str:
    if not records:
        return ""
    role = roles(records)
    return _data_table(
        {
            "claim": [_name_cell(record, role.get(record["id"], "")) for record in records],
            "statement": [_statement(record) for record in records],
            "verdict": [_verdict(record) for record in records],
            "ratio": [_escape(short(record["ratio"])) for record in records],
            "instances": [int(record["instances"] or 0) for record in records],
        },
        columnDefs=[{"targets": 1, "className": "statement"}, {"targets": 2, "className": "said"}],
    )


def _name_cell(record: Record, role: str) -> str:
    """Id and source, with a mark at what is not as printed."""
    paper, _, name = _escape(record["id"]).partition(".")
    name = f"{paper}.<wbr>{name.replace('_', '_<wbr>')}"
    if record["verdict"] == "violated":
        name = f'<a href="#{_escape(record["id"])}">{name}</a>'
    mark = f' <span class="mark">{role}</span>' if role else ""
    return f'<b>{name}</b>{mark}<br><span class="soft">{_escape(record["source"])}</span>'


def _statement(record: Record) -> str:
    math, made = _math(record), _escape(record.get("constructed", ""))
    made = f'<br><span class="soft">constructed: {made}</span>' if made else ""
    return f"{_escape(record['text'])}{f'<div>{math}</div>' if math else ''}{made}"


def _verdict(record: Record) -> str:
    said = _coloured(Verdict.of_known(record).label)
    if record["verdict"] != record["expected"]:
        said += f'<br><span class="no">expected: {_escape(record["expected"])}</span>'
    return said if record["current"] else f'{said}<br><span class="soft">older code</span>'


def _coloured(verdict: str) -> str:
    return f'<span class="{_escape(verdict.split()[0].rstrip(","))}">{_escape(verdict)}</span>'


def _escape(text: Any) -> str:
    from markupsafe import escape

    return str(escape(text))


def _math(record: Record) -> str:
    """The statement's LaTeX as MathML; empty where there is none or the converter fails on it."""
    from latex2mathml.converter import convert_to_element

    latex = record["latex"]
    if not latex:
        return ""
    try:
        element = convert_to_element(latex)
    except Exception:  # a user's LaTeX may be anything; the plain text stands in
        return ""
    # Its own text form leaves what users write in \text{} as markup. Symbols come as references.
    return re.sub(r"&amp;(#?\w+;)", r"&\1", ElementTree.tostring(element, encoding="unicode"))


def _refuted(
    refuted: Sequence[Record], records: Sequence[Record]
) -> list[tuple[str, list[dict[str, Any]]]]:
    """Statements that are not true as they stand, by category."""
    by_id = {record["id"]: record for record in records}
    role = roles(records)
    entries: dict[str, list[dict[str, Any]]] = {name: [] for name in CATEGORIES.values()}
    for record in refuted:
        better = by_id.get(record["corrected"])
        entries[category(record)].append(
            {
                **_shown(record),
                "mark": role.get(record["id"], ""),
                "counterexample": "\n".join(lines(record["counterexample"])),
                "correction": better and _shown(better),
            }
        )
    return [(name, group) for name, group in entries.items() if group]


def _shown(record: Record) -> dict[str, Any]:
    """A record with its statement as MathML and its ratio in four digits."""
    numbers = {"ratio": short(record["ratio"]), "stated": IN_WORDS[record["relation"]]}
    return {**record, **numbers, "label": Verdict.of_known(record).label, "math": _math(record)}


Exponent = dict[str, Any]


def _claimed_exponents(records: Sequence[Record]) -> list[Exponent]:
    return [
        {**regime, "what": record["id"], "regime": regime["name"]}
        for record in records
        for regime in record["details"].get("regimes", ())
    ]


def _measured_exponents(outcomes: Sequence[Outcome]) -> list[Exponent]:
    return [
        {
            "what": outcome.experiment.id,
            "regime": check.name,
            "variable": outcome.experiment.variable or "",
            "predicted": check.predicted,
            "measured": check.measured,
            "lo": check.lo,
            "hi": check.hi,
            "verdict": check.verdict or _MARKS[check.ok],
        }
        for outcome in outcomes
        if outcome.experiment.kind == "rate"
        for check in outcome.analysis.checks
        if not isinstance(check.predicted, str)
    ]


def _exponent_table(exponents: Sequence[Exponent]) -> str:
    if not exponents:
        return ""
    return _data_table(
        {
            "claim or experiment": _cells(row["what"] for row in exponents),
            "regime": _cells(row["regime"] for row in exponents),
            "exponent of": _cells(row["variable"] for row in exponents),
            "stated": _cells(row["predicted"] for row in exponents),
            "measured": _cells(row["measured"] for row in exponents),
            "interval": _cells(_interval(row["lo"], row["hi"]) for row in exponents),
            "verdict": [_coloured(str(row["verdict"])) for row in exponents],
        }
    )


def _cells(values: Iterable[Any]) -> list[str]:
    return [_escape(short(value)) for value in values]


def _figure(outcome: Outcome) -> dict[str, Any]:
    pictures = [path for path in outcome.figures if path.suffix == ".svg"]
    return {
        "id": outcome.experiment.id,
        "title": outcome.experiment.title,
        "source": outcome.experiment.source,
        "image": _inline(pictures[0]) if pictures else "",
        "problem": outcome.problem,
        "notes": outcome.notes,
        "checks": [
            {
                "name": check.name,
                "predicted": short(check.predicted),
                "measured": short(check.measured),
                "interval": _interval(check.lo, check.hi),
                "mark": _MARKS[check.ok],
                "verdict": check.verdict or _MARKS[check.ok],
            }
            for check in outcome.analysis.checks
        ],
    }


def _inline(picture: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(picture.read_bytes()).decode()


def _interval(lo: float | None, hi: float | None) -> str:
    if lo is None or hi is None:
        return ""
    return "exact" if lo == hi else f"{short(lo)} to {short(hi)}"

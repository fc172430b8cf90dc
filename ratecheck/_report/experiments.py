"""What a person reads: tables of checks on a terminal and the index of what was reproduced."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratecheck._experiment.model import BenchRow, Check, Experiment
from ratecheck._report.markdown import table
from ratecheck._report.notation import short
from ratecheck._report.terminal import console, dump, say, tabulate
from ratecheck._run.job import Outcome
from ratecheck._store.files import write_whole
from ratecheck._store.store import Store

if TYPE_CHECKING:
    from rich.table import Table

#: How a check is marked in the tables, and how its row stands out there.
_MARKS = {True: "yes", None: "open", False: "NO"}
_STYLES = {None: "yellow", False: "bold red"}
_VERDICTS = {True: "holds", None: "not decided", False: "fails"}
_HEADERS = ("check", "predicted", "measured", "interval", "ok", "verdict")


def show(outcome: Outcome) -> None:
    """Print one experiment: its checks, its notes, its figures."""
    experiment = outcome.experiment
    title = f"{experiment.id}: {experiment.title} ({experiment.source})"
    screen = console()
    if outcome.analysis.checks:
        screen.print(_checks([outcome], title))
    else:
        say(screen, [title])
    say(screen, [f"- {note}" for note in outcome.notes] + [str(p) for p in outcome.figures])


def show_rates(outcomes: Sequence[Outcome], title: str) -> None:
    """Print the checks of several experiments in one table, then their notes, each once."""
    screen = console()
    screen.print(_checks(outcomes, title))
    notes = dict.fromkeys(f"- {note}" for outcome in outcomes for note in outcome.notes)
    say(screen, list(notes))


def show_summary(root: Path, outcomes: Sequence[Outcome], failures: Mapping[str, str]) -> None:
    """Write the index and print every verdict, their count and where to look."""
    index, program = write_index(root, outcomes, failures)
    screen = console()
    screen.print(_checks(outcomes, "Predicted against measured"))
    hold, undecided, fail = (sum(o.count(ok) for o in outcomes) for ok in (True, None, False))
    contradicted = [
        f"Fails: {outcome.experiment.id}: {check.name}"
        for outcome in outcomes
        for check in outcome.analysis.checks
        if check.ok is False
    ]
    broken = f"; did not run: {', '.join(failures)}" if failures else ""
    say(
        screen,
        [
            *contradicted,
            f"{hold} hold, {undecided} not decided, {fail} fail: {hold + undecided + fail} checks "
            f"in {len(outcomes)} experiments{broken}",
            f"Figures: {root / 'figures'}",
            f"Summary: {index} (for programs: {program})",
        ],
    )


def said(outcome: Outcome) -> str:
    """One experiment in a few words."""
    if not outcome.ok:
        return "A CHECK FAILS"
    undecided = outcome.count(None)
    return f"ok, {undecided} not decided" if undecided else "ok"


def listing(experiment: Experiment[Any], store: Store) -> dict[str, Any]:
    """One experiment as plain JSON values; ``stored`` counts the blocks in the store by profile."""
    stored = {}
    for profile, config in experiment.profiles.items():
        blocks = experiment.blocks(config)
        stored[profile] = f"{store.saved(experiment, config, blocks)}/{len(blocks)}"
    keys = ("id", "paper", "title", "source", "kind", "variable")
    return {**{key: getattr(experiment, key) for key in keys}, "stored": stored}


def show_bench(rows: Sequence[BenchRow]) -> None:
    """Print our seconds beside each peer's."""
    headers = ("benchmark", "peer", "ours", "peer's", "times faster", "same result")
    cells = [
        [
            *(row.name, row.peer, f"{row.ours_s:.3g} s", f"{row.peer_s:.3g} s"),
            *(f"{row.ratio:.2f}", "yes" if row.correct else "NO"),
        ]
        for row in rows
    ]
    console().print(tabulate(headers, cells))


def write_index(
    root: Path, outcomes: Sequence[Outcome], failures: Mapping[str, str]
) -> tuple[Path, Path]:
    """Write ``index.md`` (figures and checks) and ``summary.json`` (for programs) to ``root``."""
    lines = ["# Results", ""]
    for outcome in outcomes:
        lines += _section(root, outcome)
    for name, error in failures.items():
        lines += [f"## {name}", "", f"Did not run: {error}", ""]
    summary = {"results": [outcome.to_dict() for outcome in outcomes], "failed": dict(failures)}
    index, program = root / "index.md", root / "summary.json"
    write_whole(index, "\n".join(lines).encode())
    write_whole(program, dump(summary).encode())
    return index, program


def _section(root: Path, outcome: Outcome) -> list[str]:
    experiment = outcome.experiment
    lines = [f"## {experiment.id}: {experiment.title}", "", f"Source: {experiment.source}.", ""]
    for path in outcome.figures:
        if path.suffix == ".png":
            target = Path(os.path.relpath(path, root)).as_posix()
            lines += [f"![{experiment.title}]({target})", ""]
    if outcome.analysis.checks:
        lines += [*table(_HEADERS, [_cells(check) for check in outcome.analysis.checks]), ""]
    lines += [f"- {note}" for note in outcome.notes]
    return [*lines, ""] if outcome.notes else lines


def _checks(outcomes: Sequence[Outcome], title: str) -> Table:
    """Predicted against measured, one row per check; the id only where there are several."""
    ids = len(outcomes) > 1
    checks = [(o.experiment.id, check) for o in outcomes for check in o.analysis.checks]
    rows = [[*([name] if ids else []), *_cells(check)] for name, check in checks]
    styles = {k: _STYLES[check.ok] for k, (_, check) in enumerate(checks) if check.ok in _STYLES}
    return tabulate([*(["experiment"] if ids else []), *_HEADERS], rows, title, styles)


def _cells(check: Check) -> tuple[str, ...]:
    verdict = check.verdict or _VERDICTS[check.ok]
    numbers = (short(check.predicted), short(check.measured), _interval(check))
    return (check.name, *numbers, _MARKS[check.ok], verdict)


def _interval(check: Check) -> str:
    if check.lo is None or check.hi is None:
        return "-"
    if check.lo == check.hi:
        return "exact"
    return f"[{short(check.lo)}, {short(check.hi)}]"

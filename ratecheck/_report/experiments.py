"""What a person reads: tables of checks on a terminal and the index of what was reproduced."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratecheck._experiment.model import OUTCOMES, BenchRow, Check, Experiment
from ratecheck._report.markdown import table
from ratecheck._report.notation import ends, short
from ratecheck._report.screen import (
    ROOM,
    few,
    fitting,
    height,
    height_of,
    most_telling,
    with_room,
)
from ratecheck._report.terminal import console, dump, say, show_list, tabulate
from ratecheck._run.job import Outcome
from ratecheck._store.files import write_whole
from ratecheck._store.store import Store

if TYPE_CHECKING:
    from rich.table import Table

#: How the row of a check stands out in a table.
_STYLES = {None: "yellow", False: "bold red"}
_HEADERS = ("check", "predicted", "measured", "interval", "verdict")
#: Verdicts of an interval that say no more than the outcome of the check.
_PLAIN = ("confirmed", "consistent", "violated", "not decided")
#: More tables of experiments do not fit on one screen.
MANY = 4
#: What checks say that do not agree with the paper, the gravest first.
_NOT_AGREEING = ("contradicts the paper", "undecided")
#: Lines of a table of counts, with its title, two rows and that of all checks; more rows that count
#: more than the names of checks.
_TABLE, _MORE = 7, 4
#: Lines of `ratecheck reproduce` on claims and on its page; so many names are in a line.
_OF_CLAIMS, _IN_A_LINE = 9, 8
#: So many notes of a run are told, and so many experiments are named for one.
_NOTES, _NAMED = 3, 3


def show(outcome: Outcome) -> None:
    """Print one experiment: its checks, its notes, its figures."""
    experiment = outcome.experiment
    title = f"{experiment.id}: {experiment.title} ({experiment.source})"
    screen = console()
    if outcome.analysis.checks:
        _show_checks([outcome], title)
    else:
        say(screen, [title])
    say(screen, [f"- {note}" for note in outcome.notes] + [str(p) for p in outcome.figures])


def of_runs(outcomes: Sequence[Outcome]) -> list[str]:
    """What many experiments note of this run, each thing once, and where their figures are."""
    noted: dict[str, list[str]] = {}
    for outcome in outcomes:
        for note in outcome.notes[len(outcome.analysis.notes) :]:
            noted.setdefault(note, []).append(outcome.experiment.id)
    notes = [f"- {note}: {few(ids, _NAMED)}" for note, ids in noted.items()]
    more = [f"- {len(notes) - _NOTES} notes more"] if len(notes) > _NOTES else []
    folders = {str(path.parent) for outcome in outcomes for path in outcome.figures}
    return [*notes[:_NOTES], *more, *(f"Figures: {folder}" for folder in sorted(folders))]


def show_counts(outcomes: Sequence[Outcome], title: str, more: Sequence[str] = ()) -> None:
    """Print how the checks of each experiment came out, and which do not agree with the paper.

    All of it fits on a screen, with ``more`` lines.
    """
    screen = console()
    end = [*more, "Every check: the same command with --verbose (-v)"]
    room = ROOM - height(end, screen.width)
    groups = {outcome.experiment.id: [outcome] for outcome in outcomes}
    beside = room - _TABLE - min(len(groups), _MORE)
    told = _told(outcomes, _NOT_AGREEING, beside, screen.width)
    room -= height(told, screen.width)
    screen.print(_counts("experiment", groups, title, room))
    say(screen, [*told, *end])


def show_rates(outcomes: Sequence[Outcome], title: str, *, in_full: bool = False) -> None:
    """Print the checks of several experiments in one table, then their notes, each once.

    Of more checks than fit on a screen, how they came out by experiment, if not ``in_full``.
    """
    notes = dict.fromkeys(f"- {note}" for outcome in outcomes for note in outcome.notes)

    def show_all() -> None:
        _show_checks(outcomes, title)
        say(console(), list(notes))

    if in_full or len(outcomes) < 2 or height_of(show_all) <= ROOM:
        show_all()
    else:
        show_counts(outcomes, title)


def show_summary(
    root: Path,
    outcomes: Sequence[Outcome],
    failures: Mapping[str, str],
    *,
    in_full: bool = False,
) -> None:
    """Write the index; print paper by paper what the checks say, what fails and where to look.

    The rows of all checks are printed as well if ``in_full``.
    """
    index, program = write_index(root, outcomes, failures)
    screen = console()
    if in_full:
        _show_checks(outcomes, "Predicted against measured")
    broken = [f"Did not run: {few([*failures], _IN_A_LINE)}"] if failures else []
    places = [
        f"Figures: {root / 'figures'}",
        f"Every check: {index}",
        f"For programs: {program}",
    ]
    end = [*broken, *places]
    room = ROOM - _OF_CLAIMS - height(end, screen.width)
    papers = len({outcome.experiment.paper for outcome in outcomes})
    told = _told(outcomes, (), room - (papers + _TABLE if outcomes else 0), screen.width)
    if outcomes:
        screen.print(_by_paper(outcomes, max(room - height(told, screen.width), _TABLE)))
    say(screen, [*told, *end])


def _told(outcomes: Sequence[Outcome], others: Sequence[str], room: int, width: int) -> list[str]:
    """The checks that fail, then those that say this of the paper, as far as they fit."""
    names = ["Fails", *(name.capitalize() for name in others)]
    groups = [_named(names[0], outcomes, lambda check: check.ok is False)]
    groups += [_named(name.capitalize(), outcomes, partial(_says, name)) for name in others]
    return fitting(groups, names, room, width)


def _says(outcome: str, check: Check) -> bool:
    """Whether a check that does not fail says this of the paper."""
    return check.ok is not False and check.outcome == outcome


def _named(what: str, outcomes: Sequence[Outcome], holds: Callable[[Check], bool]) -> list[str]:
    """The checks of which something holds, a line for each."""
    return [
        f"{what}: {outcome.experiment.id}: {check.name}"
        for outcome in outcomes
        for check in outcome.analysis.checks
        if holds(check)
    ]


def by_outcome(checks: Iterable[Check]) -> dict[str, int]:
    """How many checks say what of their paper; the last only where there are any."""
    counts = Counter(check.outcome for check in checks)
    return {name: counts[name] for name in OUTCOMES if counts[name] or name != OUTCOMES[-1]}


def _by_paper(outcomes: Sequence[Outcome], room: int) -> Table:
    """How many checks of each paper, and of all, came out how."""
    papers = dict.fromkeys(outcome.experiment.paper for outcome in outcomes)
    groups = {p: [o for o in outcomes if o.experiment.paper == p] for p in papers}
    return _counts("paper", groups, "Checks of figures and rates", room)


def _counts(what: str, groups: Mapping[str, Sequence[Outcome]], title: str, room: int) -> Table:
    """How many checks of each group, and of all, came out how; in so many lines of a screen.

    Of too many groups those stay of which most checks fail, or else do not agree with the paper.
    """
    names, parts = [*groups], [*groups.values()]
    weights = []
    for part in parts:
        checks = [check for outcome in part for check in outcome.analysis.checks]
        failing = sum(check.ok is False for check in checks)
        weights.append((failing, *(by_outcome(checks).get(name, 0) for name in _NOT_AGREEING)))

    def make(number: int) -> Table:
        shown, others = most_telling(weights, number)
        rows = {names[k]: parts[k] for k in shown}
        if others:
            rows[f"{len(others)} others"] = [one for k in others for one in parts[k]]
        if len(groups) > 1:
            rows["all"] = [one for part in parts for one in part]
        return _rows_of_counts(what, rows, title)

    return with_room(console(), make, len(groups), room)


def _rows_of_counts(what: str, groups: Mapping[str, Sequence[Outcome]], title: str) -> Table:
    """How many checks of each group came out how."""
    counts = {
        name: by_outcome(check for o in part for check in o.analysis.checks)
        for name, part in groups.items()
    }
    columns = [outcome for outcome in OUTCOMES if any(outcome in c for c in counts.values())]
    number = [[str(len(part))] if what == "paper" else [] for part in groups.values()]
    rows = [
        [name, *experiments, *(str(outcomes_of.get(column, 0)) for column in columns)]
        for experiments, (name, outcomes_of) in zip(number, counts.items(), strict=True)
    ]
    headers = (what, *["experiments"][: what == "paper"], *columns)
    return tabulate(headers, rows, title, edges=False)


def said(outcome: Outcome) -> str:
    """One experiment in a few words."""
    if not outcome.ok:
        return "A CHECK FAILS"
    undecided = outcome.count(None)
    return f"ok, {undecided} undecided" if undecided else "ok"


def verdict(check: Check) -> str:
    """What a check says of the paper, and more where its interval does.

    >>> verdict(Check("slope", -1, -2.0, -2.1, -1.9, True, "faster than stated"))
    'agrees with the paper; faster than stated'
    >>> verdict(Check("slope", -1, -1.0, -1.1, -0.9, True, "consistent"))
    'agrees with the paper'
    """
    more = check.verdict
    for word in _PLAIN:
        more = more.removeprefix(word)
    more = more.lstrip(";: ")
    return f"{check.outcome}; {more}" if more else check.outcome


def predicted(check: Check) -> str:
    """The prediction with its tolerance, beside the paper's where that is another one.

    >>> predicted(Check("slope", -1.0, -1.02, -1.1, -0.9, True, tolerance=0.05))
    '-1 ± 0.05'
    >>> predicted(Check("gain", "above 0", 1.0, 1.0, 1.0, True, ours=True, paper="below 0"))
    'above 0 (the paper: below 0)'
    """
    said = short(check.predicted)
    if check.tolerance:
        said += f" ± {short(check.tolerance)}"
    return f"{said} (the paper: {check.paper})" if check.paper else said


def plain(outcome: Outcome) -> dict[str, Any]:
    """One experiment as plain JSON values, its checks as :func:`plain_check` has them."""
    return {**outcome.to_dict(), "checks": [plain_check(c) for c in outcome.analysis.checks]}


def plain_check(check: Check) -> dict[str, Any]:
    """A check as plain JSON values, with the texts of the table.

    ``predicted`` is a number, or None where an ordering is predicted; ``prediction`` says either.

    >>> answer = plain_check(Check("gain", "above 0", 1.5, 1.0, 2.0, True, "wide"))
    >>> answer["predicted"], answer["prediction"], answer["verdict"]
    (None, 'above 0', 'agrees with the paper; wide')
    """
    number = None if isinstance(check.predicted, str) else check.predicted
    texts = {"prediction": predicted(check), "verdict": verdict(check)}
    return {**check.to_dict(), "predicted": number, **texts}


def summary(outcomes: Sequence[Outcome], failures: Mapping[str, str]) -> dict[str, Any]:
    """What was reproduced as plain JSON values, and why the rest was not, by id."""
    return {"results": [plain(outcome) for outcome in outcomes], "failed": dict(failures)}


def listing(experiment: Experiment[Any], store: Store) -> dict[str, Any]:
    """One experiment as plain JSON values; ``stored`` counts the blocks in the store by profile."""
    stored = {}
    for profile, config in experiment.profiles.items():
        blocks = experiment.blocks(config)
        stored[profile] = f"{store.saved(experiment, config, blocks)}/{len(blocks)}"
    keys = ("id", "paper", "title", "source", "kind", "variable")
    return {**{key: getattr(experiment, key) for key in keys}, "stored": stored}


def show_bench(rows: Sequence[BenchRow], title: str) -> None:
    """Print our seconds beside each peer's, below a title."""
    headers = ("benchmark", "peer", "ours", "peer's", "times faster", "same result")
    cells = [
        [
            *(row.name, row.peer, f"{row.ours_s:.3g} s", f"{row.peer_s:.3g} s"),
            *(f"{row.ratio:.2f}", "yes" if row.correct else "NO"),
        ]
        for row in rows
    ]
    console().print(tabulate(headers, cells, title))


def write_index(
    root: Path, outcomes: Sequence[Outcome], failures: Mapping[str, str]
) -> tuple[Path, Path]:
    """Write ``index.md`` (figures and checks) and ``summary.json`` (for programs) to ``root``."""
    lines = ["# Results", ""]
    for outcome in outcomes:
        lines += _section(root, outcome)
    for name, error in failures.items():
        lines += [f"## {name}", "", f"Did not run: {error}", ""]
    index, program = root / "index.md", root / "summary.json"
    write_whole(index, "\n".join(lines).encode())
    write_whole(program, dump(summary(outcomes, failures)).encode())
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


def _show_checks(outcomes: Sequence[Outcome], title: str) -> None:
    """Print predicted against measured, one row per check; the id only where there are several."""
    ids = len(outcomes) > 1
    checks = [(o.experiment.id, check) for o in outcomes for check in o.analysis.checks]
    rows = [[*([name] if ids else []), *_cells(check)] for name, check in checks]
    styles = {k: _STYLES[check.ok] for k, (_, check) in enumerate(checks) if check.ok in _STYLES}
    headers = [*(["experiment"] if ids else []), *_HEADERS]
    show_list(headers, rows, ("verdict",), title, styles)


def _cells(check: Check) -> tuple[str, ...]:
    numbers = (predicted(check), short(check.measured), _interval(check))
    return (check.name, *numbers, verdict(check))


def _interval(check: Check) -> str:
    if check.lo is None or check.hi is None:
        return "-"
    if check.lo == check.hi:
        return "exact"
    return "[{}, {}]".format(*ends(check.lo, check.hi))

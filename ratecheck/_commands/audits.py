"""What ``ratecheck audit`` does: judge, list, show, replay."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ratecheck._commands import listed
from ratecheck._discover.catalogue import Item, claims_of_command, find_claims
from ratecheck._discover.user_file import importing_within
from ratecheck._experiment.model import Config
from ratecheck._names import check_name
from ratecheck._report import export, overview, verdicts
from ratecheck._report.kept import kept
from ratecheck._report.terminal import dump, progress_bar
from ratecheck._search.search import EFFORTS
from ratecheck._store.files import check_writable
from ratecheck._verdicts.records import Records, Result, audit
from ratecheck._verdicts.replay import replay_file
from ratecheck._verdicts.verdict import LIMITS


def judge(
    references: Sequence[str],
    out: Path,
    effort: str,
    seed: int,
    workers: int,
    limit: float | None = None,
    write: Path | None = None,
    *,
    broken: Callable[[str], None],
) -> list[Result]:
    """The verdicts of these claims, or of all; written to the folder ``write`` as well.

    ``broken`` is told of every module and file that cannot be imported.
    """
    check_name("`effort`", effort, list(EFFORTS))
    Config(seed=seed)  # refuses what is no seed
    with importing_within(LIMITS[effort] if limit is None else limit):
        items = claims_of_command(references, broken)
    if items and not references:  # which can be hundreds: whoever waits for a pipe sees no bar
        papers = ", ".join(dict.fromkeys(item.entry.paper for item in items))
        print(f"ratecheck: judging all {len(items)} claims of {papers}", file=sys.stderr)
    if write is not None:
        check_writable("folder of `--write`", write)
    records = Records(out)
    with progress_bar("audit") as progress:
        results = audit(
            items,
            records,
            effort=effort,
            seed=seed,
            workers=workers,
            limit=limit,
            progress=progress,
            doing=progress.doing if progress else lambda what: None,
            known=[] if write is None else kept(items, write, effort, seed),
        )
    if write is not None:
        export.write(results, write)
        listed.write([write])
    return results


def show(
    results: Sequence[Result],
    out: Path,
    as_json: bool = False,
    *,
    tables: bool = True,
    in_full: bool = True,
) -> None:
    """Print verdicts: one JSON array with one object per claim, or tables, or the sums alone.

    Of many claims there are the sums of each section alone, if not ``in_full``.
    """
    records = Records(out, writable=False)
    if not tables:
        verdicts.show_summary(results, records)
    elif as_json:
        print(dump([verdicts.plain(result) for result in results]))
    elif len(results) > overview.MANY and not in_full:
        overview.show_verdicts(results, records)
    else:
        verdicts.show_results(results, records)


def list_or_describe(
    references: Sequence[str],
    out: Path,
    as_json: bool,
    *,
    in_full: bool | None,
    broken: Callable[[str], None],
) -> None:
    """List claims, or say all about each; judges nothing.

    Without ``in_full`` all is said of a single one.
    """
    items = claims_of_command(references, broken)
    in_full = len(items) == 1 if in_full is None else in_full
    records = Records(out, writable=False)
    if as_json:
        rows = [(verdicts.description if in_full else verdicts.listing)(i, records) for i in items]
        print(dump(rows))
    elif in_full:
        for item in items:
            verdicts.show_claim(item, records, _correction(item))
    else:
        verdicts.show_catalogue([verdicts.listing(item, records) for item in items])


def replay(path: Path, references: Sequence[str], as_json: bool) -> bool:
    """Evaluate a stored instance in high precision; whether it shows what the file says."""
    seen = replay_file(path, references)
    if as_json:
        print(dump(seen.to_dict()))
    else:
        verdicts.show_replay(seen)
    return seen.ok


def _correction(item: Item) -> Item | None:
    name = item.entry.corrected
    if name is None:
        return None
    in_file = item.origin.endswith(".py") and not item.listed
    return find_claims([f"{item.origin}::{name}" if in_file else name])[0]

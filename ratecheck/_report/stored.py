"""What a results folder holds, and what it lacks: experiments and verdicts; nothing is computed."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linsys import InputError
from ratecheck._discover import registry
from ratecheck._discover.catalogue import find_claims
from ratecheck._discover.table import Broken
from ratecheck._run.job import Job, Outcome
from ratecheck._store import RESULTS
from ratecheck._store.store import Store
from ratecheck._verdicts.records import Records

#: So many names are listed, then how many more there are.
_LISTED = 6


@dataclass(frozen=True)
class Gap:
    """Something that the folder does not hold, or holds of older code, and the command for it."""

    what: str
    command: str


@dataclass(frozen=True)
class Stored:
    """The content of a results folder: ``records`` are verdicts with their statements' texts.

    A record has also ``instance``, the file with its counterexample or None, ``replay``, the
    command that evaluates it again, and ``current``, whether it was found with the current code.
    """

    outcomes: Sequence[Outcome]
    records: Sequence[Mapping[str, Any]]
    gaps: Sequence[Gap]


def stored(
    out: Path,
    profile: str,
    seed: int | None = None,
    done: Mapping[str, Outcome] | None = None,
    broken: Broken | None = None,
) -> Stored:
    """What ``out`` holds of this profile.

    Args:
        out: the results folder.
        profile: "quick" or "paper".
        seed: of the experiments; by default the profile's.
        done: outcomes that the caller already has, by id.
        broken: told of every module of a paper that cannot be imported, else an error.

    Raises:
        InputError: if it holds nothing.
    """
    words = ["--profile", profile, *([] if seed is None else ["--seed", str(seed)])]
    place = [] if out == RESULTS else ["--out", str(out)]
    outcomes, absent = _outcomes(Store(out, writable=False), profile, seed, done or {}, broken)
    records, unknown = _verdicts(Records(out, writable=False), broken)
    if not outcomes and not records:
        raise InputError(
            f"results folder must hold results or verdicts; found none in {out}: make them with "
            f"`{shlex.join(['ratecheck', 'reproduce', *words, *place])}`"
        )
    gaps = []
    older = sum(not record["current"] for record in records)
    if absent:
        what = f"{_counted(len(absent), 'experiment')} not stored with the {profile} profile"
        papers = dict.fromkeys(f"{name.partition('/')[0]}/*" for name in absent)
        run = absent if len(absent) <= _LISTED else papers  # what is stored is not run again
        command = ["ratecheck", "run", *run, *words, *place]
        gaps.append(Gap(f"{what}: {_listed(absent)}", shlex.join(command)))
    judge = shlex.join(["ratecheck", "audit", *place])
    if unknown:
        gaps.append(Gap(f"{_counted(len(unknown), 'claim')} not judged: {_listed(unknown)}", judge))
    if older:
        gaps.append(Gap(f"{_counted(older, 'verdict')} of older code, marked below", judge))
    return Stored(outcomes, records, gaps)


def _outcomes(
    store: Store,
    profile: str,
    seed: int | None,
    done: Mapping[str, Outcome],
    broken: Broken | None,
) -> tuple[list[Outcome], list[str]]:
    """The experiments whose table is complete, drawn, and the names of all others."""
    job = Job(store, profile, seed, redraw=True)
    outcomes, absent = [], []
    for name in registry.names():
        try:
            registry.find_experiment(name)
        except InputError as error:
            if broken is None:
                raise
            broken(str(error))
            continue
        experiment, config = job.prepare(name)
        if name in done:
            outcomes.append(done[name])
        elif store.holds(experiment, config):
            outcomes.append(job.perform(name))
        else:
            absent.append(name)
    return outcomes, absent


def _verdicts(
    records: Records, broken: Callable[[str], None] | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """All verdicts in the order of the catalogue, then of users' files; which claims have none."""
    judged: list[tuple[dict[str, Any], bool]] = []
    unknown = []
    for item in find_claims((), broken):
        current = records.latest(item)
        result = current or records.newest(item)
        if result is None:
            unknown.append(item.id)
        else:
            judged.append((result.to_record(), current is not None))
    told = []
    for record, is_current in judged + records.latest_of_users_files():
        replay = records.counterexamples / f"{record['id']}.json"
        has_one = record["counterexample"] is not None and replay.exists()
        command = shlex.join(["ratecheck", "audit", "--replay", str(replay)]) if has_one else ""
        instance = replay if has_one else None
        told.append({**record, "current": is_current, "replay": command, "instance": instance})
    return told, unknown


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{' is' if number == 1 else 's are'}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more

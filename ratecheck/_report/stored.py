"""What a results folder holds, and what it lacks: experiments and verdicts; nothing is computed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from linsys.validate import InputError
from ratecheck._discover import catalogue, papers, project, registry
from ratecheck._discover.named import given_beside
from ratecheck._discover.table import Broken, results
from ratecheck._report.kept import with_certificate, with_certificate_of_file
from ratecheck._run.job import Job, Outcome
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
    ``of_models`` says of which paper an experiment on language models is, by its id.
    """

    outcomes: Sequence[Outcome]
    records: Sequence[Mapping[str, Any]]
    gaps: Sequence[Gap]
    of_models: Mapping[str, str] = field(default_factory=dict)


def stored(
    out: Path,
    profile: str,
    seed: int | None = None,
    done: Mapping[str, Outcome] | None = None,
    broken: Broken | None = None,
    of: Sequence[str] = (),
) -> Stored:
    """What ``out`` holds of this profile.

    Args:
        out: the results folder.
        profile: "quick" or "paper".
        seed: of the experiments; by default the profile's.
        done: outcomes that the caller already has, by id.
        broken: told of every module of a paper that cannot be imported, else an error.
        of: short names of papers, also of the project's own, files and folders, of which alone; by
            default of everything.

    Raises:
        InputError: if it holds nothing, or if there is no such paper, file or folder.
    """
    if of:
        own = [path for one in of if one not in papers.installed() for path in _places(one, broken)]
        with project.alone(own):
            return _stored(out, profile, seed, done or {}, broken, of)
    return _stored(out, profile, seed, done or {}, broken, of)


def _places(reference: str, broken: Broken | None) -> list[Path]:
    """A user's file or folder, or the files of the project that are about a paper of this name."""
    if os.path.exists(reference):
        return [Path(reference)]
    files: dict[str, list[Path]] = {}
    for path, of in project.papers_by_file(broken or project.raise_fault).items():
        for paper in of:
            files.setdefault(paper, []).append(path)
    if reference not in files:
        known = ", ".join([*papers.installed(), *sorted(files)])
        raise InputError(f"file or folder must exist, or be one of {known}; found no {reference}")
    return files[reference]


def _stored(
    out: Path,
    profile: str,
    seed: int | None,
    done: Mapping[str, Outcome],
    broken: Broken | None,
    of: Sequence[str],
) -> Stored:
    words = ["--profile", profile, *([] if seed is None else ["--seed", str(seed)])]
    place = [] if out == results() else ["--out", str(out)]
    job = Job(Store(out, writable=False), profile, seed, redraw=True)
    outcomes, absent = _outcomes(job, done, broken, of)
    of_models = registry.papers_of_models()
    outcomes += _on_models(job, done, of, of_models)
    records, unknown = _verdicts(Records(out, writable=False), broken, of)
    if not outcomes and not records:
        command = ["audit", *of] if of else ["reproduce", *words]
        raise InputError(
            f"results folder must hold results or verdicts; found none in {out}: make them with "
            f"`{shlex.join(['ratecheck', *command, *place])}`"
        )
    gaps = []
    older = sum(not record["current"] for record in records)
    if absent:
        what = f"{_counted(len(absent), 'experiment')} not stored with the {profile} profile"
        all_of = dict.fromkeys(f"{name.partition('/')[0]}/*" for name in absent)
        run = absent if len(absent) <= _LISTED else all_of  # what is stored is not run again
        if of:
            run = [f"{one}/*" if one in papers.installed() else one for one in of]
        command = ["ratecheck", "run", *run, *words, *place]
        gaps.append(Gap(f"{what}: {_listed(absent)}", shlex.join(command)))
    judge = shlex.join(["ratecheck", "audit", *of, *place])
    if unknown:
        gaps.append(Gap(f"{_counted(len(unknown), 'claim')} not judged: {_listed(unknown)}", judge))
    if older:
        gaps.append(Gap(f"{_counted(older, 'verdict')} of older code, marked below", judge))
    return Stored(outcomes, records, gaps, of_models)


def _outcomes(
    job: Job, done: Mapping[str, Outcome], broken: Broken | None, of: Sequence[str]
) -> tuple[list[Outcome], list[str]]:
    """The experiments whose table is complete, drawn, and the names of all others."""
    others = papers.installed().keys() - (of or papers.installed())
    outcomes, absent = [], []
    for name in registry.names():
        if name.partition("/")[0] in others:
            continue
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
        elif job.store.holds(experiment, config):
            outcomes.append(job.perform(name))
        else:
            absent.append(name)
    return outcomes, absent


def _on_models(
    job: Job, done: Mapping[str, Outcome], of: Sequence[str], of_models: Mapping[str, str]
) -> list[Outcome]:
    """The experiments on language models that are stored; without them nothing is lacking."""
    others = papers.installed().keys() - (of or papers.installed())
    outcomes = []
    for name in registry.on_models():
        if of_models.get(name) in others:
            continue
        if name in done:
            outcomes.append(done[name])
        elif (job.store.root / name).is_dir():  # to know more takes its import
            try:
                experiment, config = job.prepare(name)
            except InputError:  # the profile's model or data is not here
                continue
            if job.store.holds(experiment, config):
                outcomes.append(job.perform(name))
    return outcomes


def _verdicts(
    records: Records, broken: Broken | None, of: Sequence[str]
) -> tuple[list[dict[str, Any]], list[str]]:
    """All verdicts in the order of the catalogue, then of users' files; which claims have none."""
    judged: list[tuple[dict[str, Any], bool]] = []
    unknown = []
    tell = broken or project.raise_fault
    names = [name for name in catalogue.with_claims() if name in of]
    chosen = [*catalogue.of_papers(names, tell), *catalogue.of_project(tell)] if of else None
    for item in catalogue.catalogue(broken=tell) if chosen is None else chosen:
        current = records.latest(item)
        result = current or records.newest(item)
        if result is None:
            unknown.append(item.id)
        else:
            judged.append((with_certificate(result), current is not None))
    told = []
    users = [] if of else records.latest_of_users_files()
    judged += [(with_certificate_of_file(record), current) for record, current in users]
    for record, is_current in judged:
        replay = records.counterexamples / f"{record['id']}.json"
        has_one = record["counterexample"] is not None and replay.exists()
        again = ["audit", *given_beside(record.get("file", "")), "--replay", str(replay)]
        command = shlex.join(["ratecheck", *again]) if has_one else ""
        instance = replay if has_one else None
        told.append({**record, "current": is_current, "replay": command, "instance": instance})
    return told, unknown


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{' is' if number == 1 else 's are'}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more

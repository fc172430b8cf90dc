"""Stored verdicts: one JSON file per claim, effort, seed and revision of the code, whole or absent.

A verdict lives in ``<out>/audit/<paper>/<name>/<effort>-<seed>-<revision>.json``, and a
counterexample also in ``<out>/audit/counterexamples/<id>.json``, from where it can be replayed.
Errors are never stored, nor what a limit left undecided: the next run tries again. A verdict on a
user's claim is stored with the statement, for readers who do not run the file.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from linsys.json_text import from_json
from linsys.validate import InputError
from ratecheck._claims.claim import RELATIONS, Claim, Entry
from ratecheck._claims.families import category
from ratecheck._discover import project
from ratecheck._discover.catalogue import Item, families_of, module
from ratecheck._processes.interrupts import Interrupted, Progress
from ratecheck._search.search import Families
from ratecheck._store.files import (
    check_writable,
    digest,
    newest_first,
    opened,
    sealed,
    write_whole,
    writing,
)
from ratecheck._store.machine import versions
from ratecheck._store.revision import revision_of
from ratecheck._user_modules import PREFIX
from ratecheck._verdicts import certified, verdict as verdict_module
from ratecheck._verdicts.certificates import meaning_of_module
from ratecheck._verdicts.judging import judge_all
from ratecheck._verdicts.verdict import Verdict, evidence, replay

_FORMAT = 1
#: Verdicts of searches that found nothing.
_SEARCHED = ("holds", "not decided")


@dataclass(frozen=True)
class Result:
    """A claim with its verdict, and with which effort and seed that was found."""

    item: Item
    verdict: Verdict
    effort: str
    seed: int

    @property
    def ok(self) -> bool:
        """Whether the verdict is the one that the claim expects, and no certificate is against."""
        return self.verdict.verdict == self.item.entry.expect and not self.contradiction

    @property
    def contradiction(self) -> str:
        """See :func:`ratecheck._verdicts.certified.contradiction`."""
        item = self.item
        return certified.contradiction(item.origin, item.id, self.evidence, self.verdict.verdict)

    @property
    def evidence(self) -> str:
        """What decided, and of what instances are constructed on purpose, whatever came out."""
        said, made = self.verdict.evidence, _constructed(self.item.entry)
        if not said or not made or "constructed: " in said:
            return said
        return f"{said}, constructed: {made}"

    @property
    def facts(self) -> dict[str, Any]:
        """What decides how the statement is counted; see :mod:`ratecheck._claims.families`."""
        entry = self.item.entry
        said = {"expected": entry.expect, "printed_as": entry.printed_as}
        read = {"reading_of": entry.reading_of, "reading": entry.reading}
        return {"verdict": self.verdict.verdict, **read, **said, **_file(self.item)}

    def to_dict(self) -> dict[str, Any]:
        """The result as plain JSON values, without what another run gives differently."""
        entry, verdict = self.item.entry, self.verdict.to_dict()
        del verdict["seconds"]
        return {
            **verdict,
            "evidence": self.evidence,
            "expected": entry.expect,
            "ok": self.ok,
            "category": category(self.facts),
            "kind": entry.kind,
            "source": entry.source,
            "section": self.item.section,
            "effort": self.effort,
            "seed": self.seed,
        }

    def to_record(self) -> dict[str, Any]:
        """The result with all the texts of its statement, as plain JSON values."""
        return {**self.to_dict(), **_texts(self.item)}


class Records:
    """All verdicts below one folder, which is checked to be writable before anything is judged."""

    def __init__(self, out: Path | str, *, writable: bool = True) -> None:
        self.root = Path(out) / "audit"
        self.counterexamples = self.root / "counterexamples"
        if writable:
            check_writable("output folder", self.root)
            check_writable("output folder", self.counterexamples)

    def path(self, item: Item, effort: str, seed: int) -> Path:
        """Where a verdict of the current code is stored."""
        return self._folder_of(item) / f"{effort}-{seed}-{_revision(module(item.origin))}.json"

    def load(self, item: Item, effort: str, seed: int) -> Result | None:
        """The stored verdict, or None without a whole, undamaged one."""
        return _read(self.path(item, effort, seed), item)

    def latest(self, item: Item) -> Result | None:
        """The verdict of the current code that was stored last, whatever its effort and seed."""
        if not self._folder_of(item).is_dir():  # a revision takes longer than the look at a folder
            return None
        return self._last(item, f"*-{_revision(module(item.origin))}.json")

    def newest(self, item: Item) -> Result | None:
        """The verdict that was stored last, of whatever state of the code."""
        return self._last(item, "*.json")

    def _last(self, item: Item, pattern: str) -> Result | None:
        paths = newest_first(self._folder_of(item).glob(pattern))
        return next((result for path in paths if (result := _read(path, item))), None)

    def latest_of_users_files(self) -> list[tuple[dict[str, Any], bool]]:
        """The last verdict of every claim of users' files, and whether it is of the current code.

        Without those of files that the user's project names: their claims are in the catalogue.

        Each is what :meth:`Result.to_record` gives, with the path of the ``file``. The files are
        not run, and may be gone.
        """
        latest: dict[str, tuple[dict[str, Any], bool]] = {}
        revision_of_file = functools.cache(_revision_of_file)
        listed = {str(path.resolve()) for path in project.files(lambda fault: None)}
        for path in reversed(newest_first(self.root.glob("*/*/*.json"))):
            content = opened(path)
            if content is None or "statement" not in content:
                continue
            texts = content["statement"]
            if texts["file"] in listed:
                continue
            current = content["revision"] == revision_of_file(texts["file"])
            name = f"{texts['file']}::{content['verdict']['id']}"
            if current or not latest.get(name, ({}, False))[1]:
                known = {key: content[key] for key in ("effort", "seed")}
                latest[name] = ({**content["verdict"], **known, **texts}, current)
        return [latest[name] for name in sorted(latest)]

    def save(self, result: Result) -> None:
        """Write a verdict that another run would find again, and update the replay file."""
        if _is_final(result.verdict):
            path = self.path(result.item, result.effort, result.seed)
            with writing("output folder", self.root):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, _record(result))
        self.update_replay_file(result)

    def update_replay_file(self, result: Result) -> None:
        """Make the replay file hold this verdict's counterexample, and none of another verdict.

        An error that names no instance, or a search that is not over, leaves the file as it is.
        """
        replay = self.replay_path(result.item)
        with writing("output folder", self.root):
            if result.verdict.counterexample is not None:
                content = replayable_text(result).encode()
                if not replay.is_file() or replay.read_bytes() != content:
                    write_whole(replay, content)
            elif _is_final(result.verdict):
                replay.unlink(missing_ok=True)

    def replay_path(self, item: Item) -> Path:
        """Where the counterexample of a claim is written to."""
        return self.counterexamples / f"{item.id}.json"

    def _folder_of(self, item: Item) -> Path:
        paper, _, name = item.id.partition(".")
        return self.root / paper / name


def audit(
    items: Sequence[Item],
    records: Records,
    *,
    effort: str,
    seed: int,
    workers: int,
    limit: float | None = None,
    progress: Progress | None = None,
    doing: Callable[[str], None] = lambda what: None,
    known: Sequence[Result] = (),
) -> list[Result]:
    """The verdicts of these claims in their order: stored ones are read, missing ones found.

    Those that are ``known`` are taken as they are.

    Raises:
        Interrupted: after Ctrl-C; verdicts that were there stay.
    """
    results = {item.id: records.load(item, effort, seed) for item in items}
    for stored in filter(None, results.values()):
        known_or_stored = results[stored.item.id] = _unless_known(stored, records)
        records.update_replay_file(known_or_stored)
    results.update({result.item.id: result for result in known})
    missing = [item for item in items if results[item.id] is None]
    report = progress or (lambda done, total: None)
    report(len(items) - len(missing), len(items))
    try:
        work = judge_all(missing, effort, seed, workers=workers, limit=limit, doing=doing)
        for item, verdict in work:
            judged = Result(item, verdict, effort, seed)
            result = results[item.id] = _unless_known(judged, records)
            records.save(result)
            report(sum(r is not None for r in results.values()), len(items))
    except KeyboardInterrupt:
        saved = sum(result is not None for result in results.values())
        raise Interrupted(saved, len(items), "verdicts") from None
    return [result for result in results.values() if result is not None]


def _unless_known(result: Result, records: Records) -> Result:
    """The result, unless a search before found a counterexample that this one missed.

    It lies beside the verdicts, and counts if it breaks the claim as it is now.
    """
    claim, verdict = result.item.entry, result.verdict
    path = records.replay_path(result.item)
    if not isinstance(claim, Claim) or verdict.verdict not in _SEARCHED or not path.is_file():
        return result
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        content = from_json(path.read_bytes())
        if content["verdict"] != "violated":
            return result
        known = replay(claim, content["instance"])
        if known.verdict == "violated":
            known.instances = verdict.instances
            known.reason = (
                f"known from a search before; this one tried {verdict.instances:,} instances and "
                "did not find it"
            )
            known.evidence = evidence(claim, known)
            return replace(result, verdict=known)
    return result


def _is_final(verdict: Verdict) -> bool:
    """Whether it does not depend on how fast the machine is."""
    return verdict.verdict != "error" and not verdict.details.get("unfinished")


def replayable_text(result: Result) -> str:
    """What ``ratecheck audit --replay`` needs to see the same again, as the text of a file."""
    verdict, origin = result.verdict, result.item.origin
    content = {
        "id": verdict.id,
        **({"file": str(Path(origin).resolve())} if origin.endswith(".py") else {}),
        "verdict": verdict.verdict,
        "measured": verdict.measured,
        "bound": verdict.bound,
        "instance": verdict.counterexample,
    }
    return _lines(content)


@functools.cache
def _revision(module: ModuleType) -> str:
    """The revision of the claims of a module: its file, the engine, and all that they import."""
    roots = (module, verdict_module)
    return revision_of([(Path(m.__file__ or ""), m.__package__ or "") for m in roots])


def revisions_of_claims(items: Sequence[Item]) -> dict[str, str]:
    """The revision of what claims of the catalogue compute, by id; those of users have none.

    It is that of their module and of the way to judge, with the counterexamples that are tried.
    """
    ours = [item for item in items if not item.origin.endswith(".py")]
    known = families_of(ours)
    return {
        item.id: digest(revision_of_module(item.origin) + _digits(known[item.id])) for item in ours
    }


def _digits(known: Families) -> str:
    """Counterexamples to as many digits as are the same on every processor."""
    tried = {
        name: [
            {key: [f"{x:.9g}" for x in np.ravel(one[key])] for key in sorted(one)} for one in all_of
        ]
        for name, all_of in sorted(known.items())
    }
    return json.dumps(tried)


@functools.cache
def revision_of_module(origin: str) -> str:
    """The revision of what the claims of a module of the catalogue compute, and of the judge."""
    return digest(f"{meaning_of_module(origin)} {verdict_module.VERSION}")


def _revision_of_file(path: str) -> str | None:
    """The revision of a user's file, which is not run; None if it cannot be read any more."""
    engine = (Path(verdict_module.__file__), verdict_module.__package__ or "")
    with contextlib.suppress(OSError, ValueError, SyntaxError, InputError):
        return revision_of([(Path(path), PREFIX), engine])
    return None


def _texts(item: Item) -> dict[str, Any]:
    """What a statement says."""
    entry = item.entry
    keys = ("kind", "source", "text", "latex", "note", "derivation", *RELATIONS)
    texts = {key: getattr(entry, key) for key in (*keys, "reading", "printed_as")}
    texts["uses"] = list(entry.uses)
    relation = entry.relation if isinstance(entry, Claim) else ""
    meaning = dict(entry.space.meaning) if isinstance(entry, Claim) else {}
    said = {"expected": entry.expect, "relation": relation, "meaning": meaning, "main": entry.main}
    said |= {"section": item.section, "place": item.place, "constructed": _constructed(entry)}
    return {**texts, **said, **_file(item)}


def _file(item: Item) -> dict[str, str]:
    """The file of a user's claim; nothing of one of a package."""
    return {"file": str(Path(item.origin).resolve())} if item.origin.endswith(".py") else {}


def _constructed(entry: Entry) -> str:
    """What instances are made of on purpose, if they are."""
    return entry.space.constructed if isinstance(entry, Claim) else ""


def _record(result: Result) -> bytes:
    content = {
        "format": _FORMAT,
        "effort": result.effort,
        "seed": result.seed,
        "revision": _revision(module(result.item.origin)),
        "versions": versions(),
        "verdict": {**result.verdict.to_dict(), "evidence": result.evidence},
        **({"statement": _texts(result.item)} if result.item.origin.endswith(".py") else {}),
    }
    return sealed(content)


def _read(path: Path, item: Item) -> Result | None:
    content = opened(path)
    with contextlib.suppress(ValueError, KeyError, TypeError):
        verdict = Verdict.from_dict(content["verdict"]) if content else None
        if content and verdict and verdict.id == item.id:
            return Result(item, verdict, content["effort"], content["seed"])
    return None


def _lines(content: dict[str, Any]) -> str:
    """JSON with one line per key: instances stay readable."""
    lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items())
    return "{\n " + ",\n ".join(lines) + "\n}\n"

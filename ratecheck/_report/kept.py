"""The verdicts that a paper keeps in its own folder, beside those that a user's commands store."""

from __future__ import annotations

import glob
import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ratecheck._discover.catalogue import Item, find_claims
from ratecheck._discover.named import given_beside
from ratecheck._discover.table import results
from ratecheck._verdicts import certified
from ratecheck._verdicts.certificates import (
    FILE,
    FOLDER,
    assumptions,
    file_of,
    in_words,
)
from ratecheck._verdicts.certified import CONTRADICTORY
from ratecheck._verdicts.evidence import Evidence, assumed, of_audit, of_certificate
from ratecheck._verdicts.records import Records, Result, revisions_of_claims
from ratecheck._verdicts.verdict import Verdict, evidence

#: More files of one folder are not named one by one.
_NAMED = 3


def latest(item: Item, records: Records) -> Result | None:
    """The verdict of the current code that was stored last, or else that which its paper keeps."""
    stored = records.latest(item)
    folder = certified.folder_of(item.entry.paper)
    if stored is not None or folder is None:
        return stored
    claim = _claims(folder).get(item.id)
    if claim is None or claim.get("revision") != revisions_of_claims([item]).get(item.id):
        return None
    return of_known(item, claim)


def proof(item: Item) -> str:
    """What the current certificate of a claim proves; empty without one."""
    return _proof(item.origin, item.id)


def check_again(items: Iterable[Item]) -> str:
    """The command that checks the certificates that decide about claims; empty without one.

    Whoever reads a certificate here takes its words: only this command computes anything anew.
    """
    items = [item for item in items if proof(item)]
    files = [_file(item.origin, item.id) for item in items]
    folders = Counter(file.parent for file in files if file.name != FILE)
    many = {folder for folder, count in folders.items() if count > _NAMED}
    whole = dict.fromkeys(file for file in files if file.parent not in many)
    pattern = _pattern([*whole])
    shown = [
        f"{shlex.quote(str(file.parent))}/*.json"
        if file.parent in many
        else pattern or shlex.quote(str(_from_here(file)))
        for file in files
    ]
    shown += [shlex.quote(path) for item in items for path in given_beside(item.origin)]
    return f"ratecheck certify --check {' '.join(dict.fromkeys(shown))}" if files else ""


def _pattern(files: Sequence[Path]) -> str:
    """What a shell makes these files of, and no others, where they differ in one folder alone."""
    parts = {file.parts for file in files}
    if len(files) < 2 or len({len(one) for one in parts}) > 1:
        return ""
    different = [k for k, names in enumerate(zip(*parts, strict=True)) if len(set(names)) > 1]
    position = different[0]
    if len(different) > 1 or position == 0 or position == len(files[0].parts) - 1:
        return ""
    above, below = Path(*files[0].parts[:position]), Path(*files[0].parts[position + 1 :])
    hidden = any(file.parts[position].startswith(".") for file in files)
    if hidden or {*above.glob(f"*/{glob.escape(str(below))}")} != {*files}:
        return ""
    here = _from_here(above)
    beginning = "" if here == Path() else f"{shlex.quote(str(here))}/"
    return f"{beginning}*/{shlex.quote(str(below))}"


def assumes(item: Item) -> list[str]:
    """What the theorem of a claim's certificate assumes, a line for each."""
    certificate = _certificate(item.origin, item.id)
    return [] if certificate is None else assumptions(certificate)


def decided(item: Item, said: str) -> Evidence | None:
    """The strongest evidence for a verdict: that of a current certificate, or what an audit said.

    Args:
        item: the claim.
        said: what decided the audit, as :attr:`ratecheck._verdicts.records.Result.evidence`.
    """
    return _decided(item.origin, item.id, said)


def word(result: Result) -> str:
    """The evidence for a verdict, in a table: CONTRADICTORY where something cannot be true."""
    if result.contradiction:
        return CONTRADICTORY
    return decided(result.item, result.evidence) or ""


def with_certificate(result: Result) -> dict[str, Any]:
    """The record of a verdict; ``decided`` names the evidence and ``proof`` says what is proved.

    ``contradiction`` is that of :func:`ratecheck._verdicts.certified.contradiction`.
    """
    return _with_certificate(result.to_record(), result.item.origin)


def with_certificate_of_file(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record of a user's claim, whose file is not run, with what its certificate decides."""
    return _with_certificate(record, record["file"])


def _with_certificate(record: Mapping[str, Any], origin: str) -> dict[str, Any]:
    seen = _decided(origin, record["id"], record["evidence"])
    name, said = record["id"], record["evidence"]
    against = certified.contradiction(origin, name, said, record["verdict"])
    return {
        **record,
        "decided": seen or "",
        "contradiction": against,
        "proof": "; ".join(filter(None, (against, _proof(origin, record["id"])))),
    }


def _proof(origin: str, name: str) -> str:
    certificate = _certificate(origin, name)
    if certificate is None:
        return ""
    return in_words(certificate, _premises(origin, certificate, [name]))


def _decided(origin: str, name: str, said: str, within: Sequence[str] = ()) -> Evidence | None:
    certificate, audited = _certificate(origin, name), of_audit(said)
    if certificate is None:
        return audited
    kind = of_certificate(certificate, _premises(origin, certificate, [*within, name]))
    # a counterexample was evaluated, and a certificate may be anybody's
    return audited if audited == Evidence.CONFIRMED and kind != Evidence.FALSE else kind


def _certificate(origin: str, name: str) -> Mapping[str, Any] | None:
    """The certificate that a paper keeps of its claim, or a user has, if it is of current code.

    Of several that one that says that the claim is false.
    """
    every = certified.every(origin, name)
    false = [one for one in every if of_certificate(one) == Evidence.FALSE]
    return next(iter([*false, *every]), None)


def _file(origin: str, name: str) -> Path:
    """Where the certificate of a claim is that has one."""
    folder = None if origin.endswith(".py") else certified.folder_of(name.partition(".")[0])
    if folder is not None:
        return folder / FILE
    paths = [results() / FOLDER / file_of(name, constant=constant) for constant in (False, True)]
    return next((path for path in paths if path.is_file()), paths[0])


def found_before(item: Item) -> list[Any]:
    """The instance near a bound that the certificate of its theorem names, or none.

    The certificate may be of older code, as whoever asks evaluates the instance anew.
    """
    try:
        whole = json.loads(_file(item.origin, item.id).read_bytes())
        certificates = whole.get("certificates", [whole])
        return [one["found"]["instance"] for one in certificates if one["id"] == item.id]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # none, or damaged
        return []


def _premises(
    origin: str, certificate: Mapping[str, Any], within: Sequence[str]
) -> dict[str, Evidence | None]:
    """The claims that a theorem assumes, with the evidence for each.

    Nothing is known of one whose own proof assumes the theorem, which ``within`` names.
    """
    known: dict[str, Evidence | None] = {}
    for name in assumed(certificate):
        place, said = origin, ""
        if not origin.endswith(".py"):
            (item,) = find_claims([name])
            folder = certified.folder_of(item.entry.paper)
            verdict = None if folder is None else _claims(folder).get(name)
            place, said = item.origin, of_known(item, verdict).evidence if verdict else ""
        known[name] = None if name in within else _decided(place, name, said, within)
    return known


def replay_path(item: Item, records: Records) -> Path:
    """The file with a claim's counterexample: the user's, or else that of its paper."""
    path, folder = records.replay_path(item), certified.folder_of(item.entry.paper)
    theirs = None if folder is None else folder / "counterexamples" / f"{item.id}.json"
    if theirs is None or path.is_file() or not theirs.is_file():
        return path
    return _from_here(theirs)


def _from_here(path: Path) -> Path:
    """A path as it is shorter to type."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


@lru_cache
def _claims(folder: Path) -> dict[str, dict[str, Any]]:
    return known_in(folder)


def known_in(folder: Path) -> dict[str, dict[str, Any]]:
    """What was written to a folder before, by the claims' ids."""
    try:
        claims = json.loads((folder / "verdicts.json").read_bytes())["claims"]
        return {claim["id"]: claim for claim in claims}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def of_known(item: Item, claim: Mapping[str, Any]) -> Result:
    """A verdict that was written before, with what the claim says now."""
    verdict = Verdict.of_known(claim)
    verdict.corrected = item.entry.corrected
    verdict.evidence = evidence(item.entry, verdict)
    return Result(item, verdict, claim["effort"], claim["seed"])


def kept(items: Sequence[Item], folder: Path, effort: str, seed: int) -> list[Result]:
    """The verdicts of these claims that ``write`` left in a folder, as far as they are current.

    Current is what was found by the same effort and seed, with code that computes the same.
    """
    known = known_in(folder)
    wanted = {"effort": effort, "seed": seed}
    revisions = revisions_of_claims([item for item in items if item.id in known])
    return [
        of_known(item, known[item.id])
        for item in items
        if item.id in revisions
        and wanted.items() <= known[item.id].items()
        and known[item.id].get("revision") == revisions[item.id]
    ]

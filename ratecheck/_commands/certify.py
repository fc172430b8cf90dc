"""What ``ratecheck certify`` does: prove claims, write the certificates, check them."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linsys.json_text import from_json
from linsys.validate import InputError
from ratecheck._claims.claim import Claim
from ratecheck._commands.certify_constants import with_constants
from ratecheck._discover import papers
from ratecheck._discover.catalogue import Item, claims_of_command
from ratecheck._discover.user_file import importing_within
from ratecheck._processes.limit import computed
from ratecheck._report.export import renew
from ratecheck._report.kept import found_before, replay_path
from ratecheck._report.proofs import plain, show, show_checked
from ratecheck._report.terminal import dump, progress_bar
from ratecheck._store.files import check_writable, write_whole, writing
from ratecheck._verdicts import certificates as kept
from ratecheck._verdicts.certificates import in_words
from ratecheck._verdicts.evidence import strength
from ratecheck._verdicts.records import Records
from ratecheck._verdicts.verdict import replay

if TYPE_CHECKING:
    from ratecheck._certify.prove import Proof
    from ratecheck._certify.workers import Note

#: What is said where a certificate is not replaced by a weaker one.
_STAYS = "kept from before, as what was proved now says less"
_MEANWHILE = "kept from another command, as what was proved here says less"
#: Half the seconds that the certificate of another command has at least to be verified.
LEAST_AGAIN = 30.0


def prove(
    references: Sequence[str],
    results: Path,
    limit: float | None,
    out: Path,
    keep: Path | None,
    workers: int,
    as_json: bool,
    in_full: bool,
) -> None:
    """Prove these claims, or all, and print what was proved.

    Every certificate becomes a file of the folder ``out``.

    Args:
        references: as of ``ratecheck audit``.
        results: where ``ratecheck audit`` left counterexamples.
        limit: seconds of CPU time for one claim.
        out: folder of the certificates.
        keep: folder that gets all of them in one file, with what is not proved; where the claims
            are not whole papers or files, beside what it has of other claims. What it has of these
            claims stays where it says more and is verified.
        workers: how many claims are proved at a time.
        as_json: print JSON.
        in_full: print a row for each claim, also of many.
    """
    from ratecheck._certify.prove import LIMIT, content
    from ratecheck._certify.prove_many import proving

    with importing_within(limit):
        items = claims_of_command(references)
    for folder in filter(None, (out, keep)):
        check_writable("folder of certificates", folder)
    kept.check_places(out, keep, [item.id for item in items])
    before = _before(out, keep, items)
    proofs: list[Any] = [None] * len(items)
    with proving(
        _prove,
        items,
        [(results, before[item.id]) for item in items],
        workers,
        limit=LIMIT if limit is None else limit,
        out=out,
        given=[_counterexample(item, results) for item in items],
    ) as each:
        with progress_bar("certify") as progress:
            work = each(progress.doing if progress else lambda what: None)
            for number, (position, proof) in enumerate(work):
                proofs[position] = proof
                if proof.certificate is not None:
                    text = json.dumps(proof.certificate, indent=1) + "\n"
                    with writing("folder of certificates", out):
                        write_whole(out / kept.file_of(proof.id), text.encode())
                if progress:
                    progress(number + 1, len(items))
        if keep is not None:
            with kept.in_turn(keep):
                proofs = _with_those_since(keep, before, proofs, items, workers)
                whole = with_constants(keep, content(proofs, items), items)
                if not all(one in papers.installed() or os.path.exists(one) for one in references):
                    whole = _beside_others(keep, whole, {item.id for item in items})
                kept.write(keep, whole)
                renew(items, keep)
        if as_json:
            print(plain(proofs))
        else:
            show(proofs, out, in_full=in_full)


def _counterexample(item: Item, results: Path) -> str:
    """What the file of a counterexample says, if there is one."""
    try:
        return replay_path(item, Records(results, writable=False)).read_text()
    except (OSError, ValueError):
        return ""


def _before(
    out: Path, keep: Path | None, items: Sequence[Item]
) -> dict[str, list[Mapping[str, Any]]]:
    """The certificates that the folders have of each claim, of the code as it is.

    Without those of constants, which stay beside whatever else is proved.
    """
    found = {item.id: kept.left_by_certify(out, item.origin, item.id) for item in items}
    if keep is not None and (keep / kept.FILE).exists():
        for one in kept.read(keep)["certificates"]:
            found.get(one["id"], []).append(one)
    return {item.id: [one for one in found[item.id] if _counts(one, item)] for item in items}


def _counts(certificate: Mapping[str, Any], item: Item) -> bool:
    """Whether a certificate is of the code as it is, and of the claim itself."""
    is_current: bool = certificate["revision"] == kept.revision(item.origin)
    return certificate["kind"] != "constant" and is_current


def _with_those_since(
    keep: Path,
    before: Mapping[str, Sequence[Mapping[str, Any]]],
    proofs: Sequence[Any],
    items: Sequence[Item],
    workers: int,
) -> list[Any]:
    """The proofs, or what another command has written meanwhile, if it says more and is verified.

    Args:
        keep: the folder.
        before: the certificates of each claim that were there when this command began.
        proofs: of this command.
        items: the claims.
        workers: how many certificates are verified at a time.
    """
    from ratecheck._certify.prove import Proof
    from ratecheck._certify.prove_many import AGAIN
    from ratecheck._certify.verify_many import check_all

    answers = list(proofs)
    if not (keep / kept.FILE).exists():
        return answers
    position = {item.id: number for number, item in enumerate(items)}
    for one in kept.read(keep)["certificates"]:
        number = position.get(one["id"])
        if number is None or one in before[one["id"]] or not _counts(one, items[number]):
            continue
        now = answers[number].certificate
        if now is not None and strength(one) >= strength(now):
            continue
        seconds = AGAIN * max(LEAST_AGAIN, one.get("seconds", 0.0))
        (checked,) = check_all([one], [items[number].origin], workers, seconds)
        if not checked.refused:
            answers[number] = Proof(one["id"], one, _MEANWHILE)
    return answers


def _beside_others(keep: Path, whole: kept.Kept, names: Collection[str]) -> kept.Kept:
    """What was proved of the claims of these names, in the place of what the folder has of them."""
    if not (keep / kept.FILE).exists():
        return whole
    before = kept.read(keep)
    return {
        kind: [*(one for one in before[kind] if one["id"] not in names), *rows]
        for kind, rows in whole.items()
    }


def _prove(
    item: Item, results: Path, before: Sequence[Mapping[str, Any]], limit: float, note: Note
) -> Proof:
    """The proof of a claim with its formula, or one from before that says more and is verified."""
    from ratecheck._certify.prove_many import finished

    with note.within(limit):
        proof = _proved(item, results, limit)
    return _stronger(before, finished(proof, item, limit, note), item, limit, note)


def _proved(item: Item, results: Path, limit: float) -> Proof:
    """The proof at the stored counterexample or one that a quick search finds, or that it holds."""
    from ratecheck._certify.prove import left_of, prove_alone, search_and_prove

    if not isinstance(item.entry, Claim):
        return prove_alone(item, None, limit)
    with computed() as spent:
        path = replay_path(item, Records(results, writable=False))
        stored = _stored_instance(path, item.entry, limit / 2)
        left = left_of(limit, spent())
    if stored is not None:
        with contextlib.suppress(InputError):  # it breaks the claim outside of its domain
            return prove_alone(item, stored, left)
    known = found_before(item)
    if item.entry.expect != "violated" and not item.origin.endswith(".py"):
        return prove_alone(item, None, left, known)
    return search_and_prove(item, left, known)


def _stronger(
    before: Sequence[Mapping[str, Any]], proof: Proof, item: Item, limit: float, note: Note
) -> Proof:
    """A proof, or one from before of the same revision that says more and is verified."""
    from ratecheck._certify.prove import Proof
    from ratecheck._certify.prove_many import AGAIN
    from ratecheck._certify.verify_many import check_one

    for one in before:
        if proof.certificate is not None and strength(one) >= strength(proof.certificate):
            continue
        # a short limit must not lose what a longer one has proved
        seconds = max(limit, one.get("seconds", 0.0))
        with note.within(AGAIN * seconds):
            refused = check_one(one, [item.origin], AGAIN * seconds).refused
        if not refused:
            now = proof.reason if proof.certificate is None else in_words(proof.certificate)
            return Proof(proof.id, one, f"{_STAYS}; it would be: {now}")
    return proof


def _stored_instance(path: Path, claim: Claim, limit: float) -> Mapping[str, Any] | None:
    """The instance in the file of a counterexample, if it breaks the claim as it is now.

    None where it does not within the limit, or where the file is damaged.
    """
    try:
        instance: Mapping[str, Any] = from_json(path.read_bytes())["instance"]
        broken = replay(claim, instance, limit).verdict == "violated"
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError):
        return None
    return instance if broken else None


def check(
    paths: Sequence[Path],
    references: Sequence[str],
    limit: float | None,
    workers: int,
    as_json: bool,
    in_full: bool,
) -> bool:
    """Verify the certificates in files and say of each what it proves; whether all do.

    References that are files of JSON are of more certificates, as a shell's ``*`` gives them; the
    others say where to look for the claims.
    """
    from ratecheck._certify.verify_many import check_all, contents

    files = [*paths, *(Path(one) for one in references if one.endswith(".json"))]
    claims = [one for one in references if not one.endswith(".json")]
    certificates = [content for file in files for content in contents(file)]
    with progress_bar("check") as bar:
        doing = bar.doing if bar else None
        checked = check_all(certificates, claims, workers, limit, bar, doing)
    if as_json:
        print(dump([{"id": c.id, "proves": c.said, "refused": c.refused} for c in checked]))
    else:
        show_checked(checked, in_full=in_full)
    return not any(one.refused for one in checked)

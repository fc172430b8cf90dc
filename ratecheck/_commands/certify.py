"""What ``ratecheck certify`` does: prove claims, write the certificates, check them."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from linsys.json_text import from_json
from linsys.validate import InputError
from ratecheck._claims.claim import Claim
from ratecheck._commands.certify_constants import with_constants
from ratecheck._discover import papers
from ratecheck._discover.catalogue import Item, claims_of_command, find
from ratecheck._processes import elsewhere
from ratecheck._processes.ended import in_words as why
from ratecheck._processes.pool import call_in_processes
from ratecheck._report.export import renew
from ratecheck._report.kept import found_before, replay_path
from ratecheck._report.terminal import console, dump, progress_bar, show_list
from ratecheck._store.files import check_writable, write_whole
from ratecheck._store.machine import cores
from ratecheck._verdicts import certificates as kept
from ratecheck._verdicts.certificates import in_words, of_constants, short
from ratecheck._verdicts.evidence import of_certificate, strength
from ratecheck._verdicts.records import Records
from ratecheck._verdicts.verdict import judge, replay

#: What is said where a certificate is not replaced by a weaker one.
_STAYS = "kept from before, as what was proved now says less"


def prove(
    references: Sequence[str], results: Path, limit: float | None, out: Path, keep: Path | None
) -> list[Any]:
    """Prove these claims, or all; every certificate becomes a file of the folder ``out``.

    Args:
        references: as of ``ratecheck audit``.
        results: where ``ratecheck audit`` left counterexamples.
        limit: seconds of CPU time for one claim.
        out: folder of the certificates.
        keep: folder that gets all of them in one file, with what is not proved; where the claims
            are not whole papers or files, beside what it has of other claims. What it has of these
            claims stays where it says more and is verified.
    """
    from ratecheck._certify.prove import LIMIT, content

    items = claims_of_command(references)
    for folder in filter(None, (out, keep)):
        check_writable("folder of certificates", folder)
    proofs: list[Any] = [None] * len(items)
    with progress_bar("certify") as progress:
        doing = progress.doing if progress else lambda what: None
        work = _proofs(items, results, LIMIT if limit is None else limit, doing)
        for number, (position, proof) in enumerate(work):
            left = kept.left_by_certify(out, items[position].origin, proof.id)
            proofs[position] = proof = _stronger(left, proof, items[position])
            if proof.certificate is not None:
                text = json.dumps(proof.certificate, indent=1) + "\n"
                write_whole(out / kept.file_of(proof.id), text.encode())
            if progress:
                progress(number + 1, len(items))
    if keep is not None:
        proofs = _best(keep, proofs, items)
        whole = with_constants(keep, content(proofs, items), items)
        if not all(one in papers.installed() or os.path.exists(one) for one in references):
            whole = _beside_others(keep, whole, {item.id for item in items})
        write_whole(keep / kept.FILE, kept.text(whole).encode())
        write_whole(keep / kept.TABLES, kept.tables(whole).encode())
        renew(items, keep)
    return proofs


def _best(keep: Path, proofs: Sequence[Any], items: Sequence[Item]) -> list[Any]:
    """The proofs, but for those of which the folder has a stronger one of the same revision."""
    before = kept.read(keep)["certificates"] if (keep / kept.FILE).is_file() else []
    return [
        _stronger([one for one in before if one["id"] == proof.id], proof, item)
        for proof, item in zip(proofs, items, strict=True)
    ]


def _stronger(before: Sequence[Mapping[str, Any]], proof: Any, item: Item) -> Any:
    """A proof, or one from before of the same revision that says more and is verified."""
    from ratecheck._certify.against_claims import Refused, verify
    from ratecheck._certify.prove import Proof

    for one in before:
        # the constant of a bound stays beside whatever else is proved
        if one["kind"] == "constant" or one["revision"] != kept.revision(item.origin):
            continue
        if proof.certificate is None or strength(one) < strength(proof.certificate):
            with contextlib.suppress(Refused, InputError):
                verify(one, [item.origin])
                now = proof.reason if proof.certificate is None else in_words(proof.certificate)
                return Proof(proof.id, one, f"{_STAYS}; it would be: {now}")
    return proof


def _beside_others(keep: Path, whole: kept.Kept, names: Collection[str]) -> kept.Kept:
    """What was proved of the claims of these names, in the place of what the folder has of them."""
    if not (keep / kept.FILE).is_file():
        return whole
    before = kept.read(keep)
    return {
        kind: [*(one for one in before[kind] if one["id"] not in names), *rows]
        for kind, rows in whole.items()
    }


def _proofs(
    items: Sequence[Item], results: Path, limit: float, doing: Callable[[str], None]
) -> Iterator[tuple[int, Any]]:
    """The position of each claim and its proof, as they get ready."""
    from ratecheck._certify.prove import Proof

    if elsewhere.current() is None:
        for position, item in enumerate(items):
            doing(item.id)
            yield position, _prove(item, results, limit)
        return
    tasks = [(item.origin, item.id, results, limit) for item in items]
    for position, future in call_in_processes(_prove_in_worker, tasks, cores()):
        try:
            yield position, future.result()
        except InputError:
            raise
        except Exception as error:
            yield position, Proof(items[position].id, reason=why(error))


def _prove_in_worker(origin: str, name: str, results: Path, limit: float) -> Any:
    return _prove(find(origin, name), results, limit)


def _prove(item: Item, results: Path, limit: float) -> Any:
    """The proof of a claim, at its stored counterexample or one that a quick search finds."""
    from ratecheck._certify.prove import Proof, prove

    if not isinstance(item.entry, Claim):
        return prove(item, None, limit)
    stored = _stored_instance(replay_path(item, Records(results, writable=False)), item.entry)
    if stored is not None:
        with contextlib.suppress(InputError):  # it breaks the claim outside of its domain
            return prove(item, stored, limit)
    known = found_before(item)
    if item.entry.expect != "violated" and not item.origin.endswith(".py"):
        return prove(item, None, limit, known)
    verdict = judge(item.entry)
    if verdict.verdict == "error":
        return Proof(item.id, reason=verdict.reason)
    instance = verdict.counterexample if verdict.verdict == "violated" else None
    return prove(item, instance, limit, known)


def _stored_instance(path: Path, claim: Claim) -> Mapping[str, Any] | None:
    """The instance in the file of a counterexample, if it breaks the claim as it is now.

    None where it does not, or where the file is damaged.
    """
    try:
        instance: Mapping[str, Any] = from_json(path.read_bytes())["instance"]
        broken = replay(claim, instance).verdict == "violated"
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError):
        return None
    return instance if broken else None


def show(proofs: Sequence[Any], as_json: bool) -> None:
    """Print what was proved, and why the others were not."""
    if as_json:
        print(
            dump([{"id": p.id, "certificate": p.certificate, "reason": p.reason} for p in proofs])
        )
        return
    rows = []
    for proof in proofs:
        one = proof.certificate
        took = "" if one is None or "seconds" not in one else f"{one['seconds']:.3g}"
        if one is None:
            rows.append([proof.id, "", "", "", f"not proved: {proof.reason}"])
        elif one["kind"] == "counterexample":
            case = one["cases"][0]
            sides = f"{short(case['measured'][0])} and {short(case['bound'][0])}"
            told = [
                str(one["bits"] or ""),
                took,
                f"{of_certificate(one)}: {sides}{of_constants(one)}",
            ]
            told[-1] += f"; {proof.reason}" * bool(proof.reason)
            rows.append([proof.id, one["arithmetic"], *told])
        else:
            arithmetic = one["arithmetic"].removesuffix(" at random points")
            more = f"; {proof.reason}" * bool(proof.reason)
            rows.append([proof.id, arithmetic, "", took, f"{in_words(one)}{more}"])
    headers = ["claim", "arithmetic", "bits", "CPU seconds", "what is proved, or why not"]
    show_list(headers, rows, headers[-1:], "Certificates")
    proved = sum(proof.certificate is not None for proof in proofs)
    console().print(f"{proved} of {len(proofs)} claims have a certificate.")


def check(paths: Sequence[Path], references: Sequence[str], as_json: bool) -> bool:
    """Verify the certificates in files and say of each what it proves; whether all do.

    References that are files of JSON are of more certificates, as a shell's ``*`` gives them; the
    others say where to look for the claims.
    """
    from ratecheck._certify.against_claims import check_file

    files = [*paths, *(Path(one) for one in references if one.endswith(".json"))]
    claims = [one for one in references if not one.endswith(".json")]
    checked = [one for file in files for one in check_file(file, claims)]
    if as_json:
        print(dump([{"id": c.id, "proves": c.said, "refused": c.refused} for c in checked]))
    else:
        for one in checked:
            print(f"{one.id}: refused: {one.refused}" if one.refused else f"{one.id}: {one.said}")
    return not any(one.refused for one in checked)

"""What ``ratecheck certify --constant`` does: intervals for the best constants of bounds."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linsys.validate import InputError
from ratecheck._claims.claim import Claim
from ratecheck._claims.space import Fault, Sizes
from ratecheck._discover.catalogue import Item, claims_of_command
from ratecheck._discover.user_file import importing_within
from ratecheck._processes.limit import TimeLimit, time_limit
from ratecheck._report.export import renew
from ratecheck._report.overview import MANY, show_proofs
from ratecheck._report.proofs import plain
from ratecheck._report.terminal import console, progress_bar, say
from ratecheck._store.files import check_no_folder, check_writable, write_whole, writing
from ratecheck._verdicts import certificates as kept

if TYPE_CHECKING:
    from ratecheck._certify.prove import Proof
    from ratecheck._certify.workers import Note

#: Seconds of CPU time for one claim.
LIMIT = 60.0
#: How many digits of a whole number Python reads, whatever its settings are.
_DIGITS = 640
#: A constant that is larger than this multiple of what was found, and than 1, is none to keep.
_LOOSE = 1.1


def prove(
    references: Sequence[str],
    sizes: Sequence[str],
    limit: float | None,
    out: Path,
    keep: Path | None,
    as_json: bool,
    in_full: bool,
    workers: int,
) -> None:
    """Enclose the constants of these bounds and print them; certificates become files of ``out``.

    Args:
        references: as of ``ratecheck audit``; without any, all that hold.
        sizes: of the instances, such as "n=2,d=1"; by default the smallest ones at which a claim
            says something.
        limit: seconds of CPU time for one claim.
        out: folder of the certificates, and of searches that a limit ended, which go on there.
        keep: folder whose certificates.json gets the certificates of claims that have no other.
        as_json: print JSON.
        in_full: print a line for each claim, also of many.
        workers: how many constants are enclosed at a time.
    """
    from ratecheck._certify.prove_many import proving
    from ratecheck._certify.stated import check_sizes

    wanted = sizes_of_text(sizes) if sizes else None
    if keep is not None:
        _check_kept(keep)
    with importing_within(limit):
        items = [item for item in claims_of_command(references) if _is_bound(item)]
    if not items:
        raise InputError("claims must be upper or lower bounds; found none among them")
    for folder in filter(None, (out, keep)):
        check_writable("folder of certificates", folder)
    kept.check_places(out, keep, [item.id for item in items])
    for item in items:
        check_no_folder("search for a constant", _search(out, item.id))
    left = _unproved(keep)
    bounds, items = items, [item for item in items if left is None or item.id in left]
    if not items and not as_json:
        told = f"{len(bounds)} bounds: {keep} names none of them without another certificate"
        say(console(), [told])
    for item in items:
        if wanted is not None and isinstance(item.entry, Claim):
            check_sizes(item.entry, wanted)
    proofs: dict[int, Proof] = {}
    shown, each_line = 0, not as_json and (in_full or len(items) <= MANY)
    with proving(
        _prove,
        items,
        [(wanted, out)] * len(items),
        workers,
        limit=LIMIT if limit is None else limit,
        out=out,
        given=[wanted] * len(items),
    ) as each:
        with progress_bar("constants") as progress:
            for position, proof in each(progress.doing if progress else lambda what: None):
                proofs[position] = proof
                if progress:
                    progress(len(proofs), len(items))
                if proof.certificate is not None:
                    _write(proof.certificate, out)
                while shown in proofs:  # in the order of the claims, however long each takes
                    if keep is not None:
                        _merge(keep, proofs[shown])
                    if each_line:
                        with progress.away() if progress else contextlib.nullcontext():
                            say(console(), [line(proofs[shown])])
                    shown += 1
        if keep is not None:
            with kept.in_turn(keep):
                renew(bounds, keep)
        ordered = [proofs[position] for position in range(len(items))]
        if as_json:
            print(plain(ordered))
        elif not each_line:
            show_proofs(ordered, str(out))


def _write(certificate: Mapping[str, Any], out: Path) -> None:
    """Write a certificate; then a search that is over is not kept any more."""
    from ratecheck._certify.branch import is_over

    name, broken = certificate["id"], certificate["kind"] == "counterexample"
    text = json.dumps(certificate, indent=1) + "\n"
    with writing("folder of certificates", out):
        write_whole(out / kept.file_of(name, constant=not broken), text.encode())
    state = _search(out, name)
    if broken or is_over(state):
        state.unlink(missing_ok=True)


def _search(out: Path, name: str) -> Path:
    """Where the search for a claim's constant is kept."""
    return out / f"{name}.npz"


def _prove(item: Item, sizes: Any, out: Path, limit: float, note: Note) -> Proof:
    """The proof of a constant: one that the folder has, or a search that goes on there."""
    from ratecheck._certify.prove import prove_constant_alone
    from ratecheck._certify.prove_many import AGAIN, finished

    def tell(boxes: int, waiting: int, gap: tuple[float, float]) -> None:
        told = f"ratio in [{gap[0]:.6g}, {gap[1]:.6g}]"
        note.at(f"{told}, {boxes:,} boxes, {waiting:,} left")

    state = _search(out, item.id)
    if not state.is_file():
        path, time = out / kept.file_of(item.id, constant=True), AGAIN * limit
        with note.within(time):
            known = _known(item, sizes, path, time)
        if known is not None:
            return known
    with note.within(limit):
        proof = prove_constant_alone(item, sizes, limit, state, tell)
    return finished(proof, item, limit, note)


def _known(item: Item, sizes: Any, path: Path, limit: float) -> Proof | None:
    """The proof in a certificate that was finished before; None where there is none that counts.

    It has to be of the claim as it is and of the sizes that are wanted, and is checked. Where that
    does not end in this time nothing is proved, and what is there stays.
    """
    from ratecheck._certify.against_claims import Refused, verify
    from ratecheck._certify.prove import Proof
    from ratecheck._certify.ratios import at_smallest_sizes
    from ratecheck._certify.verify_many import contents

    if not path.is_file() or not isinstance(item.entry, Claim):
        return None
    try:
        with time_limit(limit):
            (content,) = contents(path)
            wanted = at_smallest_sizes(item.entry).sizes if sizes is None else sizes
            if content.get("id") == item.id and content.get("sizes") == dict(wanted):
                verify(content, [item.origin])
                return Proof(item.id, content)
    except TimeLimit as late:
        return Proof(item.id, reason=f"the certificate that is there is not verified: {late}")
    except (InputError, Refused, Fault, ArithmeticError, ValueError):
        pass
    return None


def line(proof: Any) -> str:
    """What is proved of a constant, in a line."""
    from ratecheck._certify.constants import said

    if proof.certificate is None:
        return f"{proof.id}: not enclosed: {proof.reason}"
    seconds = proof.certificate.get("seconds")
    took = "" if seconds is None else f"; {seconds:.3g} s of CPU time"
    more = f"; {proof.reason}" * bool(proof.reason)
    broken = proof.certificate["kind"] == "counterexample"
    told = kept.in_words(proof.certificate) if broken else said(proof.certificate)
    return f"{proof.id}: {told}{took}{more}"


def with_constants(keep: Path, whole: kept.Kept, items: Sequence[Item]) -> kept.Kept:
    """What a paper keeps, and the constants of current code that it kept of other claims.

    Args:
        keep: the folder.
        whole: what was proved now.
        items: of these claims.
    """
    if not (keep / kept.FILE).exists():
        return whole
    origins = {item.id: item.origin for item in items}
    unproved = {one["id"] for one in whole["unproved"]}
    constants = [
        one
        for one in kept.read(keep)["certificates"]
        if one["kind"] == "constant"
        and one["id"] in unproved
        and one["revision"] == kept.revision(origins[one["id"]])
    ]
    names = {one["id"] for one in constants}
    return {
        "certificates": [*whole["certificates"], *constants],
        "unproved": [one for one in whole["unproved"] if one["id"] not in names],
    }


def _is_bound(item: Item) -> bool:
    entry = item.entry
    return isinstance(entry, Claim) and entry.relation != "==" and entry.expect == "holds"


def _unproved(keep: Path | None) -> set[str] | None:
    """The claims of a folder that have no certificate but of a constant; None without a folder."""
    if keep is None or not (keep / kept.FILE).exists():
        return None
    whole = kept.read(keep)
    constants = {one["id"] for one in whole["certificates"] if one["kind"] == "constant"}
    return constants | {one["id"] for one in whole["unproved"]}


def _merge(keep: Path, proof: Any) -> None:
    """Put a certificate, or the reason why there is none, into a paper's file."""
    with kept.in_turn(keep):
        _check_kept(keep)
        kept.write(keep, _merged(kept.read(keep), proof))


def _check_kept(keep: Path) -> None:
    """Refuse a folder without the file in which claims are looked up."""
    if not (keep / kept.FILE).exists():
        raise InputError(
            f"`--write` must name a folder with {kept.FILE}; found none in {keep} (it is written "
            "without `--constant`)"
        )


def _merged(before: kept.Kept, proof: Any) -> kept.Kept:
    """What is kept of claims with the certificate of a constant, or why there is none."""
    from ratecheck._certify.constants import said

    whole = {name: [dict(one) for one in entries] for name, entries in before.items()}
    known = {one["id"]: one for one in whole["unproved"]}
    certificate, reason = proof.certificate, proof.reason
    if certificate is not None and _loose(certificate):
        gap = f"; {reason}" * bool(reason)
        reason = f"{said(certificate)}, when the limit ended it{gap}"
        certificate = None
    others = [one for one in whole["certificates"] if one["id"] == proof.id]
    if certificate is None:
        if proof.id in known:
            known[proof.id]["reason"] = f"an inequality, and searched; its constant: {reason}"
    elif not others or _upper(others[0]) >= _upper(certificate):
        whole["certificates"] = [one for one in whole["certificates"] if one["id"] != proof.id]
        whole["certificates"].append(dict(certificate))
        whole["unproved"] = [one for one in whole["unproved"] if one["id"] != proof.id]
    return whole


def _upper(certificate: Any) -> float:
    return float(certificate["ratio"][1]) if certificate["kind"] == "constant" else 0.0


def _loose(certificate: Any) -> bool:
    if certificate["kind"] == "counterexample":
        return False
    low, high = (float(end) for end in certificate["ratio"])
    return high > 1 and high > _LOOSE * low


def sizes_of_text(settings: Sequence[str]) -> Sizes:
    """Sizes from words such as ``n=2``.

    Raises:
        InputError: a word is of another form.
    """
    sizes: Sizes = {}
    for word in itertools.chain.from_iterable(text.split(",") for text in settings):
        name, _, value = word.partition("=")
        # isdecimal alone takes digits of other scripts, and isdigit "²", which int does not
        whole = value.isascii() and value.isdecimal() and len(value) <= _DIGITS
        if not name or not whole:
            form = f"n=2,d=1, in 1 to {_DIGITS} digits"
            raise InputError(f"`--sizes` must look like {form}; found {word!r:.50}")
        sizes[name] = int(value)
    return sizes

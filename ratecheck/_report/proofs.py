"""What is said of proofs: JSON, a row for each claim, or of many how many are proved how."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ratecheck._report.overview import EVERY_ROW, MANY, show_proofs
from ratecheck._report.terminal import console, dump, say, show_list
from ratecheck._verdicts.certificates import in_words, of_constants, short
from ratecheck._verdicts.evidence import of_certificate


def plain(proofs: Sequence[Any]) -> str:
    """The proofs as JSON."""
    return dump([{"id": p.id, "certificate": p.certificate, "reason": p.reason} for p in proofs])


def show(proofs: Sequence[Any], out: Path, *, in_full: bool) -> None:
    """Print what was proved, and why the others were not; of many the numbers, if not in full."""
    if len(proofs) > MANY and not in_full:
        show_proofs(proofs, str(out))
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


def show_checked(checked: Sequence[Any], *, in_full: bool) -> None:
    """Print what certificates prove or why they are refused; of many the latter, if not in full."""
    many = len(checked) > MANY and not in_full
    for one in checked:
        if one.refused:
            print(f"{one.id}: refused: {one.refused}")
        elif not many:
            print(f"{one.id}: {one.said}")
    if many:
        verified = sum(not one.refused for one in checked)
        say(console(), [f"{verified} of {len(checked)} certificates are verified.", EVERY_ROW])

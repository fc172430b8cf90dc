"""The certificates of a paper in one file, one claim to a line, and what is not proved and why."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ratecheck._certify.prove import Proof

#: Beside the verdicts of a paper.
FILE = "certificates.json"


def text(proofs: Sequence[Proof]) -> str:
    """The content of the file."""
    proved = [json.dumps(p.certificate) for p in proofs if p.certificate is not None]
    others = [json.dumps({"id": p.id, "reason": p.reason}) for p in proofs if p.certificate is None]
    return (
        '{"certificates": [\n'
        + ",\n".join(proved)
        + '\n],\n"unproved": [\n'
        + ",\n".join(others)
        + "\n]}\n"
    )


def read(folder: Path) -> tuple[list[Mapping[str, Any]], list[Mapping[str, str]]]:
    """The certificates that a paper keeps, and the claims that have none with the reason."""
    content = json.loads((folder / FILE).read_bytes())
    return content["certificates"], content["unproved"]

"""What the audit says of one claim."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from experiments.audit._claim import Claim
from experiments.audit._judge import certify, ratio
from experiments.audit._search import EFFORTS, Found, Search


@dataclass
class Verdict:
    """The outcome for one claim.

    ``ratio`` is measured / bound of the tightest instance (bound / measured for a lower bound, one
    plus the relative difference for an identity); ``counterexample`` and ``best`` are instances as
    plain lists by field.
    """

    id: str
    verdict: str
    ratio: float | None = None
    instances: int = 0
    counterexample: dict[str, Any] | None = None
    corrected: str | None = None
    best: dict[str, Any] | None = None
    measured: str = ""
    bound: str = ""
    reason: str = ""
    seconds: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)


def judge(claim: Claim, effort: str = "quick", seed: int = 0) -> Verdict:
    """Search, re-check in high precision, and say what came out."""
    start = time.perf_counter()
    search = Search(claim, seed)
    search.run(EFFORTS[effort])
    verdict = Verdict(claim.id, "holds", instances=search.instances, corrected=claim.corrected)
    tightest = search.best[0]
    for candidate in search.candidates():
        if certify(claim, candidate.fields).violated:
            verdict.verdict, tightest = "violated", candidate
            verdict.counterexample = _plain(candidate)
            break
    exact = certify(claim, tightest.fields)
    verdict.measured, verdict.bound = exact.text
    verdict.ratio = ratio(claim.relation, exact.measured, exact.bound)
    verdict.best = _plain(tightest)
    verdict.seconds = time.perf_counter() - start
    return verdict


def _plain(found: Found) -> dict[str, Any]:
    return {name: values[0].tolist() for name, values in found.fields.items()}

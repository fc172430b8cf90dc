"""What a search finds and a verdict says is recorded; whoever changes it raises ``VERSION``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast
from unittest import mock

import numpy as np
import pytest

import ratecheck as rc
from ratecheck._claims import samples
from ratecheck._search import ascent, hypothesis_search, shrink
from ratecheck._verdicts.verdict import VERSION

#: Made by ``python -m tests.ratecheck.audit.test_version`` (from the repository's root).
RECORD = Path(__file__).parent / "files" / "version.json"

PAIRS = rc.Space(fields={"x": rc.reals(), "y": rc.interval(low=0.001, high=1000.0)}, batched=True)
VECTORS = rc.Space(
    fields={"u": rc.reals("d"), "w": rc.simplex("d"), "b": rc.ball("d")},
    sizes={"d": (1, 4)},
    batched=True,
)


def _claim(name: str, kind: str, space: rc.Space, measure: Any) -> rc.Claim:
    return rc.Claim(
        id=f"recorded.{name}", source="", text="", kind=kind, space=space,  # type: ignore[arg-type]
        measure=measure,
    )  # fmt: skip


#: Claims of sums and products of few numbers, which every processor rounds alike.
CLAIMS = [
    _claim("attained", "upper", PAIRS, lambda s: (2 * s.x * s.y, s.x**2 + s.y**2)),
    _claim("false", "upper", PAIRS, lambda s: (s.x * s.y, 1 + 0.4 * (s.x**2 + s.y**2))),
    _claim("identity", "identity", PAIRS, lambda s: ((s.x - s.y) * s.x, s.x**2 - s.x * s.y)),
    _claim("no_identity", "identity", PAIRS, lambda s: ((s.x - s.y) ** 2, s.x**2 + s.y**2)),
    _claim("below", "lower", VECTORS, lambda s: (s.b.sum(-1) + 3, s.w[..., 0])),
    _claim("false_below", "lower", VECTORS, lambda s: (s.w.max(-1), 0.3 + 0 * s.w[..., 0])),
    _claim("agents", "upper", VECTORS, lambda s: (s.u * s.w, np.abs(s.u))),
]


def _rounded(value: Any) -> Any:
    """Numbers to six digits, which are those of every processor."""
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def outcomes() -> dict[str, Any]:
    """What judging the claims finds now, without hypothesis, whose versions differ."""
    with mock.patch.object(hypothesis_search, "search_examples"):
        verdicts = [rc.judge(claim, "quick", 3).to_dict() for claim in CLAIMS]
    for verdict in verdicts:
        del verdict["seconds"]
        verdict |= {side: float(verdict[side]) for side in ("measured", "bound")}
    record = {"version": VERSION, "verdicts": _rounded(verdicts)}
    return cast(dict[str, Any], json.loads(json.dumps(record)))


def test_who_changes_what_is_found_raises_the_version() -> None:
    said = f"what is found changed: raise VERSION and run python -m {__name__}"
    assert outcomes() == json.loads(RECORD.read_text()), said


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        (ascent, "_SPREAD", 0.1),
        (shrink, "_DECIMALS", (5,)),
        (shrink, "_SIMPLE", (0.0, 3.0)),
        (samples, "SHARED", 2_000),
    ],
)
def test_another_search_is_seen(
    place: Any, name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hasattr(place, name)
    monkeypatch.setattr(place, name, value)
    assert outcomes() != json.loads(RECORD.read_text())


if __name__ == "__main__":
    RECORD.write_text(json.dumps(outcomes(), indent=1) + "\n")

"""Planted errors of the kinds papers have: each is found, and shrunk to a readable instance."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from experiments.affpcl.claims._spaces import SYSTEMS
from linsys.linalg import lambda_min, norm, operator_norm, transpose
from tests._slow import slow_but


@dataclass(frozen=True)
class Planted:
    """A false claim, and of its counterexample: at most how many numbers, and digits of each."""

    space: rc.Space
    kind: str
    measure: Callable[[Any], tuple[Any, Any]]
    numbers: int
    digits: int = 3


VECTORS = rc.Space(fields={"x": rc.reals("d"), "y": rc.reals("d")}, sizes={"d": (1, 5)})
CHANCES = rc.Space(fields={"p": rc.simplex("k"), "q": rc.simplex("k")}, sizes={"k": (2, 5)})
MATRICES = rc.Space(fields={"A": rc.reals("d", "d"), "B": rc.reals("d", "d")}, sizes={"d": (1, 3)})
STEP = rc.Space(
    fields={"alpha": rc.positive(low=0.001, high=10), "curvature": rc.positive(low=0.1, high=10)}
)
COUNTS = rc.Space(
    fields={"n": rc.whole_numbers(low=0, high=20), "k": rc.whole_numbers(low=0, high=20)}
)
HORIZON = rc.Space(fields={"x": rc.positive(low=0.001, high=1), "t": rc.positive(low=1, high=1e5)})
SMALL = rc.Space(fields={"x": rc.positive(low=1e-20, high=1e-15)})
UNIT = rc.Space(fields={"x": rc.interval(), "u": rc.ball("d")}, sizes={"d": (1, 4)})


def tv(p: Any, q: Any) -> Any:
    return np.abs(p - q).sum() / 2


def chi2_swapped(s: Any) -> tuple[Any, Any]:
    """The reference measure of chi^2 is the second one."""
    both = s.p * s.q > 0
    if not both.all():
        return 0 * s.p[0], 1 + s.p[0]
    return ((s.p - s.q) ** 2 / s.p).sum(), ((s.p - s.q) ** 2 / s.q).sum()


FALSE = {
    # tiny claims in a user's style, one instance at a time
    "wrong constant": Planted(
        VECTORS, "upper", lambda s: (norm(s.x + s.y) ** 2, 1.9 * (s.x @ s.x + s.y @ s.y)), 2
    ),
    "missing square": Planted(VECTORS, "upper", lambda s: (s.x @ s.x, norm(s.x)), 2),
    "missing cross term": Planted(
        VECTORS, "identity", lambda s: (norm(s.x + s.y) ** 2, s.x @ s.x + s.y @ s.y), 2
    ),
    "missing condition": Planted(
        STEP, "upper", lambda s: (abs(1 - s.alpha * s.curvature), 1 - s.alpha * s.curvature / 2), 2
    ),
    "missing absolute value": Planted(
        VECTORS, "lower", lambda s: (s.x @ s.y + 100_000, 99_000 + 0 * s.x[0]), 2
    ),
    "flipped sign": Planted(
        VECTORS, "upper", lambda s: (norm(s.x - s.y), abs(norm(s.x) - norm(s.y))), 4
    ),
    "flipped inequality": Planted(CHANCES, "lower", lambda s: (s.p.max(), norm(s.p)), 4),
    "swapped arguments": Planted(CHANCES, "upper", chi2_swapped, 4, digits=5),
    "swapped order": Planted(MATRICES, "identity", lambda s: (s.A @ s.B, s.B @ s.A), 8),
    "forgotten transpose": Planted(
        MATRICES, "identity", lambda s: (operator_norm(s.A @ s.A), operator_norm(s.A) ** 2), 8
    ),
    "strict domain": Planted(UNIT, "upper", lambda s: (1 - s.x, 0.999_999 * (1 - s.x**2)), 2),
    "wrong at the end of the range": Planted(UNIT, "upper", lambda s: (s.x, 0.999 + 0 * s.x), 2),
    "off by one": Planted(COUNTS, "count", lambda s: (s.n + s.k, s.n + s.k + (s.n == 13)), 2),
    # sides that are small beside the squared size of an instance, and no rounding
    "wrong late": Planted(
        HORIZON, "upper", lambda s: (s.x / s.t, (2 if s.t < 90_000 else 0.9) * s.x / s.t), 2
    ),
    "wrong where all is small": Planted(SMALL, "identity", lambda s: (s.x, 2 * s.x), 1),
    "positive, but slightly": Planted(UNIT, "upper", lambda s: (1e-15 * s.x, 0 * s.x), 2),
    "true on average only": Planted(
        VECTORS, "upper", lambda s: (np.abs(s.x).max(), np.abs(s.x).mean()), 4
    ),
    "dimension forgotten": Planted(VECTORS, "upper", lambda s: (np.abs(s.x).sum(), norm(s.x)), 4),
    "linear for quadratic": Planted(
        CHANCES, "upper", lambda s: (tv(s.p, s.q), 2 * tv(s.p, s.q) ** 2), 4
    ),
    "union for maximum": Planted(
        CHANCES, "upper", lambda s: ((s.p + s.q).max(), max(s.p.max(), s.q.max())), 4
    ),
    # on finite systems, all at once
    "nu <= kappa": Planted(SYSTEMS, "upper", lambda s: (s.nu, s.kappa), 5),
    "half a diameter": Planted(
        SYSTEMS,
        "upper",
        lambda s: (
            norm(s.b_bar[:, :, None] - s.b_bar[:, None]),
            s.G_b * (s.delta_env + s.delta_obj),
        ),
        8,
    ),
    "wrong agent": Planted(
        SYSTEMS, "upper", lambda s: (norm(s.x_star), norm(s.theta)[:, ::-1] / s.lambda_agent), 8
    ),
    "solution of the mean": Planted(
        SYSTEMS, "identity", lambda s: (s.x_star.mean(axis=1), s.x_star_central), 14
    ),
    "lambda without symmetry": Planted(
        SYSTEMS,
        "upper",
        lambda s: (lambda_min(s.A_bar @ transpose(s.A_bar)) ** 0.5, s.lambda_agent),
        16,
    ),
    "one tenth less": Planted(
        SYSTEMS,
        "upper",
        lambda s: (s.chi2_agent, 0.9 * np.maximum(s.rho.max(axis=-1), 1) * s.delta_env_agent),
        14,
    ),
}


def declared(name: str) -> rc.Claim:
    planted = FALSE[name]
    word = "".join(c if c.isalpha() else "_" for c in name)
    return rc.Claim(
        id=f"false.{word}", source="", text=name, kind=planted.kind,  # type: ignore[arg-type]
        space=planted.space, measure=planted.measure,
    )  # fmt: skip


def flat(value: Any) -> list[float]:
    return [x for part in value for x in flat(part)] if isinstance(value, list) else [value]


def significant(number: float) -> int:
    mantissa = repr(abs(number)).partition("e")[0]
    return len(mantissa.replace(".", "").strip("0"))


@pytest.mark.parametrize(
    "name",
    slow_but(["off by one", "missing condition", "half a diameter", "linear for quadratic"], FALSE),
)
def test_it_is_found_and_shrunk(name: str) -> None:
    claim = declared(name)
    verdict = rc.judge(claim, "normal")
    assert verdict.verdict == "violated"
    assert verdict.counterexample is not None
    numbers = flat(list(verdict.counterexample.values()))
    assert len(numbers) <= FALSE[name].numbers
    assert max(map(significant, numbers)) <= FALSE[name].digits

    stored = json.loads(json.dumps(verdict.to_dict(), allow_nan=False))
    again = rc.replay(claim, stored["counterexample"])
    assert again.verdict == "violated"
    assert (again.measured, again.bound) == (verdict.measured, verdict.bound)
    assert again.counterexample == verdict.counterexample


def test_the_counterexample_to_nu_is_a_single_number() -> None:
    verdict = rc.judge(declared("nu <= kappa"))
    assert verdict.counterexample is not None
    assert {name: np.shape(v) for name, v in verdict.counterexample.items()} == {
        "mu": (1, 1), "A": (1, 1, 1), "Phi": (1, 1, 1), "theta": (1, 1), "floor": (),
    }  # fmt: skip
    assert verdict.measured == "1.0"
    assert float(verdict.bound) > 0

"""Whole runs that Theorem 4.4 and Corollary 4.5 of FSLoRA are about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import ratecheck as rc
from experiments.fslora.theory import chain_rates as at
from experiments.fslora.theory.chain_rates import Opposed, Run

_MEANING = {
    "rho": "r / k",
    "share": "gamma over its largest value",
    "start": "distance of X^0 from the minimum",
    "u": "amplitude of what sketches add to gradients",
    "n": "amplitude of what samples add to gradients",
    "bent": "curvature of f in the entry that moves, over L",
}
FIELDS: dict[str, rc.Field] = {
    "start": rc.reals(magnitude=(0.001, 1.0)),
    "u": rc.reals(magnitude=(0.1, 10.0)),
    "n": rc.reals(magnitude=(0.01, 10.0)),
    "rho": rc.positive(low=1.0, high=8.0),
    "N": rc.whole_numbers(low=1, high=20),
    "L": rc.positive(low=0.1, high=10.0),
    "bent": rc.interval(low=0.5, high=0.999),
    "H": rc.whole_numbers(low=1, high=400),
    "T": rc.whole_numbers(low=1, high=100_000),
}
CONSTRUCTED = (
    "all devices have one function, a parabola in one entry of A with a coupling to one entry of B "
    "that makes the sketches' variance the same everywhere, so that runs are exact at any length"
)
#: Met on the whole space by construction; c_h and sigma_h are 0 as all devices are alike.
ASSUMES: dict[str, Any] = {
    "Assumption 4.1": lambda s: s.function.smoothness <= s.L,
    "Assumption 4.2, the sketch": lambda s: s.function.variance <= s.sigma_s2,
    "the run stays where the coupling is linear": lambda s: (
        (abs(s.u) + abs(s.n)) / s.curvature + abs(s.start) <= s.reach
    ),
}


def _run(*, largest: Callable[..., Any], fresh: bool, share: Any, **others: Any) -> Run:
    limits = (others["rho"][:, None], others["N"], others["H"], others["L"], 0 * share)
    return Run(gamma=share * largest(*limits), fresh=fresh, **others)


def runs(
    largest: Callable[..., Any], fresh: bool = False, steps: int = 400, least: float = 1.0
) -> rc.Space:
    """Whole runs of N devices alike, c_h = sigma_h = 0, with at most ``steps`` local steps.

    r/k is at least ``least``.
    """
    return rc.Space(
        fields={
            **FIELDS,
            "H": rc.whole_numbers(low=1, high=steps),
            "rho": rc.positive(low=least, high=8.0),
            "share": rc.positive(low=0.1, high=1.0),
        },
        view=partial(_run, largest=largest, fresh=fresh),
        assumes=ASSUMES,
        batched=True,
        meaning=_MEANING,
        constructed=CONSTRUCTED,
    )


def _opposed(*, largest: Callable[..., Any], share: Any, e: Any, **others: Any) -> Opposed:
    c_h, two = (1 / e - 1) ** 2, 2 + 0 * share
    gamma = share * largest(1 + 0 * e[:, None], two, others["H"], others["L"], c_h)
    return Opposed(gamma=gamma, e=e, **others)


def _dissimilar(s: Opposed) -> Any:
    """||f_i' - f'||^2 <= c_h ||f'||^2: an equality, which only rounding can miss."""
    apart = s.slopes[:, :2] - s.slopes[:, 2:]
    allowed = (s.c_h * s.slopes[:, 2] ** 2)[:, None]
    return apart**2 * 10**9 <= allowed * (10**9 + 1)


def opposed(largest: Callable[..., Any]) -> rc.Space:
    """Two devices that almost cancel, without sketches and noise."""
    return rc.Space(
        fields={
            "start": rc.positive(low=0.1, high=10.0),
            "e": rc.positive(low=1e-4, high=0.9),
            "L": rc.positive(low=0.1, high=10.0),
            "H": rc.whole_numbers(low=1, high=400),
            "T": rc.whole_numbers(low=1, high=1_000_000),
            "share": rc.positive(low=0.1, high=1.0),
        },
        view=partial(_opposed, largest=largest),
        batched=True,
        meaning={
            "start": "X^0",
            "e": "curvature of f over L",
            "share": _MEANING["share"],
        },
        assumes={
            "Assumption 4.1": lambda s: abs(s.slopes[:, :2]) <= s.L[:, None],
            "Assumption 4.3 with sigma_h = 0": _dissimilar,
        },
        credible={"e": (0.001, 0.5)},
        constructed="two devices with parabolas whose slopes almost cancel",
    )


def _held(**lines: Any) -> Run:
    start = Run(gamma=lines["L"], **lines)
    return replace(start, gamma=at.held_step(start))


def _long(s: Run) -> Any:
    return at.fixed_step(s.rho[:, None], s.H, s.L, 0 * s.L) >= s.gamma


#: Runs with gamma = held_step, at least as long as the corrected corollary asks for.
HELD = rc.Space(
    fields={**FIELDS, "T": rc.whole_numbers(low=1, high=10**8)},
    view=_held,
    given={"T large": _long},
    assumes=ASSUMES,
    batched=True,
    meaning={name: line for name, line in _MEANING.items() if name != "share"},
    constructed=CONSTRUCTED,
)

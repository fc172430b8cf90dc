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
}
FIELDS: dict[str, rc.Field] = {
    "start": rc.reals(magnitude=(0.001, 1.0)),
    "u": rc.reals(magnitude=(0.1, 10.0)),
    "n": rc.reals(magnitude=(0.01, 10.0)),
    "rho": rc.positive(low=1.0, high=8.0),
    "N": rc.whole_numbers(low=1, high=20),
    "L": rc.positive(low=0.1, high=10.0),
    "H": rc.whole_numbers(low=1, high=400),
    "T": rc.whole_numbers(low=1, high=100_000),
}


def _run(*, largest: Callable[..., Any], fresh: bool, share: Any, **others: Any) -> Run:
    limits = (others["rho"][:, None], others["N"], others["H"], others["L"], 0 * share)
    return Run(gamma=share * largest(*limits), fresh=fresh, **others)


def runs(largest: Callable[..., Any], fresh: bool = False, steps: int = 400) -> rc.Space:
    """Whole runs of N devices alike, c_h = sigma_h = 0, with at most ``steps`` local steps."""
    return rc.Space(
        fields={
            **FIELDS,
            "H": rc.whole_numbers(low=1, high=steps),
            "share": rc.positive(low=0.1, high=1.0),
        },
        view=partial(_run, largest=largest, fresh=fresh),
        batched=True,
        meaning=_MEANING,
    )


def _opposed(*, largest: Callable[..., Any], share: Any, e: Any, **others: Any) -> Opposed:
    c_h, two = (1 / e - 1) ** 2, 2 + 0 * share
    gamma = share * largest(1 + 0 * e[:, None], two, others["H"], others["L"], c_h)
    return Opposed(gamma=gamma, e=e, **others)


def opposed(largest: Callable[..., Any]) -> rc.Space:
    """Two devices that almost cancel, without sketches and noise."""
    return rc.Space(
        fields={
            "start": rc.positive(low=0.1, high=10.0),
            "e": rc.positive(low=1e-4, high=0.9),
            "L": rc.positive(low=0.1, high=10.0),
            "H": rc.whole_numbers(low=1, high=400),
            "T": rc.whole_numbers(low=1, high=10_000_000),
            "share": rc.positive(low=0.1, high=1.0),
        },
        view=partial(_opposed, largest=largest),
        batched=True,
        meaning={
            "start": "X^0",
            "e": "curvature of f over L",
            "share": _MEANING["share"],
        },
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
    batched=True,
    meaning={name: line for name, line in _MEANING.items() if name != "share"},
)

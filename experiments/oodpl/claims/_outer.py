"""Rounds of OOD-PL's outer loop, and what else Theorem 1 is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.oodpl.claims._inner import FIELDS, MEANING, PAIRS, inner, quiet, strongly_convex
from experiments.oodpl.theory.bilevel import minimiser
from experiments.oodpl.theory.contraction import conditions
from experiments.oodpl.theory.outer import Round, Rounds
from linsys.linalg import norm

_TWO = {"X": (1, 1), "Y": (2, 2), "p": (1, 1)}
_MEANING = {
    **MEANING,
    "steps": "D",
    "P": "a Lipschitz constant of grad r, which is constant here",
    "tau": "chances of the domains, before they are made to sum to one",
    "outer": "eta over 1/P_L at the first phi",
}


def _space(
    fields: dict[str, rc.Field],
    sizes: dict[str, tuple[int, int]],
    view: Callable[..., Any],
    given: dict[str, Callable[..., Any]],
) -> rc.Space:
    return rc.Space(
        fields=fields,
        sizes=sizes,
        view=view,
        given={name: quiet(holds) for name, holds in given.items()},
        batched=True,
        meaning={name: line for name, line in _MEANING.items() if name in fields},
    )


# Theorem 1 as printed: one round, one domain of two answers, one pair.


@quiet
def _first_round(*, start: Any, steps: Any, P: Any, kappa: Any, **fields: Any) -> SimpleNamespace:
    """``run``, with constants on a ball that no ``steps`` steps leave, and what (25) needs more."""
    run = inner(printed=True, **fields).run
    radius = norm(start) + steps * run.alpha * run.true[1] * run.policy.d
    run = replace(run, theta_0=start, radius=radius)
    pairs = np.array([[0, 1], [0, 0]]) + 0 * fields["psi"]
    return SimpleNamespace(run=run, pairs=pairs, steps=steps, P=P, kappa=kappa)


def _printed(s: SimpleNamespace) -> Any:
    return conditions(s.run, s.run.printed)


def _enough_steps(s: SimpleNamespace) -> Any:
    """D >= -log(M^2/L^2 + ||theta_0 - theta_*||^2) / log q, for q < 1."""
    start = (s.run.policy.M / s.run.policy.L) ** 2 + norm(s.run.theta_0) ** 2
    return s.steps * np.log(_printed(s).q) + np.log(start) <= 0


FIRST_ROUND = _space(
    {
        **FIELDS,
        "steps": rc.whole_numbers(low=1, high=1000),
        "P": rc.positive(low=1e-6, high=1.0),
        "kappa": rc.interval(low=0.01, high=0.99),
    },
    {**_TWO, "q": (1, 1)},
    _first_round,
    {
        "strongly convex": strongly_convex,
        "Lemma 5's alpha": lambda s: s.run.allowed(s.run.printed),
        "q <= 1 - kappa": lambda s: _printed(s).contracts(s.kappa),
        "the first condition on beta": lambda s: _printed(s).printed_theorem_1,
        "D large": _enough_steps,
    },
)

# Several domains.

_SHARED = ("beta", "level", "reach", "share", "outer")
_DOMAINS: dict[str, rc.Field] = {
    **{
        name: replace(domain, axes=domain.axes if name in _SHARED else ("N", *domain.axes))
        for name, domain in {**FIELDS, **PAIRS}.items()
    },
    "tau": rc.positive("N", low=0.01, high=1.0),
}


def _domains(*, tau: Any, **fields: Any) -> Round:
    """The round of N domains at phi = 0, with one step size for all of them."""
    B, N = tau.shape

    def flat(name: str, values: Any) -> Any:
        if name in _SHARED:
            return np.repeat(values, N, axis=0)
        return values.reshape(B * N, *values.shape[2:])

    at = inner(printed=False, **{name: flat(name, values) for name, values in fields.items()})
    alpha = np.repeat(at.run.alpha.reshape(B, N).min(axis=1), N, axis=0)
    return Round(at.run.with_step(alpha), at.pairs, tau / tau.sum(axis=1, keepdims=True))


@quiet
def _round(*, limit: bool, **fields: Any) -> SimpleNamespace:
    return SimpleNamespace(round=replace(_domains(**fields), limit=limit))


def one_round(limit: bool) -> rc.Space:
    """A round of up to two domains, with inner loops of some steps or ``limit``."""
    return _space(
        _DOMAINS,
        {**_TWO, "N": (1, 2), "q": (1, 2)},
        partial(_round, limit=limit),
        {"strongly convex": lambda s: s.round.by_domain(strongly_convex(s.round)).all(axis=1)},
    )


@quiet
def _rounds(*, K: int, inner_steps: int, outer: Any, pair: Any, **fields: Any) -> SimpleNamespace:
    """K rounds, pairs of different answers alone."""
    first = _domains(pair=pair * (1 - np.eye(2, dtype=int)), **fields)
    first = replace(first, run=replace(first.run, D=inner_steps))
    runs = Rounds(first=first, eta=outer, K=0)
    return SimpleNamespace(runs=replace(runs, eta=outer / runs.limit, K=K))


def rounds(K: int, inner_steps: int) -> rc.Space:
    """Whole runs, all their draws."""
    return _space(
        {**_DOMAINS, "outer": rc.positive(low=0.001, high=1.0)},
        {**_TWO, "N": (1, 2), "q": (1, 1)},
        partial(_rounds, K=K, inner_steps=inner_steps),
        {
            "eta <= 1/P_L": lambda s: s.runs.small_steps,
            "alpha stable": lambda s: s.runs.gamma < 1 - 1e-6,
            "strongly convex": lambda s: s.runs.strong > 1e-6,
        },
    )


# Supervised fine-tuning beside a reward.


@quiet
def _tuned(**fields: Any) -> SimpleNamespace:
    """``run`` at theta_*, with the ball up to the minimiser without rewards, and ``pairs``."""
    at = inner(printed=False, **fields)
    system = at.run.system
    run = replace(at.run, radius=norm(minimiser(system.policy, system.chance)))
    return SimpleNamespace(run=run, pairs=at.pairs)


TUNED = _space(
    {**{name: f for name, f in FIELDS.items() if name != "start"}, **PAIRS},
    {**_TWO, "q": (1, 1)},
    _tuned,
    {"strongly convex": strongly_convex},
)

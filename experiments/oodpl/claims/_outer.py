"""Rounds of OOD-PL's outer loop, and what else Theorem 1 is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.oodpl.claims._inner import (
    ASSUMES,
    CONSTRUCTED,
    FIELDS,
    MEANING,
    PAIRS,
    inner,
    quiet,
    strongly_convex,
)
from experiments.oodpl.claims._spaces import within
from experiments.oodpl.theory.bilevel import minimiser
from experiments.oodpl.theory.contraction import conditions
from experiments.oodpl.theory.outer import Round, Rounds
from experiments.oodpl.theory.slow import SlowRounds
from linsys.linalg import norm

_TWO = {"X": (1, 1), "Y": (2, 2), "p": (1, 1)}
_MEANING = {
    **MEANING,
    "steps": "D",
    "R": "radius of the ball whose constants are meant",
    "spare": "P over (grad r - grad r')^2/(4 beta^2), with which L is smooth; grad r is constant",
    "tau": "chances of the domains, before they are made to sum to one",
    "prefer": "the chance that the first answer is preferred to the second",
    "outer": "eta over 1/P_L at the first phi",
}


def _space(
    fields: dict[str, rc.Field],
    sizes: dict[str, tuple[int, int]],
    view: Callable[..., Any],
    given: dict[str, Callable[..., Any]],
    assumes: dict[str, Callable[..., Any]] | None = None,
    credible: dict[str, tuple[float, float]] | None = None,
    constructed: str = CONSTRUCTED,
) -> rc.Space:
    return rc.Space(
        fields=fields,
        sizes=sizes,
        view=view,
        assumes=assumes or {},
        credible=credible or {},
        constructed=constructed,
        given={name: quiet(holds) for name, holds in given.items()},
        batched=True,
        meaning={name: line for name, line in _MEANING.items() if name in fields},
    )


# Theorem 1 as printed: one domain of two answers, one pair.


@quiet
def _slow_rounds(
    *, start: Any, steps: Any, K: Any, spare: Any, kappa: Any, R: Any, **fields: Any
) -> SimpleNamespace:
    """``run`` with constants on the ball of radius R, and its ``rounds``."""
    run = replace(inner(printed=True, **fields).run, theta_0=start, radius=R)
    slow = SlowRounds(run=run, steps=steps, K=K, P=1 + 0 * spare)
    slow = replace(slow, P=spare * slow.smoothness)
    return SimpleNamespace(run=run, rounds=slow, steps=steps, P=slow.P, kappa=kappa)


def _stays(s: SimpleNamespace) -> Any:
    """No inner loop of any round leaves the ball, nor does any theta_*."""
    run = s.run
    away = s.steps * run.alpha * run.true[1] * run.policy.d
    return norm(run.theta_0) + away + s.rounds.optimum <= run.radius


def _printed(s: SimpleNamespace) -> Any:
    return conditions(s.run, s.run.printed)


def _enough_steps(s: SimpleNamespace) -> Any:
    """D >= -log(M^2/L^2 + ||theta_0 - theta_*||^2) / log q, for q < 1 and all phi of the rounds."""
    away = norm(s.run.theta_0) + s.rounds.optimum
    start = (s.run.policy.M / s.run.policy.L) ** 2 + away**2
    return s.steps * np.log(_printed(s).q) + np.log(start) <= 0


SLOW_ROUNDS = _space(
    {
        **FIELDS,
        "steps": rc.whole_numbers(low=1, high=1000),
        "K": rc.whole_numbers(low=1, high=200),
        "spare": rc.positive(low=1.0, high=10.0),
        "R": rc.positive(low=0.001, high=10.0),
        "kappa": rc.interval(low=0.01, high=0.99),
    },
    {**_TWO, "q": (1, 1)},
    _slow_rounds,
    {
        "strongly convex": strongly_convex,
        "Lemma 5's alpha": lambda s: s.run.allowed(s.run.printed),
        "q <= 1 - kappa": lambda s: _printed(s).contracts(s.kappa),
        "the first condition on beta": lambda s: _printed(s).printed_theorem_1,
        "D large": _enough_steps,
        "the rewards' constants hold for all phi of the rounds": lambda s: (
            s.rounds.last <= s.run.reach
        ),
        "alpha e^(r/beta) small": lambda s: s.rounds.small_steps,
        "all theta in the ball": _stays,
    },
    {
        **ASSUMES,
        "L is P-smooth, and grad r is P-Lipschitz": lambda s: (
            (s.rounds.smoothness <= s.P) & (s.run.reward.P <= s.P)
        ),
    },
    credible={"kappa": (0.01, 0.9)},
    constructed=(
        "one domain of one prompt with two answers and one pair, where what a round can move is "
        "bounded for all draws at once"
    ),
)

# Several domains.


def _of_all(round_of: Callable[[SimpleNamespace], Round]) -> dict[str, Callable[..., Any]]:
    """The assumptions, each required in every domain of the instance's round.

    ``round_of`` gives the round of an instance.
    """

    def every(holds: Callable[..., Any]) -> Callable[..., Any]:
        return lambda s: round_of(s).by_domain(holds(round_of(s))).all(axis=1)

    return {name: every(holds) for name, holds in ASSUMES.items()}


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
def _round(*, limit: bool, prefer: Any, **fields: Any) -> SimpleNamespace:
    none = 0 * prefer
    pair = np.stack([none, prefer, 1 - prefer, none], axis=-1).reshape(*prefer.shape, 1, 2, 2)
    return SimpleNamespace(round=replace(_domains(pair=pair, **fields), limit=limit))


@quiet
def _sigma_3(s: SimpleNamespace) -> Any:
    """(24) at every theta and phi: the two slopes of l_PL always differ by psi - psi'.

    d theta_*/d phi is that of every phi, as rewards are linear.
    """
    run, pairs = s.round.run, s.round.pairs
    psi = run.system.policy.psi[:, 0]
    apart = (run.jacobian_star @ (psi[:, 0] - psi[:, 1])[..., None])[..., 0]
    variance = pairs[:, 0, 0, 1] * pairs[:, 0, 1, 0] * norm(apart) ** 2
    return within(s.round.by_domain(variance).max(axis=1), s.round.sigma_3)


def one_round(limit: bool) -> rc.Space:
    """A round of up to two domains, with inner loops of some steps or ``limit``.

    A pair is of two different answers.
    """
    fields = {**_DOMAINS, "prefer": rc.interval("N", low=0.001, high=0.999)}
    for name in ("pair", "start") if limit else ("pair",):
        del fields[name]
    assumes = _of_all(lambda s: s.round)
    return _space(
        fields,
        {**_TWO, "N": (1, 2), "q": (1, 2)},
        partial(_round, limit=limit),
        {"strongly convex": lambda s: s.round.by_domain(strongly_convex(s.round)).all(axis=1)},
        {**assumes, "Assumption 4, sigma_3 at every theta and phi": _sigma_3} if limit else assumes,
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
            "all phi_k within reach": lambda s: s.runs.within_reach,
            "alpha stable": lambda s: s.runs.gamma < 1 - 1e-6,
            "strongly convex": lambda s: s.runs.strong > 1e-6,
        },
        _of_all(lambda s: s.runs.first),
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
    ASSUMES,
)

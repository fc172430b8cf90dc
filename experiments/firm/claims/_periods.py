"""Instances of FIRM's steps on processes: at an aggregation, and one local step after it.

At an aggregation all clients have one policy (:class:`OnePolicy`). Symbols:

- nu is the discounted occupancy of a policy, the law of states in the policy gradient theorem.
- d_pi is the stationary distribution of the states under the policy pi.
- H is the ball of radius R_w that critics' weights are projected on.
- L_H belongs to another H, the function (1 - gamma) mu0'V: its gradient's Lipschitz constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import ratecheck as rc
from experiments.firm.claims._chains import MEANING, processes, tabular
from experiments.firm.theory.assembly import SecondStep
from experiments.firm.theory.chain import Chains
from experiments.firm.theory.client_gradients import Estimate, Printed, smoothness

#: Where a counterexample to a statement about actors and critics persuades.
CREDIBLE = {"gamma": (0.1, 0.99)}
#: Features of the policy so short that C_psi < 1, which Lemmas 4 to 6 take for granted.
SHORT = rc.interval(low=0.1, high=0.7)
_MEANING = {
    **MEANING,
    "w": "critics' weights over their radius",
    "critics": "the two clients' critics' weights over R_w",
    "share": "how far the critics are on the way from w_* to the point w of H",
    "doublings": "a batch has 2^doublings transitions",
    "clients": "their number C",
    "radius": "the radius of the ball that critics are projected on",
    "past": "each client's batch one step before: the shares of the transitions (s, a, s')",
    "batches": "two clients' batches: the shares of the transitions (s, a, s')",
    "a": "the step size times L_H, in (25) times L_J",
}


def _space(
    fields: Mapping[str, rc.Field], instance: Callable[..., Any], **sizes: tuple[int, int]
) -> rc.Space:
    """The space of processes with these fields, whose measures get an ``instance`` of the view."""
    space = processes(fields, sizes)
    meaning = {name: line for name, line in _MEANING.items() if name in space.fields}
    view = space.view
    return replace(space, view=lambda **arrays: instance(view(**arrays)), meaning=meaning)


@dataclass(frozen=True, eq=False)
class _Instance:
    """Fields of a process; what is not an attribute is looked up among them."""

    of: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.of, name)

    @property
    def size(self) -> Any:
        """B = 2^doublings."""
        return 2**self.of.doublings


def of_every_policy(known: Printed, chains: Chains) -> Printed:
    """The paper's constants with a lambda_A, and so an R_w, that serve every policy."""
    return replace(known, R_w=chains.R_w_of_all(known.r_max))


class OnePolicy(_Instance):
    """States of d_pi and critics in H, between w_* and some point."""

    @cached_property
    def known(self) -> Printed:
        """The paper's constants."""
        return of_every_policy(Printed.of([self.chains], self.r_max), self.chains)

    @cached_property
    def at(self) -> Estimate:
        """What clients estimate."""
        share, R_w = self.share[:, None, None], self.known.R_w
        w = (1 - share) * self.chains.w_star + share * R_w[:, None, None] * self.w
        return Estimate(self.chains, w, self.r_max, R_w, restarted=False)


def printed(extra: Mapping[str, rc.Field] | None = None, **sizes: tuple[int, int]) -> rc.Space:
    """Instances of :class:`OnePolicy`."""
    fields = {
        "scale": SHORT,
        "w": rc.ball("M", "d2"),
        "share": rc.positive(low=1e-6, high=1.0),
        "doublings": rc.whole_numbers(low=0, high=20),
        **(extra or {}),
    }
    return _space(fields, OnePolicy, **sizes)


def printed_tabular(extra: Mapping[str, rc.Field], **sizes: tuple[int, int]) -> rc.Space:
    """Instances of :class:`OnePolicy` with tabular critics, so that zeta = 0 for every policy."""
    fields = {"w": rc.ball("M", "S"), **extra}
    return replace(tabular(printed(fields, **sizes)), credible=CREDIBLE)


class Synchronised(_Instance):
    """Two clients at an aggregation: one policy, states of d_pi, and any critics in H."""

    @cached_property
    def known(self) -> Printed:
        """The paper's constants."""
        return of_every_policy(Printed.of([self.chains], self.r_max), self.chains)

    @cached_property
    def pair(self) -> list[Estimate]:
        """What the clients estimate."""
        R_w = self.known.R_w
        w = self.critics * R_w[:, None, None, None]
        return [Estimate(self.chains, w[:, c], self.r_max, R_w, restarted=False) for c in range(2)]


SYNCHRONISED = replace(
    _space(
        {
            "scale": SHORT,
            "critics": rc.ball(2, "M", "d2"),
            "doublings": rc.whole_numbers(low=0, high=20),
        },
        Synchronised,
    ),
    credible=CREDIBLE,
)


class Restarted(_Instance):
    """States of nu and any critics."""

    @cached_property
    def at(self) -> Estimate:
        """What clients estimate."""
        w = self.w * self.radius[:, None, None]
        return Estimate(self.chains, w, self.r_max, self.radius)


RESTARTED = _space(
    {
        "scale": rc.positive(low=0.1, high=10.0),
        "w": rc.ball("M", "d2"),
        "radius": rc.positive(low=0.01, high=10.0),
    },
    Restarted,
)


class _Period(_Instance):
    @cached_property
    def L(self) -> Any:
        """L_H."""
        return smoothness(self.chains, self.r_max)

    def _step(self, a: Any, w: Any, radius: Any, restarted: bool) -> SecondStep:
        return SecondStep(
            base=self.chains, past=self.past, w=w, start=self.lam, eta=self.eta, beta=self.beta,
            a=a, r_max=self.r_max, radius=radius, restarted=restarted,
        )  # fmt: skip


class Pair(_Period):
    """Two clients one step after an aggregation, states of d_pi, exact tabular critics."""

    @cached_property
    def step(self) -> SecondStep:
        """The clients; a is a step size over L_J = gamma L_H / (1 - gamma)."""
        gamma = self.chains.gamma
        a = self.a * (1 - gamma) / (gamma * self.L)
        return self._step(a, None, self.r_max, restarted=False)

    @cached_property
    def known(self) -> Printed:
        """The paper's constants."""
        return of_every_policy(Printed.of(self.step.policies, self.r_max), self.chains)


def _pair(**ranges: rc.Field) -> rc.Space:
    fields = {
        "scale": SHORT,
        "past": rc.simplex(2, "X"),
        "lam": rc.simplex("M"),
        "eta": rc.positive(2, low=1e-9, high=1.0),
        "beta": rc.positive(low=1e-3, high=1e3),
        "a": rc.positive(low=1e-3, high=1.0),
        **ranges,
    }
    space = tabular(_space(fields, Pair, S=(2, 2), X=(8, 8)))
    return replace(
        space,
        credible=CREDIBLE,
        constructed="critics are exact, one feature a state",
        meaning={**space.meaning, "a": "the step size times L_J"},
    )


#: Instances of :class:`Pair`.
PAIR = _pair(gamma=rc.interval(low=0.1, high=0.95), doublings=rc.whole_numbers(low=0, high=20))
#: The same with discounts, batches and step sizes far from any that occur.
REMOTE = _pair(
    gamma=rc.positive(low=1e-15, high=0.95),
    doublings=rc.whole_numbers(low=0, high=120),
    a=rc.positive(low=1e-18, high=1.0),
)


class Period(_Period):
    """C clients one step after an aggregation, states of nu and any critics."""

    @cached_property
    def step(self) -> SecondStep:
        """The clients; a is a step size over L_H."""
        w = self.w * self.radius[:, None, None, None]
        return self._step(self.a / self.L, w, self.radius, restarted=True)


def period(extra: Mapping[str, rc.Field], clients: tuple[int, int]) -> rc.Space:
    """Instances of :class:`Period`."""
    fields = {
        "scale": rc.positive(low=0.1, high=10.0),
        "w": rc.ball("C", "M", "d2"),
        "radius": rc.positive(low=0.01, high=10.0),
        "past": rc.simplex("C", "X"),
        "lam": rc.simplex("M"),
        "eta": rc.interval(2),
        "beta": rc.positive(low=1e-3, high=1e3),
        "a": rc.positive(low=1e-3, high=1.0),
        **extra,
    }
    return _space(fields, Period, S=(2, 2), X=(8, 8), C=clients)

"""The methods AffPCL is compared with in Figure 1, written once over an observation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from linsys.algorithms._round import (
    Collaborative,
    agent_mean,
    agent_sizes,
    keep_inactive,
    start_of,
)
from linsys.algorithms.steps import StepSizes
from linsys.oracle import Observation
from linsys.validate import Array, check_integer, check_number

__all__ = ["Clustered", "Ditto", "FedAvg", "FineTuning", "Independent", "PFedMe"]


class Personal(NamedTuple):
    """x (..., n, d), and rounds done."""

    x: Any
    t: int = 0


class Common(NamedTuple):
    """center (..., 1, d) of as many agents as ``like`` (..., n, d) has, and rounds done."""

    center: Any
    like: Any
    t: int = 0


class Mixed(NamedTuple):
    """Personal x (..., n, d) beside a global center (..., 1, d), and rounds done."""

    x: Any
    center: Any
    t: int = 0


class Clusters(NamedTuple):
    """models (..., C, d), one-hot membership (..., n, C), and rounds done."""

    models: Any
    membership: Any
    t: int = 0


def _local_average(
    center: Any, seen: Sequence[Observation], alpha: float, active: Any, like: Any
) -> Any:
    """FedAvg: local steps from a common point, then the average, (..., 1, d)."""
    local = center + 0.0 * like
    for one in seen:
        local = local - alpha * one.residual(local)
    return agent_mean(local, active)


@dataclass(frozen=True)
class Independent(Collaborative[Personal]):
    """Every agent alone: x^i <- x^i - alpha g^i(x^i); E||x_t^i - x_*^i||^2 = O~(kappa^2 / t)."""

    def init(self, start: Any, oracle: Any = None) -> Personal:
        """Start at x (..., n, d)."""
        return Personal(start_of(start, oracle).x0)

    def update(
        self, state: Personal, seen: Sequence[Observation], sizes: StepSizes, active: Any = None
    ) -> Personal:
        """One local step per observation."""
        x, step = state.x, agent_sizes(sizes.x, state.x)
        for one in seen:
            x = x - step * one.residual(x)
        return Personal(keep_inactive(x, state.x, active), state.t + 1)

    def personal(self, state: Personal) -> Any:
        """x^i, shape (..., n, d)."""
        return state.x


@dataclass(frozen=True)
class FedAvg(Collaborative[Common]):
    """Federated averaging (4): one point for all, x^c <- x^c - alpha (1/n) sum_i g^i(x^c).

    Guarantee with one local step: E||x_t^c - x_*^c||^2 = O~(kappa^2 / (n t)) towards the central
    solution (Proposition 1).
    """

    def init(self, start: Any, oracle: Any = None) -> Common:
        """Start at the mean of x (..., n, d)."""
        x0, _ = start_of(start, oracle)
        return Common(agent_mean(x0), x0)

    def update(
        self, state: Common, seen: Sequence[Observation], sizes: StepSizes, active: Any = None
    ) -> Common:
        """Local steps from the common point, then the average."""
        center = _local_average(state.center, seen, sizes.center, active, state.like)
        return Common(center, state.like, state.t + 1)

    def personal(self, state: Common) -> Any:
        """The common point as seen by every agent, shape (..., n, d)."""
        return state.center + 0.0 * state.like


@dataclass(frozen=True)
class FineTuning(Collaborative[Personal]):
    """FedAvg for ``switch`` rounds, then every agent alone from the common point."""

    switch: int = 30

    def __post_init__(self) -> None:
        check_integer("switch", self.switch)

    def init(self, start: Any, oracle: Any = None) -> Personal:
        """Start at the mean of x (..., n, d)."""
        x0, _ = start_of(start, oracle)
        return Personal(agent_mean(x0) + 0.0 * x0)

    def update(
        self, state: Personal, seen: Sequence[Observation], sizes: StepSizes, active: Any = None
    ) -> Personal:
        """A FedAvg round before the switch, an independent one after it."""
        if state.t >= self.switch:
            return Independent().update(state, seen, sizes, active)
        center = agent_mean(state.x)
        x = _local_average(center, seen, sizes.center, active, state.x) + 0.0 * state.x
        return Personal(x, state.t + 1)

    def personal(self, state: Personal) -> Any:
        """x^i, shape (..., n, d)."""
        return state.x


@dataclass(frozen=True)
class _PulledToGlobal(Collaborative[Mixed]):
    """Personal points drawn to a global model.

    Args:
        regularization: r >= 0; the figures use 15.
    """

    regularization: float = 15.0

    def __post_init__(self) -> None:
        check_number("regularization", self.regularization, low=0.0, high=math.inf, high_open=True)

    def init(self, start: Any, oracle: Any = None) -> Mixed:
        """Start at x (..., n, d), the global model at its mean."""
        x0, _ = start_of(start, oracle)
        return Mixed(x0, agent_mean(x0))

    def personal(self, state: Mixed) -> Any:
        """x^i, shape (..., n, d)."""
        return state.x


@dataclass(frozen=True)
class PFedMe(_PulledToGlobal):
    """pFedMe (T Dinh et al., 2020): personal proximal points around a global model.

    x^i <- x^i - alpha (g^i(x^i) + r (x^i - w)) approximates the proximal point of agent i's
    problem, one gradient step per sample started at the last one, and w <- w - alpha r (w - mean_i
    x^i) is the gradient step on its Moreau envelope.

    Args:
        regularization: r >= 0; the figures use 15.
    """

    def update(
        self, state: Mixed, seen: Sequence[Observation], sizes: StepSizes, active: Any = None
    ) -> Mixed:
        """Local steps of the pair (x^i, w^i), then the average of the w^i."""
        x, local = state.x, state.center + 0.0 * state.x
        step = agent_sizes(sizes.x, x)
        for one in seen:
            gap = x - local
            x = x - step * (one.residual(x) + self.regularization * gap)
            local = local + sizes.center * self.regularization * gap
        return Mixed(keep_inactive(x, state.x, active), agent_mean(local, active), state.t + 1)


@dataclass(frozen=True)
class Ditto(_PulledToGlobal):
    """Ditto (Li et al., 2021): a FedAvg model w that draws the personal points to itself.

    x^i <- x^i - alpha (g^i(x^i) + r (x^i - w)), with the w of the start of the round.

    Args:
        regularization: r >= 0; the figures use 15.
    """

    def update(
        self, state: Mixed, seen: Sequence[Observation], sizes: StepSizes, active: Any = None
    ) -> Mixed:
        """A FedAvg round of w beside local steps of x^i drawn to the w of the round's start."""
        x, step = state.x, agent_sizes(sizes.x, state.x)
        for one in seen:
            x = x - step * (one.residual(x) + self.regularization * (x - state.center))
        center = _local_average(state.center, seen, sizes.center, active, state.x)
        return Mixed(keep_inactive(x, state.x, active), center, state.t + 1)


@dataclass(frozen=True)
class Clustered(Collaborative[Clusters]):
    """Clustered federated learning (IFCA, Ghosh et al., 2020): C models, one for each agent.

    A linear system has no loss to compare, so an agent picks the model with the smallest residual
    ||g^i(w_c)|| on its own fresh sample; every model then takes a FedAvg round over its followers.

    Args:
        clusters: C.
        spread: length of the random offsets from x0 at which the models start; equal starts would
            never separate.
        seed: of these offsets.
    """

    clusters: int = 10
    spread: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        check_integer("clusters", self.clusters, low=1)
        check_number("spread", self.spread, low=0.0, high=math.inf, high_open=True)
        check_integer("seed", self.seed)

    def offsets(self, d: int) -> Array:
        """Starting offsets of the models, shape (C, d)."""
        directions = np.random.default_rng(self.seed).standard_normal((self.clusters, d))
        lengths = np.linalg.norm(directions, axis=1, keepdims=True)
        offsets: Array = self.spread * directions / lengths
        return offsets

    def init(self, start: Any, oracle: Any = None) -> Clusters:
        """Models around the mean of x (..., n, d); agent i starts with model i mod C."""
        x0, _ = start_of(start, oracle)
        xp = array_namespace(x0)
        n, d = x0.shape[-2:]
        offsets = xp.asarray(self.offsets(d), dtype=x0.dtype, device=getattr(x0, "device", None))
        first = xp.asarray(np.eye(self.clusters)[np.arange(n) % self.clusters], dtype=x0.dtype)
        return Clusters(agent_mean(x0) + offsets, first + 0.0 * x0[..., :1])

    def update(
        self, state: Clusters, seen: Sequence[Observation], sizes: StepSizes, active: Any = None
    ) -> Clusters:
        """Choose a model on the first sample, take local steps, average over its followers."""
        xp = array_namespace(state.models)
        fit = []
        for c in range(self.clusters):
            g = seen[0].residual(state.models[..., c : c + 1, :])
            fit.append((g * g).sum(-1))
        best = xp.argmin(xp.stack(fit, axis=-1), axis=-1)
        chosen = xp.asarray(best[..., None] == xp.arange(self.clusters), dtype=state.models.dtype)
        membership = keep_inactive(chosen, state.membership, active)
        local = start = membership @ state.models
        for one in seen:
            local = local - sizes.center * one.residual(local)
        voting = membership if active is None else membership * active
        followers = voting.sum(-2)[..., None]
        moved = xp.matrix_transpose(voting) @ (local - start)
        models = state.models + moved / xp.where(followers > 0, followers, 1.0)
        return Clusters(models, membership, state.t + 1)

    def personal(self, state: Clusters) -> Any:
        """The model each agent follows, shape (..., n, d)."""
        return state.membership @ state.models

"""Runs of OOD-PL for several beta: ways to choose the step and the reward, and what is measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.oodpl._domains import DomainConfig, Values, columns
from linsys import InputError
from linsys.bilevel import (
    Domain,
    DomainOracle,
    LinearReward,
    Start,
    implicit,
    optimum,
    pl_accuracy,
)
from linsys.validate import check_integer, check_number

__all__ = ["LEVELS", "REWARD", "SAME", "STEP", "TANH", "BetaConfig", "measure", "scaled"]

#: Ways to choose the step and the reward for another beta.
SAME, STEP, REWARD, TANH = "same eta", "eta x beta^2", "reward x beta", "tanh, eta x beta^2"
LEVELS = np.linspace(0.1, 0.9, 9)


@dataclass(frozen=True, kw_only=True)
class BetaConfig(DomainConfig):
    """The set-up.

    Attributes:
        betas: increasing, 1 among them.
        etas: step sizes for all betas, increasing; ``eta`` is the step at beta = 1 elsewhere, and
            must be among them.
        points: rounds at which a curve is measured.
    """

    betas: tuple[float, ...] = (0.1, 1.0, 2.0, 4.0, 8.0)
    etas: tuple[float, ...] = (0.125, 1.0, 8.0, 64.0)
    points: int = 8
    strength: float = 1.0
    alpha: float = 0.1
    D: int = 40
    inner_batch: int | None = None
    K: int = 200
    eta: float = 0.125

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("points", self.points, low=2, high=self.K)
        for name, needed in (("betas", 1.0), ("etas", self.eta)):
            values = getattr(self, name)
            for value in values:
                check_number(name, value, low=0.0, low_open=True)
            if len(values) < 2 or any(a >= b for a, b in pairwise(values)) or needed not in values:
                raise InputError(
                    f"`{name}` must be at least 2 increasing numbers with {needed:g} among them; "
                    f"found {values}"
                )

    @property
    def times(self) -> list[int]:
        """Rounds that are measured, from 0 on."""
        return [round(self.K * i / self.points) for i in range(self.points + 1)]

    def runs(self) -> Iterator[tuple[str, float, float]]:
        """Way, beta and eta of every run."""
        for beta in self.betas:
            for eta in self.etas:
                yield SAME, beta, eta
            yield STEP, beta, self.eta * beta**2
            yield REWARD, beta, self.eta
            yield TANH, beta, self.eta * beta**2


def measure(config: BetaConfig, instance: int) -> rc.Columns:
    """All runs of an instance."""
    rows = []
    for way, beta, eta in config.runs():
        domains = config.domains(instance, 4, "tanh" if way == TANH else "linear")
        if way == REWARD:
            sampled, exact = domains
            domains = [scaled(d, beta) for d in sampled], [scaled(d, beta) for d in exact]
        where = {"way": way, "beta": beta, "eta": eta}
        rows += [{**where, **row} for row in _run(config, instance, domains, beta, eta)]
    return columns(rows)


def scaled(domain: Domain, factor: float) -> Domain:
    """The domain with a reward model of as many times the features."""
    return replace(domain, reward=LinearReward(factor * domain.reward.xi))


def _run(
    config: BetaConfig,
    instance: int,
    domains: tuple[list[Domain], list[Domain]],
    beta: float,
    eta: float,
) -> Iterator[dict[str, Any]]:
    """Rows of one training; after it is lost, the last ones again."""
    (*train, test), judge = domains[0], domains[1][-1]
    training = config.training(instance, beta, eta)
    oracles = training.oracles(train)
    state = training.init(Start(np.zeros(config.q), np.zeros(config.p)), oracles)
    row, lost = _measured(test, judge, state.phi, beta), False
    for t in config.times:
        try:
            with np.errstate(over="ignore"):  # what explodes is lost
                while state.t < t and not lost:
                    state, _ = training.round(state, oracles)
                if t and not lost:
                    row = _measured(test, judge, state.phi, beta)
        except InputError:  # the inner loop or the weights explode
            lost = True
        yield {"t": t, **row, "lost": lost}


def _measured(test: Domain, judge: Domain, phi: Values, beta: float) -> dict[str, float]:
    oracle = DomainOracle(domain=judge, beta=beta)
    theta = optimum(DomainOracle(domain=test, beta=beta), phi)
    r = np.asarray(test.reward.value(phi))
    quantiles = {"r": np.quantile(r, LEVELS), "w": np.quantile(np.exp(r / beta), LEVELS)}
    return {
        "accuracy": pl_accuracy(judge, theta),
        "loss": oracle.outer_loss(theta),
        "gradient": float(np.sqrt((implicit(oracle, phi, theta) ** 2).sum())),
        **{f"{name}{i}": float(v) for name, of in quantiles.items() for i, v in enumerate(of)},
        **{f"theta{i}": float(v) for i, v in enumerate(theta)},
    }

"""Runs of Algorithm 1 that :mod:`experiments.oodpl.rates.rate_outer` measures.

Every round of a run is judged by grad L(phi), at many phi at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

import ratecheck as rc
from experiments.oodpl import _lanes as lanes
from experiments.oodpl.rates._rate_laws import InnerLoop, OuterLoop, derivative
from experiments.oodpl.rates._rate_losses import exact_losses
from experiments.oodpl.rates._rate_systems import FixedBetaConfig
from linsys.bilevel import (
    Domain,
    DomainOracle,
    MetaTraining,
    Start,
    TanhReward,
)
from linsys.validate import Array

#: The exponent in K is fitted from here on.
FIRST = 20
#: Units of the slowest domain's tau in which D is measured.
TAUS = (8.0, 16.0, 24.0)
BY_K, BY_ETA = "(a) mean over $K$ rounds", r"(b) floor against $\eta$"
BY_STEP, BY_D = "(c) step $1/(4P)$, bounded rewards", "(d) floor against $D$"
ALL, ONE, PAIRS = "all domains", "one domain", "one domain, sampled pairs"
PRINTED, TRUE = r"$\eta = 1/(4P)$", r"$\eta = 1/P_L$"


@dataclass(frozen=True, kw_only=True)
class RateOuterConfig(FixedBetaConfig):
    """Domains of a few prompts and answers."""

    train: int = rc.param(2, low=2, doc="domains to train on.")
    prompts: int = rc.param(8, low=1, doc="X of every domain.")
    answers: int = rc.param(4, low=2, doc="Y of every domain.")
    parameters: int = rc.param(2, low=1, doc="p and q, of the policy and of the reward.")
    strength: float = rc.param(
        1.0,
        above=0.0,
        doc="norm of the true rewards' parameters, such that inner losses are well conditioned.",
    )
    pairs: int = rc.param(8, low=1, doc="sampled in a round, where they are.")
    depth: float = rc.param(
        8.0, low=1.0, doc="of inner loops, in units of the slowest domain's tau."
    )
    K: int = rc.param(60, low=2 * FIRST, doc="rounds in (a).")
    steps: tuple[float, ...] = rc.param(
        (0.05, 0.1, 0.2), above=0.0, increasing=True, doc="eta P_L of the runs of (b), increasing."
    )
    floor_rounds: int = rc.param(200, low=40, doc="rounds in (b).")
    bounds: tuple[float, ...] = rc.param(
        (2.0, 20.0, 200.0, 2000.0),
        above=0.0,
        increasing=True,
        doc="the bounds s of rewards in (c), increasing.",
    )
    step_rounds: int = rc.param(30, low=1, doc="rounds in (c).")
    radius: float = rc.param(
        10.0, above=0.0, doc="of a ball that runs of (c) stay in, as Assumption 3 needs one."
    )
    late: int = rc.param(30, low=1, doc="rounds in (d).")

    def system(self, instance: int) -> System:
        """An instance."""
        drawn = self.drawn(
            instance,
            train=self.train,
            prompts=self.prompts,
            answers=self.answers,
            p=self.parameters,
            q=self.parameters,
            strength=self.strength,
        )
        return System.of(drawn.train, self.beta)


@dataclass(frozen=True, eq=False)
class System:
    """Domains with what is known of L.

    Attributes:
        domains, beta: of L.
        start: where policies start, their mean after supervised fine-tuning.
        law: near the minimum.
        least, base: min L, and L(0).
        curvature: P_L, the largest curvature of L at nine points between zero and the minimum.
        alpha: an inner step size that is stable between them.
        tau: steps in which the slowest domain's inner loop falls by e at the minimum.
    """

    domains: tuple[Domain, ...]
    beta: float
    start: Array
    law: OuterLoop
    least: float
    base: float
    curvature: float
    alpha: float
    tau: float

    @classmethod
    def of(cls, domains: tuple[Domain, ...], beta: float) -> System:
        """Everything from the domains."""
        from scipy.optimize import minimize

        oracles = [DomainOracle(domain=domain, beta=beta) for domain in domains]
        zero = np.zeros(oracles[0].q)

        def loss(phi: Array) -> tuple[float, Array]:
            values, gradients = exact_losses(domains, beta, phi[None])
            return float(values[0]), gradients[0]

        minimum = minimize(loss, zero, jac=True, method="BFGS", options={"gtol": 1e-9})
        law = OuterLoop(oracles, minimum.x)
        start = np.mean([lanes.optimum(oracle, zero) for oracle in oracles], axis=0)
        between = np.linspace(0.0, 1.0, 9)[:, None] * minimum.x

        def slopes(move: Array) -> Array:
            return exact_losses(domains, beta, between + move).gradients

        curvatures = np.linalg.norm(derivative(slopes, zero), 2, axis=(1, 2))
        steep = [
            np.linalg.norm(oracle.inner_hessian(phi, theta), 2)
            for oracle in oracles
            for phi in (zero, minimum.x)
            for theta in (start, lanes.optimum(oracle, phi))
        ]
        alpha = 0.9 / float(max(steep))
        factor = max(InnerLoop(oracle, minimum.x).factor(alpha) for oracle in oracles)
        return cls(
            domains=domains,
            beta=beta,
            start=start,
            law=law,
            least=float(minimum.fun),
            base=loss(zero)[0],
            curvature=float(curvatures.max()),
            alpha=alpha,
            tau=-1.0 / float(np.log(factor)),
        )

    def gap(self, phi: Array) -> float:
        """L(phi) - min L."""
        return float(exact_losses(self.domains, self.beta, phi[None]).values[0]) - self.least

    def squares(self, phis: Array) -> Array:
        """||grad L||^2 at every phi, shape (n,)."""
        gradients = exact_losses(self.domains, self.beta, phis).gradients
        return np.asarray((gradients**2).sum(axis=1))

    def run(
        self, kind: str, phi: Array, *, eta: float, D: int, K: int, pairs: int, seed: int
    ) -> Array:
        """phi_0, ..., phi_K of Algorithm 1, shape (K + 1, q)."""
        training = MetaTraining(
            alpha=self.alpha,
            beta=self.beta,
            D=D,
            eta=eta,
            K=K,
            inner_batch=None,
            outer_batch=pairs if kind == PAIRS else None,
            every_task=kind == ALL,
            seed=seed,
        )
        return lanes.run(training, self.domains, Start(phi, self.start))


def compute(config: RateOuterConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """One row per point of a panel; columns that do not belong to it are zero."""
    system, seed = config.system(block["instance"]), config.derive("rounds", block["instance"])
    rows = [
        *_means(config, system, seed),
        *_floors(config, system, seed),
        *_steps(config, system),
        *_depths(config, system, seed),
    ]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([row.get(name, 0.0) for row in rows]) for name in names}


Row = dict[str, float | str]


def _means(config: RateOuterConfig, system: System, seed: int) -> list[Row]:
    """(a), from phi = 0 with eta = 1/P_L."""
    eta, D = 1.0 / system.curvature, int(np.ceil(config.depth * system.tau))
    rows: list[Row] = []
    for kind in (ALL, ONE, PAIRS):
        # noise of a random domain takes phi far from the minimum at full steps
        step = eta if kind == ALL else eta / 4.0
        zero = np.zeros_like(system.law.phi)
        phis = system.run(kind, zero, eta=step, D=D, K=config.K, pairs=config.pairs, seed=seed)
        means = np.cumsum(system.squares(phis[:-1])) / np.arange(1, config.K + 1)
        to_come = 2.0 * max(system.gap(phis[-1]), 0.0) / step
        bound = 2.0 * (system.base - system.least) / step
        rows += [
            {
                "panel": BY_K,
                "kind": kind,
                "x": float(K),
                "value": float(means[K - 1]),
                "law": bound / K,
                # what rounds after the last add to the sum of squares at most, relative to it
                "room": to_come / float(means[-1] * config.K),
            }
            for K in range(1, config.K + 1)
        ]
    return rows


def _floors(config: RateOuterConfig, system: System, seed: int) -> list[Row]:
    """(b), from the minimum."""
    D, law = int(np.ceil(config.depth * system.tau)), system.law
    seen = np.arange(config.floor_rounds // 4, config.floor_rounds + 1, 4)
    sampled = law.within / config.pairs
    rows: list[Row] = []
    for kind, noise in ((ONE, law.between), (PAIRS, law.between + sampled)):
        for step in config.steps:
            eta, K = step / system.curvature, config.floor_rounds
            phis = system.run(kind, law.phi, eta=eta, D=D, K=K, pairs=config.pairs, seed=seed)
            rows.append(
                {
                    "panel": BY_ETA,
                    "kind": kind,
                    "x": step,
                    "value": float(system.squares(phis[seen]).mean()),
                    "law": law.floor(eta, noise, seen.astype(float)),
                    # the floor 3 sigma_3^2 that the paper states for sampled pairs
                    "room": float(3.0 * np.trace(sampled)) if kind == PAIRS else 0.0,
                }
            )
    return rows


def _steps(config: RateOuterConfig, system: System) -> list[Row]:
    """(c): descent with exact gradients, for all bounds and both steps at once."""
    bounds = np.array(config.bounds)
    curved, flat, zero = [], [], np.zeros_like(system.law.phi)

    def slope(phi: Array, s: float) -> Array:
        return np.asarray(exact_losses(system.domains, system.beta, phi[None], s).gradients[0])

    for s in config.bounds:
        rewards = [TanhReward(domain.reward.xi, s=s) for domain in system.domains]
        T = max(reward.constants(0.0).T for reward in rewards)
        curved.append(_STEEPEST * T**2 / s)
        flat.append(float(np.linalg.norm(derivative(partial(slope, s=s), zero), 2)))
    P, curvature = np.array(curved), np.array(flat)
    eta = np.concatenate([1.0 / (4.0 * P), 1.0 / curvature])
    phis, squares = np.zeros((len(eta), len(system.law.phi))), []
    both = np.concatenate([bounds, bounds])
    for _ in range(config.step_rounds):
        slopes = exact_losses(system.domains, system.beta, phis, both).gradients
        squares.append((slopes**2).sum(axis=1))
        phis = phis - eta[:, None] * slopes
        phis = phis / np.maximum(1.0, np.linalg.norm(phis, axis=1, keepdims=True) / config.radius)
    means = np.mean(squares, axis=0).reshape(2, -1)
    return [
        {
            "panel": BY_STEP,
            "kind": kind,
            "x": float(s),
            "value": float(means[i, j] / squares[0][j]),
            "law": float(curvature[j] / (4.0 * P[j])),
        }
        for i, kind in enumerate((PRINTED, TRUE))
        for j, s in enumerate(bounds)
    ]


#: The largest absolute second derivative of tanh: P = _STEEPEST T^2 / s on the whole space.
_STEEPEST = 4.0 / (3.0 * 3.0**0.5)


def _depths(config: RateOuterConfig, system: System, seed: int) -> list[Row]:
    """(d), from the minimum, all domains."""
    rows: list[Row] = []
    for times in TAUS:
        D = int(np.ceil(times * system.tau))
        eta = 1.0 / system.curvature
        phis = system.run(
            ALL, system.law.phi, eta=eta, D=D, K=config.late, pairs=config.pairs, seed=seed
        )
        rows.append(
            {
                "panel": BY_D,
                "kind": ALL,
                "x": times,
                "value": float(system.squares(phis[-1:])[0]),
                "law": D / system.tau,
            }
        )
    return rows

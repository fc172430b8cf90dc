"""When collaboration pays: the error of AffPCL over that of learning alone, on random systems.

Problem and assumptions: a finite-state system drawn at random, with S states in d dimensions. A(s)
= D (I + 2 v_s v_s') D / 3 and Phi(s) = D (I + w_s w_s') D / 2 with unit vectors v_s, w_s, and D
diagonal from 1 to 1 / sqrt(kappa): ||A(s)|| <= 1, ||Phi(s)|| <= 1 and both are positive definite.
Agent i has the environment (1 - delta) mu + delta mu^i and the weights sqrt(1 - delta^2) theta +
delta theta^i, divided by their length where that is above 1, with mu, mu^i drawn from Dirichlet
distributions and theta, theta^i unit vectors; delta = 0: all agents are alike, delta = 1: nothing
is common. kappa multiplies the condition number of Abar^i.

Algorithms: AffPCL (8) with (7) and (22-1), known density ratios; independent learning. Both take t
rounds of the step ln t / (lambda t) of Theorem 1, or 1/2 where that is larger: lambda the smallest
of all lambda^i.

What it measures: the ratio of the two mean squared errors of agent 1, exactly
(:mod:`linsys.moments`), and the factor max{1/n, min{1, nu delta_cen}} that Theorem 1, equation (9),
states up to a constant. Collaboration pays where the ratio is below 1.

Derived here: for delta = 0 the ratio is 1/n to first order in the step. For late t kappa drops out
of the ratio, as the variances of both methods depend on it alike; in few rounds and for large
kappa the start is not forgotten yet, and there is less to gain.

One configuration is a curve over delta. A map over n, delta and kappa is a sweep::

    ratecheck sweep affpcl/pays --set n=2,4,8,16,32 --set kappa=1,10,100 \\
        --set "deltas=linspace(0,1,11)" --map delta,n,ratio --by kappa --level 1

References: AffPCL, Theorem 1, Sections 6.2 and 6.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import ratecheck as rc
from linsys import FiniteSystem
from linsys.algorithms import AffPCL, Independent
from linsys.heterogeneity import lambda_min, predicted_factor
from linsys.moments import exact_moments

METHODS = (AffPCL(), Independent())
#: Both recursions are stable with all steps up to this one, as ||A(s)|| <= 1.
LARGEST_STEP = 0.5
#: Concentration of the common and of the agents' own environments.
COMMON, OWN = 1.0, 0.5
#: Up to this delta collaboration pays in every system, as it turned out with the profiles' n.
SURELY = 0.2
#: The speed-up over learning alone of equal agents, divided by n.
SPEED_UP = 1.0
#: What is of second order in the step at the profiles' horizon.
SLACK = 0.02
RATIO = "error of AffPCL / independent learning"


@dataclass(frozen=True, kw_only=True)
class PaysConfig(rc.Config):
    """The systems, and how long the methods run on them."""

    n: int = rc.param(8, low=2, high=1000, doc="agents.")
    deltas: tuple[float, ...] = rc.param(
        (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0),
        low=0.0,
        high=1.0,
        least=1,
        increasing=True,
        doc="how different environments and objectives are: 0 not at all, 1 completely.",
    )
    kappa: float = rc.param(10.0, low=1.0, high=1e6, doc="ratio of the largest to the least scale.")
    t: float = rc.param(1e5, low=10.0, high=1e15, doc="rounds.")
    states: int = rc.param(6, low=2, high=1000, doc="S.")
    d: int = rc.param(2, low=1, high=20, doc="dimension.")
    systems: int = rc.param(20, low=1, doc="systems for every delta.")


def drawn(config: PaysConfig, number: int, delta: float) -> FiniteSystem:
    """A random system; its directions are the same at every delta and kappa, and agents at every n.

    >>> system = drawn(PaysConfig(n=3), 0, 0.5)
    >>> system.n, system.n_states, system.d
    (3, 6, 2)
    """
    rng = np.random.default_rng(config.derive("system", number))
    S, d = config.states, config.d
    scales = np.diag(np.geomspace(1.0, config.kappa**-0.5, d))
    v, w = _units(rng, S, d), _units(rng, S, d)
    common, theta = rng.dirichlet(np.full(S, COMMON)), _units(rng, 1, d)[0]
    own = [(rng.dirichlet(np.full(S, OWN)), _units(rng, 1, d)[0]) for _ in range(config.n)]
    weights = np.sqrt(1.0 - delta**2) * theta + delta * np.stack([b for _, b in own])
    weights /= np.maximum(1.0, np.linalg.norm(weights, axis=1, keepdims=True))
    return FiniteSystem.from_objectives(
        A=scales @ (np.eye(d) + 2.0 * v[:, :, None] * v[:, None, :]) @ scales / 3.0,
        Phi=scales @ (np.eye(d) + w[:, :, None] * w[:, None, :]) @ scales / 2.0,
        theta=weights,
        mu=(1.0 - delta) * common + delta * np.stack([a for a, _ in own]),
    )


def _units(rng: np.random.Generator, count: int, d: int) -> Any:
    """Unit vectors, (count, d)."""
    vectors = rng.normal(size=(count, d))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def compute(config: PaysConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Errors of both methods on every system at one delta, and the factor of the theory."""
    t, rows = round(config.t), []
    for number in range(config.systems):
        system = drawn(config, number, block["delta"])
        step = min(np.log(t) / (float(lambda_min(system)) * t), LARGEST_STEP)
        mse = [exact_moments(system, m, agents=[0]).at([t], alpha=[step]).error for m in METHODS]
        predicted = float(np.asarray(predicted_factor(system))[0])
        rows.append((float(mse[0][0, 0]), float(mse[1][0, 0]), predicted))
    ours, alone, predicted_all = np.array(rows).T
    return {
        "system": np.arange(config.systems),
        "mse": ours,
        "alone": alone,
        "ratio": ours / alone,
        "pays": (ours < alone).astype(np.int64),
        "predicted": predicted_all,
    }


def analyse(config: PaysConfig, table: rc.Table) -> rc.Analysis:
    """The median ratio over delta, and how many systems profit."""
    deltas = np.array(config.deltas)
    ratio = table.grid("ratio", "delta", "system")
    predicted = np.median(table.grid("predicted", "delta", "system"), axis=1)
    low, middle, high = np.quantile(ratio, [0.1, 0.5, 0.9], axis=1)
    series = [
        rc.Series("AffPCL", RATIO, deltas, middle, low, high),
        rc.Series("theory", RATIO, deltas, predicted),
    ]
    checks = []
    if deltas[0] == 0.0:
        gain = 1.0 / (ratio[0] * config.n)
        far = float(gain[np.abs(gain - SPEED_UP).argmax()])
        measured = rc.Interval(far, float(gain.min()), float(gain.max()))
        low_end, high_end = SPEED_UP * (1.0 - SLACK), SPEED_UP * (1.0 + SLACK)
        name = "speed-up / n at δ = 0"
        check = rc.within(name, SPEED_UP, measured, low_end, high_end)
        checks.append(rc.every(rc.our_own(check)))
    if (deltas <= SURELY).any():
        worst = float(ratio[deltas <= SURELY].max())
        name = f"AffPCL / Independent for δ up to {SURELY:g}, every system"
        checks.append(rc.our_own(rc.below(name, "below 1", rc.exact(worst))))
    paying = zip(deltas, (ratio < 1.0).mean(axis=1), strict=True)
    shares = ", ".join(f"{share:.0%} at {delta:g}" for delta, share in paying)
    notes = [
        f"collaboration pays in so many of {config.systems} systems: {shares}",
        "line and band: median, and 10 % to 90 %, over systems; values are exact",
        "theory: the median of max{1/n, min{1, ν δ_cen}}, a bound up to a constant",
    ]
    return rc.Analysis(series, checks, notes)


EXPERIMENT = rc.Experiment(
    id="affpcl/pays",
    title="When collaboration pays, on random systems",
    source="Theorem 1, equation (9)",
    kind="figure",
    profiles={"quick": PaysConfig(), "paper": PaysConfig(systems=200)},
    blocks=rc.Grid({"delta": "deltas"}),
    compute=compute,
    analyse=analyse,
    parallel="blocks",
    panels={
        RATIO: rc.Panel(
            "heterogeneity $\\delta$", "MSE relative to\nindependent learning", log="y", title=""
        )
    },
)

"""Policies that gradient descent on the DPO loss ends in, beside the closed form (4)."""

from dataclasses import dataclass

import numpy as np
from paper import log_softmax

import ratecheck as rc

POWER = 1.0  # of exp(r / beta) in (4)


@dataclass(frozen=True, kw_only=True)
class BetaConfig(rc.Config):
    """Temperatures, and how long is trained."""

    beta: tuple[float, ...] = rc.param(
        (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4), above=0, increasing=True, doc="weights of the KL term."
    )
    steps: int = rc.param(2000, low=100, doc="of gradient descent.")
    responses: int = rc.param(4, low=2, doc="of the only prompt.")


def compute(config: BetaConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    rng = np.random.default_rng(config.derive("responses"))
    r, ref = rng.normal(size=config.responses), log_softmax(rng.normal(size=config.responses))
    beta, theta = block["beta"], ref
    q = (
        rc.linalg.logistic(r[:, None] - r[None, :]) / r.size**2
    )  # of all pairs, by Bradley and Terry
    for _ in range(config.steps):
        implicit = beta * (log_softmax(theta) - ref)
        weight = q * rc.linalg.logistic(implicit[None, :] - implicit[:, None])
        theta = theta + (weight.sum(axis=1) - weight.sum(axis=0)) * r.size / beta
    trained = np.exp(log_softmax(theta))
    return {"response": np.arange(r.size), "trained": trained, "r": r, "ref": ref}


def analyse(config: BetaConfig, table: rc.Table) -> rc.Analysis:
    parts = [table.where(beta=beta) for beta in config.beta]
    trained = np.array([part["trained"] for part in parts])
    logits = [part["ref"] + POWER * part["r"] / part["beta"] for part in parts]
    stated, series = np.array([np.exp(log_softmax(one)) for one in logits]), []
    for k in range(config.responses):
        series.append(rc.Series(f"$y_{k + 1}$", "pi", config.beta, trained[:, k]))
        series.append(rc.Series("theory", "pi", config.beta, stated[:, k]))
    gap = rc.exact(np.abs(trained - stated).max())
    return rc.Analysis(series, [rc.at_most("largest gap", "0, but for training", gap, 1e-6)])


EXPERIMENT = rc.Experiment(
    id="dpo/beta",
    title="DPO against its closed form",
    source="Rafailov et al., equation (4)",
    kind="figure",
    profiles={"quick": BetaConfig(), "paper": BetaConfig(responses=8, steps=10_000)},
    blocks=rc.Grid({"beta": "beta"}),
    compute=compute,
    analyse=analyse,
    panels={"pi": rc.Panel(x=r"$\beta$", y=r"$\pi(y)$ after training", log="x")},
)

"""DPO on tabular policies: its gradient, its optimum, and the preferences that it explains.

The gradient of Section 4 equals the derivative by dual numbers, the policy of (4) maximises the
objective (3), and (6) gives the preferences back: all three hold to the last digit. The gradient
without its factor beta, as some texts print it, is refuted. The figure has the policies in which
gradient descent on the DPO loss ends, beside (4).
"""

from typing import Any

import numpy as np

import ratecheck as rc

PAPER = rc.Paper("dpo", "DPO", "Rafailov et al.: Direct Preference Optimization (arXiv 2305.18290)")
POLICIES = rc.Space(
    fields={
        "theta": rc.reals("m", magnitude=(0.1, 3.0)),  # logits of the policy
        "ref": rc.reals("m", magnitude=(0.1, 3.0)),  # logits of the reference
        "r": rc.reals("m", magnitude=(0.1, 3.0)),  # rewards
        "beta": rc.positive(low=0.1, high=3.0),
        "q": rc.simplex("m", "m"),  # how often the second is the worse one of a pair
    },
    sizes={"m": (2, 4)},
)


class Dual:
    """Numbers (n, ..) and their slopes along m logits (n, .., m): the chain rule, nothing else."""

    def __init__(self, value: Any, slope: Any) -> None:
        self.value, self.slope = value, slope

    def exp(self) -> "Dual":
        """The exponential of each."""
        return Dual(np.exp(self.value), np.exp(self.value)[..., None] * self.slope)

    def log(self) -> "Dual":
        """The logarithm of each."""
        return Dual(np.log(self.value), self.slope / self.value[..., None])

    def sum(self) -> "Dual":
        """Their sum, of shape (1, ..)."""
        return Dual(self.value.sum(axis=0, keepdims=True), self.slope.sum(axis=0, keepdims=True))


def log_softmax(logits: Any) -> Any:
    """log pi(y) of every response."""
    return logits - np.log(np.exp(logits).sum())


@PAPER.identity("gradient", ref="Section 4: gradient of the loss", on=POLICIES)
def gradient(i: Any, power: int = 1) -> rc.Sides:
    """For the implicit rewards r = beta log(pi / pi_ref) the gradient of L_DPO is
    -beta E[sigma(r_l - r_w) (grad log pi(y_w) - grad log pi(y_l))].
    """
    eye = np.eye(len(i.theta))
    log_sum = Dual(i.theta, eye).exp().sum().log()  # log pi is theta minus this
    r = i.beta * (i.theta - log_sum.value - log_softmax(i.ref))
    slope = i.beta * (eye - log_sum.slope)
    ratio = Dual(r[None, :] - r[:, None], slope[None, :] - slope[:, None]).exp()  # of pairs (w, l)
    loss = Dual(1 + ratio.value, ratio.slope).log()  # -log sigma(r_w - r_l)
    weight = i.q * rc.linalg.logistic(r[None, :] - r[:, None])
    pull = eye[:, None] - eye[None, :]  # grad log pi(y_w) - grad log pi(y_l)
    stated = -(i.beta**power) * np.tensordot(weight, pull, axes=2)
    return np.tensordot(i.q, loss.slope, axes=2), stated


@PAPER.upper("optimum", ref="equation (4)", on=POLICIES)
def optimum(i: Any) -> rc.Sides:
    """No policy has a larger E[r] - beta KL(pi, pi_ref) than pi_ref exp(r / beta) / Z, which has
    beta log Z.
    """
    pi, ref = log_softmax(i.theta), log_softmax(i.ref)
    Z = np.exp(ref + i.r / i.beta).sum()
    return (np.exp(pi) * (i.r - i.beta * (pi - ref))).sum(), i.beta * np.log(Z)


@PAPER.identity("preferences", ref="equation (6)", on=POLICIES)
def preferences(i: Any) -> rc.Sides:
    """The Bradley-Terry probabilities of r are sigma(r_1 - r_2) for the implicit rewards of the
    optimal policy.
    """
    ref = log_softmax(i.ref)
    implicit = i.beta * (log_softmax(ref + i.r / i.beta) - ref)
    true, stated = (rc.linalg.logistic(r[:, None] - r[None, :]) for r in (i.r, implicit))
    return true, stated


gradient.changed(
    "gradient_without_beta",
    {"power": 0},
    text="The gradient of L_DPO is that of Section 4 without the factor beta.",
    note="The chain rule through r = beta log(pi / pi_ref) gives one factor beta.",
)

POWER = 1.0  # of exp(r / beta) in (4)


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
    q = rc.linalg.logistic(r[:, None] - r[None, :]) / r.size**2  # of pairs, by Bradley and Terry
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
    profiles={"quick": BetaConfig(), "paper": BetaConfig(responses=8, steps=10_000)},
    blocks=rc.Grid({"beta": "beta"}),
    compute=compute,
    analyse=analyse,
    panels={"pi": rc.Panel(x=r"$\beta$", y=r"$\pi(y)$ after training", log="x")},
)

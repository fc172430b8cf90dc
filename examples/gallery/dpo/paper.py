"""DPO on tabular policies: its gradient, its optimum, and the preferences that it explains.

The gradient of Section 4 equals the derivative by dual numbers, the policy of (4) maximises the
objective (3), and (6) gives the preferences back: all three hold to the last digit. The gradient
without its factor beta, as some texts print it, is refuted.
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
    """A number and its derivatives along all logits: the chain rule, and nothing else."""

    def __init__(self, value: Any, slope: Any) -> None:
        self.value, self.slope = value, slope

    def __add__(self, other: "Dual") -> "Dual":
        return Dual(self.value + other.value, self.slope + other.slope)

    def times(self, factor: Any) -> "Dual":
        """The product with a constant."""
        return Dual(factor * self.value, factor * self.slope)

    def exp(self) -> "Dual":
        """Its exponential."""
        return Dual(np.exp(self.value), np.exp(self.value) * self.slope)

    def log(self) -> "Dual":
        """Its logarithm."""
        return Dual(np.log(self.value), self.slope / self.value)


def log_softmax(logits: Any) -> Any:
    """log pi(y) of every response."""
    return logits - np.log(np.exp(logits).sum())


@PAPER.identity("gradient", ref="Section 4: gradient of the loss", on=POLICIES)
def gradient(i: Any, factor: Any = None) -> rc.Sides:
    """For the implicit rewards r = beta log(pi / pi_ref) the gradient of L_DPO is
    -beta E[sigma(r_l - r_w) (grad log pi(y_w) - grad log pi(y_l))].
    """
    eye = np.eye(len(i.theta), dtype=int)
    logits = [Dual(value, slope) for value, slope in zip(i.theta, eye, strict=True)]
    total = logits[0].exp()
    for other in logits[1:]:
        total = total + other.exp()
    ref, zero = log_softmax(i.ref), 0 * i.beta * eye[0]
    ratio = [x + total.log().times(-1) + Dual(-s, zero) for x, s in zip(logits, ref, strict=True)]
    loss = Dual(0 * i.beta, zero)
    for w, better in enumerate(ratio):
        for k, worse in enumerate(ratio):
            margin = (better + worse.times(-1)).times(-i.beta)
            loss = loss + (Dual(1, zero) + margin.exp()).log().times(i.q[w, k])  # -log sigma
    implicit = i.beta * (log_softmax(i.theta) - ref)
    weight = i.q * rc.linalg.logistic(implicit[None, :] - implicit[:, None])  # of pairs (w, l)
    pull = eye[:, None] - eye[None, :]  # grad log pi(y_w) - grad log pi(y_l)
    stated = -np.tensordot(weight, pull, axes=2)
    return loss.slope, (i.beta if factor is None else factor) * stated


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


@PAPER.identity(
    "gradient_without_beta",
    ref="Section 4: gradient with a wrong constant",
    on=POLICIES,
    expect="violated",
    printed_as="ours",
    note="The chain rule through r = beta log(pi / pi_ref) gives one factor beta.",
    corrected="gradient",
)
def gradient_without_beta(i: Any) -> rc.Sides:
    """The gradient of L_DPO is that of Section 4 without the factor beta."""
    return gradient(i, factor=1)

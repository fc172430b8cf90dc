"""Appendix C.4 of AffPCL: density ratios from coupled samples, and the assumed oracle."""

from __future__ import annotations

from typing import Any

import numpy as np

import ratecheck as rc
from experiments.affpcl.claims._chains import of_one_type
from experiments.affpcl.paper import PAPER
from experiments.affpcl.theory import ratio_estimation as estimate
from experiments.affpcl.theory.ratio_estimation import Coupling
from experiments.affpcl.theory.stack import apply
from linsys.linalg import lambda_min, norm


def _coupling(*, eta_first: Any, eta_others: Any, **arrays: Any) -> Coupling:
    return Coupling(**arrays, eta=np.concatenate([eta_first[:, None], eta_others], axis=1))


# rho^i - 1 is linear in features of length at most one by construction, and mu^0 is the average of
# mu^i and n - 1 others; optimal and independent couplings have the right marginals, so mixtures do.
COUPLINGS = rc.Space(
    fields={
        "own": rc.simplex("S"),
        "rest": rc.simplex("S"),
        "n": rc.whole_numbers(low=1, high=5),
        "closeness": rc.interval(),
        "scale": rc.positive(low=0.01, high=1.0),
        "others": rc.ball("S", "e"),
        "eta_first": rc.reals(),
        "eta_others": rc.reals("e"),
    },
    sizes={"S": (2, 4), "e": (1, 2)},
    repair=of_one_type,
    view=_coupling,
    assumes={"||psi(s)|| <= 1": lambda s: norm(s.psi) <= 1 + 1e-12},
    batched=True,
    meaning={
        "own": "mu^i",
        "rest": "the average of the other agents' environments",
        "closeness": "the weight of the optimal coupling, beside the independent one",
        "scale": "the largest |k (rho^i(s) - 1)|, k (rho^i - 1) being the first feature",
        "others": "the other features, of length at most one before they are scaled to fit",
        "eta_first": "eta's entry for the first feature",
        "eta_others": "eta's entries for the other features",
    },
)


@PAPER.identity(
    "ex2_mean",
    ref="Example 2, proof",
    tex=r"\mathbb{E}g^{i,\rho}(\eta)=\bar\Psi^0(\eta-\eta_*^i)",
    on=COUPLINGS,
)
def ex2_mean(s: Coupling) -> rc.Sides:
    """E g^{i,rho}(eta) = Psibar^0 (eta - eta_*), however s^i and s^0 are coupled."""
    mean = (s.joint[..., None] * s.residual(s.eta)).sum(axis=(1, 2))
    return mean, apply(s.Psi_bar, s.eta - s.eta_star)


@PAPER.lower(
    "ex2_monotone",
    ref="Example 2, proof",
    tex=r"\langle\Delta\eta,\bar\Psi^0\Delta\eta\rangle\ge\lambda_{\min}(\bar\Psi^0)\|\Delta\eta\|^2",
    on=COUPLINGS,
)
def ex2_monotone(s: estimate.Coupling) -> rc.Sides:
    """<E g^{i,rho}(eta), eta - eta_*> >= lambda_min(Psibar^0) ||eta - eta_*||^2."""
    gap = s.eta - s.eta_star
    return (ex2_mean(s)[0] * gap).sum(axis=-1), lambda_min(s.Psi_bar) * norm(gap) ** 2


@PAPER.upper(
    "ex2_var",
    ref="Example 2, proof",
    uses=["d3"],
    tex=r"\mathbb{E}\|g^{i,\rho}(\eta_*)\|^2\le2\chi^2(\mu^i,\mu^0)+8P(s^i\ne s^0)"
    r"\le2\|\rho^i\|_\infty\|\mu^i-\mu^0\|_{\rm TV}+8P(s^i\ne s^0)",
    on=COUPLINGS,
    note="The second line of the proof prints rho^i(s^i) for rho^i(s^0). That the right side is "
    "O(delta_env) takes max rho^i = O(1); it is up to n in general.",
    derivation="At the solution g is Psi(s^0) eta_* minus psi(s^i) - psi(s^0). The mean square of "
    "a difference is at most twice the sum of the mean squares: those are at most chi^2 and 4 "
    "P(s^i != s^0). chi^2 = sum_s (rho^i - 1)(mu^i - mu^0) is at most (max rho^i - 1 + 1) TV, as "
    "the positive and the negative part of mu^i - mu^0 have the mass TV each.",
)
def ex2_var(s: Coupling) -> rc.Sides:
    """||psi|| <= 1: E ||g^{i,rho}(eta_*)||^2 <= 2 chi^2(mu^i, mu^0) + 8 P(s^i != s^0) <= 2 max
    rho^i ||mu^i - mu^0||_TV + 8 P(s^i != s^0).
    """
    square = (s.joint * norm(s.residual(s.eta_star)) ** 2).sum(axis=(1, 2))
    first = 2 * s.chi2 + 8 * s.differ
    second = 2 * (1 + s.excess.max(axis=-1)) * s.tv + 8 * s.differ
    return np.stack([square, first], axis=1), np.stack([first, second], axis=1)


@PAPER.upper(
    "ex2_var_first",
    ref="Example 2, proof",
    tex=r"\mathbb{E}\|g^{i,\rho}(\eta_*)\|^2\le2\chi^2(\mu^i,\mu^0)+8P(s^i\ne s^0)",
    on=COUPLINGS,
)
def ex2_var_first(s: estimate.Coupling) -> rc.Sides:
    """||psi|| <= 1: E ||g^{i,rho}(eta_*)||^2 <= 2 chi^2(mu^i, mu^0) + 8 P(s^i != s^0)."""
    measured, bound = ex2_var(s)
    return measured[:, 0], bound[:, 0]


@PAPER.lower(
    "ex2_coupling",
    ref="Example 2",
    tex=r"P(s^i=s^0)\le1-\|\mu^i-\mu^0\|_{\rm TV}",
    on=COUPLINGS,
    note="True of any coupling, since P(s^i = s^0 = s) <= min{mu^i(s), mu^0(s)}; tried for "
    "mixtures of the optimal and the independent one. The optimal one attains it, as printed.",
)
def ex2_coupling(s: estimate.Coupling) -> rc.Sides:
    """P(s^i != s^0) >= ||mu^i - mu^0||_TV."""
    return s.differ, s.tv


ASSUMP1 = rc.NotChecked(
    id="affpcl.assump1",
    source="AffPCL, Assumption 1",
    text="|rhohat^i - rho^i| = O(1) and E |rhohat^i - rho^i|^2 = O~((kappa^rho)^2 max{1/n, min{1, "
    "nu delta_cen^i}} / t).",
    latex=r"\mathbb{E}\|\hat\rho_t^i-\rho^i\|^2=\tilde O\big((\kappa^\rho)^2t^{-1}"
    r"\max\{n^{-1},\tilde\delta_{\rm cen}^i\}\big)",
    note="An assumption, without constants. rhohat = rho satisfies it, so it is not empty. "
    "Samples alone do not, unless kappa^rho grows with affinity: on two even states, whose "
    "one-hot features have lambda^rho = 1/2, the worst risk is at least 1/(96 t) once t >= 1/(24 "
    "delta_env^2) (affpcl.c3_case2_corrected), so that (kappa^rho)^2 max{1/n, nu delta_cen^i} "
    "would have to be bounded from below, up to logarithms, whatever n and delta are.",
)

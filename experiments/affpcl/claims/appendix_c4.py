"""Appendix C.4 of AffPCL: density ratios from coupled samples, and the assumed oracle."""

from __future__ import annotations

from typing import Any

import numpy as np

import ratecheck as rc
from experiments.affpcl.claims._chains import of_one_type
from experiments.affpcl.theory import ratio_estimation as estimate
from experiments.affpcl.theory.ratio_estimation import Coupling


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

EX2_MEAN = rc.Claim(
    id="affpcl.ex2_mean",
    source="AffPCL, Example 2, proof",
    text="E g^{i,rho}(eta) = Psibar^0 (eta - eta_*), however s^i and s^0 are coupled.",
    latex=r"\mathbb{E}g^{i,\rho}(\eta)=\bar\Psi^0(\eta-\eta_*^i)",
    kind="identity",
    space=COUPLINGS,
    measure=estimate.mean_residual,
)
EX2_MONOTONE = rc.Claim(
    id="affpcl.ex2_monotone",
    source="AffPCL, Example 2, proof",
    text="<E g^{i,rho}(eta), eta - eta_*> >= lambda_min(Psibar^0) ||eta - eta_*||^2.",
    latex=r"\langle\Delta\eta,\bar\Psi^0\Delta\eta\rangle\ge\lambda_{\min}(\bar\Psi^0)\|\Delta\eta\|^2",
    kind="lower",
    space=COUPLINGS,
    measure=estimate.monotone,
)
EX2_VAR = rc.Claim(
    id="affpcl.ex2_var",
    source="AffPCL, Example 2, proof",
    text="||psi|| <= 1: E ||g^{i,rho}(eta_*)||^2 <= 2 chi^2(mu^i, mu^0) + 8 P(s^i != s^0) <= 2 "
    "max rho^i ||mu^i - mu^0||_TV + 8 P(s^i != s^0).",
    latex=r"\mathbb{E}\|g^{i,\rho}(\eta_*)\|^2\le2\chi^2(\mu^i,\mu^0)+8P(s^i\ne s^0)"
    r"\le2\|\rho^i\|_\infty\|\mu^i-\mu^0\|_{\rm TV}+8P(s^i\ne s^0)",
    kind="upper",
    space=COUPLINGS,
    measure=estimate.variance,
    note="The second line of the proof prints rho^i(s^i) for rho^i(s^0). That the right side is "
    "O(delta_env) takes max rho^i = O(1); it is up to n in general.",
)
EX2_VAR_FIRST = rc.Claim(
    id="affpcl.ex2_var_first",
    source="AffPCL, Example 2, proof",
    text="||psi|| <= 1: E ||g^{i,rho}(eta_*)||^2 <= 2 chi^2(mu^i, mu^0) + 8 P(s^i != s^0).",
    latex=r"\mathbb{E}\|g^{i,\rho}(\eta_*)\|^2\le2\chi^2(\mu^i,\mu^0)+8P(s^i\ne s^0)",
    kind="upper",
    space=COUPLINGS,
    measure=estimate.variance_first,
)
EX2_COUPLING = rc.Claim(
    id="affpcl.ex2_coupling",
    source="AffPCL, Example 2",
    text="P(s^i != s^0) >= ||mu^i - mu^0||_TV.",
    latex=r"P(s^i=s^0)\le1-\|\mu^i-\mu^0\|_{\rm TV}",
    kind="lower",
    space=COUPLINGS,
    measure=estimate.agreement,
)
ASSUMP1 = rc.NotChecked(
    id="affpcl.assump1",
    source="AffPCL, Assumption 1",
    text="|rhohat^i - rho^i| = O(1) and E |rhohat^i - rho^i|^2 = O~((kappa^rho)^2 max{1/n, min{1, "
    "nu delta_cen^i}} / t).",
    latex=r"\mathbb{E}\|\hat\rho_t^i-\rho^i\|^2=\tilde O\big((\kappa^\rho)^2t^{-1}"
    r"\max\{n^{-1},\tilde\delta_{\rm cen}^i\}\big)",
    note="An assumption, without constants. rhohat = rho satisfies it, so it is not empty. "
    "Samples alone do not, unless kappa^rho grows with affinity: the risk is at least 1/(10 t) "
    "once t >= 1/(4 delta_env) (affpcl.thm2_sharp), so that (kappa^rho)^2 max{1/n, nu "
    "delta_cen^i} is bounded from below, up to logarithms, whatever n and delta are.",
)

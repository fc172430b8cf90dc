"""Appendix C.3 of AffPCL: the lower bound of density-ratio estimation, Theorem 2."""

from __future__ import annotations

from typing import Any

import numpy as np

import ratecheck as rc
from experiments.affpcl.claims._chains import of_one_type
from experiments.affpcl.theory import ratio_lower_bound as bound
from experiments.affpcl.theory.ratio_lower_bound import TwoPoint

# Hypotheses are determined by n, t, d and v = eps / sqrt(d); every v in [0, 1] makes distributions.
_NUMBERS = {
    "n": rc.whole_numbers(low=2, high=4),
    "t": rc.whole_numbers(low=1, high=4),
    "half": rc.whole_numbers(low=1, high=3),
}


def _points(*, n: Any, t: Any, half: Any, v: Any) -> TwoPoint:
    return TwoPoint(n=n, t=t, d=2 * half, v=v)


def _space(largest: float) -> rc.Space:
    return rc.Space(
        fields={**_NUMBERS, "v": rc.interval(high=largest)},
        repair=of_one_type,
        view=_points,
        batched=True,
        meaning={"half": "d / 2", "v": "eps / sqrt(d)"},
    )


ANY = _space(1.0)
#: eps <= sqrt(d) / 2
HALF = _space(0.5)

C3_SEPARATION = rc.Claim(
    id="affpcl.c3_separation",
    source="AffPCL, Appendix C.3",
    text="mu_m(s) = 1/d + d^{-3/2} eps (-1)^{s+m}, d even, eps <= sqrt(d): ||rho_1 - rho_2|| = 2 "
    "eps, and mu_m is a distribution (its entries and their absolute values sum to one).",
    latex=r"\|\rho_1-\rho_2\|_2=2\epsilon,\quad\mu_m\in\Delta(\mathcal{S})",
    kind="identity",
    space=ANY,
    measure=bound.separation,
)
C3_TV = rc.Claim(
    id="affpcl.c3_tv",
    source="AffPCL, Appendix C.3",
    text="||mu_m - mu^0||_TV = eps / (2 sqrt(d)).",
    latex=r"\|\mu_m-\mu^0\|_{\rm TV}=\frac{\epsilon}{2\sqrt d}",
    kind="identity",
    space=ANY,
    measure=bound.distance_to_centre,
)
C3_LECAM = rc.Claim(
    id="affpcl.c3_lecam",
    source="AffPCL, Appendix C.3, equation (10)",
    text="The Bayes risk of t pairs (s^i, s^0) under a fair choice of mu_1 or mu_2, which bounds "
    "R* from below, is at least eps^2 (1 - ||P_1 - P_2||_TV) / (2 d).",
    latex=r"R^*\ge\frac{\epsilon^2}{2d}(1-\|P_1-P_2\|_{\rm TV})",
    kind="distributional",
    space=ANY,
    measure=bound.le_cam,
    note="Loose by a factor of two: the Bayes risk is eps^2/d times E[1 - E[sign | data]^2], "
    "which is at least 1 - TV.",
)
C3_H1 = rc.Claim(
    id="affpcl.c3_H1",
    source="AffPCL, Appendix C.3",
    text="eps <= sqrt(d)/2: H_1 = D_KL(mu_1 || mu_2) <= chi^2(mu_1 || mu_2) <= 8 eps^2 / d.",
    latex=r"H_1\le\chi^2(\mu_1\|\mu_2)\le8\epsilon^2/d",
    kind="upper",
    space=HALF,
    measure=bound.own_divergence,
)
C3_MUP = rc.Claim(
    id="affpcl.c3_mup",
    source="AffPCL, Appendix C.3",
    text="eps <= sqrt(d)/2, n >= 2: mu'_2(s) >= 1/(2 d).",
    latex=r"\mu_2'(s)\ge\frac1{2d}",
    kind="lower",
    space=HALF,
    measure=bound.others_floor,
)
C3_MUP_GAP = rc.Claim(
    id="affpcl.c3_mup_gap",
    source="AffPCL, Appendix C.3",
    text="(mu'_1 - mu'_2)^2 = 4 d^{-3} eps^2 / (n - 1)^2 on every state.",
    latex=r"(\mu_1'-\mu_2')^2=\frac{4d^{-3}\epsilon^2}{(n-1)^2}",
    kind="identity",
    space=HALF,
    measure=bound.others_gap,
)
C3_H2 = rc.Claim(
    id="affpcl.c3_H2",
    source="AffPCL, Appendix C.3",
    text="eps <= sqrt(d)/2, n >= 2: H_2 <= 8 eps^2 / (d n (n - 1)) <= 4 eps^2 / d.",
    latex=r"H_2\le\frac{8\epsilon^2}{dn(n-1)}\le\frac{4\epsilon^2}d",
    kind="upper",
    space=HALF,
    measure=bound.pair_divergence,
    note="H_2 is what one sample s^0 of the average adds to s^i, not what all other agents add; "
    "see affpcl.c3_kl_data.",
)
C3_KL = rc.Claim(
    id="affpcl.c3_kl",
    source="AffPCL, Appendix C.3, equation (11)",
    text="D_KL(P_1 || P_2) = t (H_1 + H_2) for the laws P_m of t pairs (s^i, s^0).",
    latex=r"D_{\rm KL}(P_1\|P_2)=t(H_1+H_2)",
    kind="identity",
    space=HALF,
    measure=bound.chain_rule,
)
C3_KL_TV = rc.Claim(
    id="affpcl.c3_kl_tv",
    source="AffPCL, Appendix C.3, after equation (11)",
    text="eps <= sqrt(d)/2: ||P_1 - P_2||_TV <= eps sqrt(6 t / d), for t pairs, and for t samples "
    "of each of the n agents as well.",
    latex=r"\|P_1-P_2\|_{\rm TV}\le\epsilon\sqrt{6t/d}",
    kind="upper",
    space=HALF,
    measure=bound.total_variation_bound,
    note="For all samples (11) has to be replaced, but the bound stands: H_1 and (n - 1) "
    "D_KL(mu'_1 || mu'_2) are f(v) and (n - 1) f(v / (n - 1)) with f(v) = v ln((1 + v)/(1 - v)) "
    "<= 2.2 v^2 for v <= 1/2, so that D_KL <= 4.4 t v^2 and TV <= v sqrt(2.2 t).",
)
C3_KL_DATA = rc.Claim(
    id="affpcl.c3_kl_data",
    source="AffPCL, Appendix C.3, equation (11), for Theorem 2's data",
    text="D_KL(P_1 || P_2) = t (H_1 + H_2) for the laws P_m of t samples of each of the n agents.",
    latex=r"D_{\rm KL}(P_1\|P_2)=t(H_1+H_2)",
    kind="identity",
    space=HALF,
    measure=bound.chain_rule_of_data,
    expect="violated",
    note="Theorem 2 grants estimators all n t samples, the proof only t pairs of s^i and one "
    "sample s^0 of an agent drawn by lot: data processing, so that its divergence is too small. "
    "With n = 2, d = 2, t = 1, eps = sqrt(d)/2 the data have 1.099 and the pairs 0.740. All "
    "others tell up to 8 eps^2/(d (n - 1)) by the proof's own chi^2 bound, 8 eps^2/d instead of 4 "
    "eps^2/d for n = 2. The constants of (12) have room for that (affpcl.c3_kl_tv, "
    "affpcl.c3_eq12).",
    corrected="affpcl.c3_kl_data_corrected",
)
C3_KL_DATA_CORRECTED = rc.Claim(
    id="affpcl.c3_kl_data_corrected",
    source="AffPCL, Appendix C.3, equation (11), corrected",
    text="D_KL(P_1 || P_2) = t (H_1 + (n - 1) D_KL(mu'_1 || mu'_2)) for t samples of each of n "
    "agents, all others having mu'_m.",
    latex=r"D_{\rm KL}(P_1\|P_2)=t\big(H_1+(n-1)D_{\rm KL}(\mu_1'\|\mu_2')\big)",
    kind="identity",
    space=HALF,
    measure=bound.chain_rule_of_data_corrected,
    derivation="Samples are independent over agents and time, and divergences of products add.",
)
C3_EQ12 = rc.Claim(
    id="affpcl.c3_eq12",
    source="AffPCL, Appendix C.3, equation (12)",
    text="eps <= sqrt(d)/2: the Bayes risk of t samples of each of the n agents is at least eps^2 "
    "(1 - eps sqrt(6 t / d)) / (2 d).",
    latex=r"R^*\ge\frac{\epsilon^2}{2d}\Big(1-\epsilon\sqrt{\frac{6t}d}\Big)",
    kind="distributional",
    space=HALF,
    measure=bound.equation_12,
)

# The two cases. delta_env is on the stated side of 1 / (4 sqrt(6 t)) by construction.
_CASES = {
    "n": rc.whole_numbers(low=2, high=50),
    "t": rc.whole_numbers(low=1, high=1000),
    "half": rc.whole_numbers(low=1, high=3),
    "part": rc.positive(low=0.001, high=1.0),
}
CASES = rc.Space(
    fields=_CASES,
    repair=of_one_type,
    batched=True,
    meaning={
        "half": "d / 2",
        "part": "where delta_env lies between the ends of its case, from 0 to 1",
    },
)


def _threshold(s: Any) -> Any:
    return 1 / (4 * np.sqrt(6 * s.t))


def _case_1(s: Any, factor: Any) -> Any:
    delta = s.part * _threshold(s)
    tau = factor * delta
    return bound.reaches(TwoPoint(s.n, s.t, 2 * s.half, 2 * tau), tau**2, delta)


def _case_2(s: Any, factor: Any) -> Any:
    lowest = _threshold(s) / factor
    points = TwoPoint(s.n, s.t, 2 * s.half, 2 * _threshold(s))
    return bound.reaches(points, 1 / (96 * s.t), lowest + s.part * (1 - lowest))


_FEASIBLE = (
    "The proof takes ||mu_m - mu^0||_TV <= delta_env for feasible, but Definition 2 asks for "
    "||mu^i - mu^j||_TV <= delta_env, and here max_ij ||mu^i - mu^j||_TV is at least n / (n - 1) "
    "times ||mu_m - mu^0||_TV: twice for n = 2. "
)
C3_CASE1 = rc.Claim(
    id="affpcl.c3_case1",
    source="AffPCL, Appendix C.3, first case",
    text="delta_env <= 1/(4 sqrt(6 t)), eps = 2 delta_env sqrt(d): the right side of (12) is at "
    "least delta_env^2, and the agents' environments are delta_env close.",
    latex=r"2\delta_{\rm env}^2(1-2\delta_{\rm env}\sqrt{6t})\ge\delta_{\rm env}^2,\quad"
    r"\max_{ij}\|\mu^i-\mu^j\|_{\rm TV}\le\delta_{\rm env}",
    kind="lower",
    space=CASES,
    measure=lambda s: _case_1(s, 1),
    expect="violated",
    note=_FEASIBLE
    + "So the case proves (1 - 1/n)^2 delta_env^2 only. Theorem 2 survives through other "
    "hypotheses (affpcl.thm2).",
    corrected="affpcl.c3_case1_corrected",
)
C3_CASE1_CORRECTED = rc.Claim(
    id="affpcl.c3_case1_corrected",
    source="AffPCL, Appendix C.3, first case, corrected",
    text="tau = (1 - 1/n) delta_env, delta_env <= 1/(4 sqrt(6 t)), eps = 2 tau sqrt(d): the right "
    "side of (12) is at least tau^2, and the agents' environments are delta_env close.",
    latex=r"R^*\ge(1-\tfrac1n)^2\delta_{\rm env}^2",
    kind="lower",
    space=CASES,
    measure=lambda s: _case_1(s, 1 - 1 / s.n),
    derivation="||mu_m - mu^0||_TV = tau, so that ||mu_m - mu'_m||_TV = tau n/(n - 1) = "
    "delta_env, and 2 tau sqrt(6 t) <= 1/2.",
)
C3_CASE2 = rc.Claim(
    id="affpcl.c3_case2",
    source="AffPCL, Appendix C.3, second case",
    text="delta_env > 1/(4 sqrt(6 t)), eps = sqrt(d/(6 t))/2: the right side of (12) is at least "
    "1/(96 t), and the agents' environments are delta_env close.",
    latex=r"\frac{\epsilon^2}{2d}\Big(1-\epsilon\sqrt{\frac{6t}d}\Big)\ge\frac1{96t},\quad"
    r"\max_{ij}\|\mu^i-\mu^j\|_{\rm TV}\le\delta_{\rm env}",
    kind="lower",
    space=CASES,
    measure=lambda s: _case_2(s, 1),
    expect="violated",
    note=_FEASIBLE + "The case needs (1 - 1/n) delta_env >= 1/(4 sqrt(6 t)). Theorem 2 survives "
    "(affpcl.thm2).",
    corrected="affpcl.c3_case2_corrected",
)
C3_CASE2_CORRECTED = rc.Claim(
    id="affpcl.c3_case2_corrected",
    source="AffPCL, Appendix C.3, second case, corrected",
    text="(1 - 1/n) delta_env >= 1/(4 sqrt(6 t)), eps = sqrt(d/(6 t))/2: the right side of (12) "
    "is at least 1/(96 t), and the agents' environments are delta_env close.",
    latex=r"(1-\tfrac1n)\delta_{\rm env}\ge\frac1{4\sqrt{6t}}\;\Rightarrow\;R^*\ge\frac1{96t}",
    kind="lower",
    space=CASES,
    measure=lambda s: _case_2(s, 1 - 1 / s.n),
    derivation="||mu_m - mu'_m||_TV = n/(n - 1) ||mu_m - mu^0||_TV = n/(n - 1) / (4 sqrt(6 t)).",
)

SAMPLES = rc.Space(
    fields={
        "n": rc.whole_numbers(low=2, high=4),
        "t": rc.whole_numbers(low=1, high=8),
        "delta": rc.positive(low=0.001, high=1.0),
    },
    repair=of_one_type,
    batched=True,
    meaning={"delta": "delta_env"},
)
THM2 = rc.Claim(
    id="affpcl.thm2",
    source="AffPCL, Theorem 2",
    text="For some systems with max_ij ||mu^i - mu^j||_TV <= delta_env, no estimator that sees t "
    "samples of each of the n agents has a worst risk below min{1/(96 t), delta_env^2}: the Bayes "
    "risk of two hypotheses is at least that.",
    latex=r"\inf_{\hat\rho_t^i}\mathbb{E}_{\mu^0}|\hat\rho_t^i(s)-\rho^i(s)|^2"
    r"\ge\min\{(96t)^{-1},\delta_{\rm env}^2\}",
    kind="distributional",
    space=SAMPLES,
    measure=lambda s: (
        bound.rare_risk(s.n, s.t, s.delta),
        bound.stated_bound(s.t, s.delta),
    ),
    note="Read as a minimax bound: for one fixed system the estimator that returns rho^i has risk "
    "0. The proof's own hypotheses do not reach the bound for n = 2 (affpcl.thm2_proof); rare "
    "states reach more than it (affpcl.thm2_sharp).",
)
THM2_PROOF = rc.Claim(
    id="affpcl.thm2_proof",
    source="AffPCL, Theorem 2, with the hypotheses of Appendix C.3 only",
    text="The largest Bayes risk of the hypotheses mu_m of Appendix C.3 under Definition 2 is at "
    "least min{1/(96 t), delta_env^2}.",
    latex=r"\max_{\epsilon:\,\max_{ij}\|\mu^i-\mu^j\|_{\rm TV}\le\delta_{\rm env}}"
    r"R_{\rm Bayes}(\epsilon)"
    r"\ge\min\{(96t)^{-1},\delta_{\rm env}^2\}",
    kind="distributional",
    space=SAMPLES,
    measure=lambda s: (
        bound.risk_of_proof(s.n, s.t, s.delta),
        bound.stated_bound(s.t, s.delta),
    ),
    expect="violated",
    note="For n = 2 Definition 2 leaves ||mu_m - mu^0||_TV <= delta_env / 2, and then the risk is "
    "delta_env^2 times E[1 - E[sign | data]^2] < 1: 0.00980 < 0.01 for t = 1, delta_env = 0.1, "
    "and up to 2 % less than delta_env^2 where both terms of the minimum meet. For n >= 3 there "
    "is room.",
    corrected="affpcl.thm2",
)
THM2_SHARP = rc.Claim(
    id="affpcl.thm2_sharp",
    source="AffPCL, Theorem 2, sharpened",
    text="For n >= 2 and some systems with max_ij ||mu^i - mu^j||_TV <= delta_env no estimator "
    "has a worst risk below min{1/(10 t), (2/5) delta_env}.",
    latex=r"\ge\min\{(10t)^{-1},\tfrac25\delta_{\rm env}\}",
    kind="distributional",
    space=SAMPLES,
    measure=lambda s: (
        bound.rare_risk(s.n, s.t, s.delta),
        np.minimum(1 / (10 * s.t), 2 * s.delta / 5),
    ),
    derivation="Two states have mass q each under mu^0 and mu^i has 2 q in one of them, q = "
    "min{(1 - 1/n) delta_env, 1/(8 t)}; the others share the rest, so that max_ij ||mu^i - "
    "mu^j||_TV = q n/(n - 1) <= delta_env. The risk is 2 q (1 - 2 q)^t U, where U >= (sum "
    "sqrt(p_1 p_2))^2 = (1 - 2 q (1 - sqrt(1 - (n - 1)^{-2})))^{2 (n - 1) t} >= (1 - 2 q)^{2 t/(n "
    "- 1)} is what the others leave open. So it is at least 2 q (1 - 2 q)^{3 t} >= 2 q (3/4)^3, "
    "with 2 q >= delta_env or 2 q = 1/(4 t). As 2/5 delta_env >= delta_env^2 where the minimum is "
    "in its second term, Theorem 2 follows.",
)

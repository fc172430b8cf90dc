"""Appendix D of AffPCL: affinities (Lemmas D.1 to D.3) and Lyapunov recursions (D.4, D.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from experiments.audit import (
    Claim,
    RateClaim,
    Regime,
    Space,
    interval,
    positive,
    reals,
    simplex,
    whole_numbers,
)
from experiments.audit._fields import Field
from experiments.claims.affpcl._spaces import ASSUMES, SYSTEMS
from linsys.theory import FiniteStack, affinity, lyapunov

# The reading of G_x in Section 1.2, without x_*^c, differs from that of Appendix C.6 where the
# agents' Abar^i cancel each other in their mean, which takes d >= 2. Here they can: A(s) acts on
# the plane like a complex number.


def _turning(*, damping: Any, turn: Any, **fields: Any) -> FiniteStack:
    """A(s) = damping I + turn(s) J with a quarter turn J, and Phi(s) = I; a stack with d = 2."""
    identity, quarter = np.eye(2, dtype=int), np.array([[0, -1], [1, 0]])
    A = damping[:, None, None, None] * identity + turn[..., None, None] * quarter
    Phi = (1 + 0 * turn)[..., None, None] * identity
    return FiniteStack(A=A, Phi=Phi, **fields)


TURNING: Mapping[str, Field] = {
    "mu": simplex("n", "S"),
    "damping": positive(low=0.001, high=1.0),
    "turn": interval("S", low=-1.0),
    "theta": reals("n", 2),
}


def turning(extra: Mapping[str, Field] | None = None) -> Space:
    """Systems of damped turns in the plane, which satisfy the standing assumptions."""
    return Space(
        fields={**TURNING, **(extra or {})},
        sizes={"S": (2, 4), "n": (2, 4)},
        view=_turning,
        assumes=ASSUMES,
        batched=True,
    )


# Lemma D.1.

D1A = Claim(
    id="affpcl.d1a",
    source="AffPCL, Lemma D.1 (a)",
    text="||b^i(s) - b^j(s)|| <= 2 G_b delta_obj for i, j in [n]^0 and all s.",
    latex=r"\|b^i(s)-b^j(s)\|\le2G_b\delta_{\rm obj},\quad i,j\in[n]^0",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1a,
)
D1B = Claim(
    id="affpcl.d1b",
    source="AffPCL, Lemma D.1 (b)",
    text="||b^i(s) - b^0(s)|| <= 2 G_b delta_obj^i for all s.",
    latex=r"\|b^i(s)-b^0(s)\|\le2G_b\delta_{\rm obj}^i",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1b,
)
D1C = Claim(
    id="affpcl.d1c",
    source="AffPCL, Lemma D.1 (c)",
    text="||bbar^i - bbar^j|| <= 2 G_b (delta_env + delta_obj) for i, j in [n]^0.",
    latex=r"\|\bar b^i-\bar b^j\|\le2G_b(\delta_{\rm env}+\delta_{\rm obj}),\quad i,j\in[n]^0",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1c,
)
D1D = Claim(
    id="affpcl.d1d",
    source="AffPCL, Lemma D.1 (d)",
    text="||bbar^i - bbar^0|| and 2 G_b delta_cen^i are at most 2 G_b min{1, delta_env^i + "
    "delta_obj, delta_env + delta_obj^i}.",
    latex=r"\|\bar b^i-\bar b^0\|\le2G_b\delta_{\rm cen}^i\le2G_b\min\{1,\delta_{\rm env}^i+"
    r"\delta_{\rm obj},\delta_{\rm env}+\delta_{\rm obj}^i\}",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1d,
)
D1E = Claim(
    id="affpcl.d1e",
    source="AffPCL, Lemma D.1 (e)",
    text="||E_{mu^j}[b^i - b^c]|| <= 2 sigma delta_cen^i for j = i and j = 0.",
    latex=r"\|\mathbb{E}_{\mu^j}[b^i(s)-b^c(s)]\|\le2\sigma\delta_{\rm cen}^i,\quad j\in\{0,i\}",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1e,
)
D1F = Claim(
    id="affpcl.d1f",
    source="AffPCL, Lemma D.1 (f)",
    text="||theta_*^i - theta_*^c|| <= 2 sigma (delta_env + delta_obj) / lambda, with lambda the "
    "least over all Abar^i and Phibar^i.",
    latex=r"\|\theta_*^i-\theta_*^c\|\le2\lambda^{-1}\sigma(\delta_{\rm env}+\delta_{\rm obj})",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1f,
)
D1F_SEC12 = Claim(
    id="affpcl.d1f_sec12",
    source="AffPCL, Lemma D.1 (f), with Section 1.2's lambda",
    text="The same with lambda = min_i lambda_min(sym Abar^i).",
    latex=r"\|\theta_*^i-\theta_*^c\|\le2\lambda_A^{-1}\sigma(\delta_{\rm env}+\delta_{\rm obj})",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1f_without_phi,
    expect="violated",
    note="The proof inverts Phibar^0, of which Section 1.2's lambda knows nothing. A = 10, Phi = "
    "1/10, theta = +-1 in one environment: 1 against 2/10 * 2 * 1 = 0.4. The lemma's own lambda, "
    "introduced in its proof, includes Phi; the printed statement is safe with it.",
    corrected="affpcl.d1f",
)
D1F_SHARPER = Claim(
    id="affpcl.d1f_sharper",
    source="AffPCL, Lemma D.1 (f), sharpened",
    text="||theta_*^i - theta_*^c|| <= (1 - 1/n) 2 G_b delta_obj / lambda^b; no delta_env.",
    latex=r"\|\theta_*^i-\theta_*^c\|\le(1-\tfrac1n)(\lambda^b)^{-1}\,2G_b\,\delta_{\rm obj}",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1f_sharper,
    derivation="Phibar^0 theta_*^c = (1/n) sum_j Phibar^j theta^j, hence Phibar^0 (theta^i - "
    "theta_*^c) = (1/n) sum_j Phibar^j (theta^i - theta^j). The term j = i is zero, the others "
    "are at most ||theta^i - theta^j|| <= 2 G_b delta_obj, and ||(Phibar^0)^{-1}|| <= "
    "1/lambda^b. 2 G_b <= sigma and lambda <= lambda^b give (f) with a quarter of its constant "
    "or less.",
)
D1G = Claim(
    id="affpcl.d1g",
    source="AffPCL, Lemma D.1 (g)",
    text="||Abar^i - Abar^j|| <= 2 G_A delta_env for i, j in [n]^0.",
    latex=r"\|\bar A^i-\bar A^j\|\le2G_A\delta_{\rm env},\quad i,j\in[n]^0",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1g,
)
D1H = Claim(
    id="affpcl.d1h",
    source="AffPCL, Lemma D.1 (h)",
    text="||Abar^i - Abar^0|| <= 2 G_A delta_env^i.",
    latex=r"\|\bar A^i-\bar A^0\|\le2G_A\delta_{\rm env}^i",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1h,
)
D1I = Claim(
    id="affpcl.d1i",
    source="AffPCL, Lemma D.1 (i)",
    text="||E_{mu^j}[A(s)(x_*^i - x_*^c)]|| <= 2 sigma delta_cen^i for j = i and j = 0, with "
    "x_*^c in G_x.",
    latex=r"\|\mathbb{E}_{\mu^j}[A(s)(x_*^i-x_*^c)]\|\le2\sigma\delta_{\rm cen}^i,"
    r"\quad j\in\{0,i\}",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1i,
)
D1I_SEC12 = Claim(
    id="affpcl.d1i_sec12",
    source="AffPCL, Lemma D.1 (i), with Section 1.2's G_x",
    text="The same with G_x = max_i ||x_*^i||.",
    latex=r"\|\mathbb{E}_{\mu^j}[A(s)(x_*^i-x_*^c)]\|\le2\sigma\delta_{\rm cen}^i,"
    r"\quad G_x=\max_i\|x_*^i\|",
    kind="upper",
    space=turning(),
    measure=affinity.d1i_agents,
    expect="violated",
    note="The proof bounds (Abar^i - Abar^0) x_*^c by 2 G_A delta_env^i G_x, so G_x has to "
    "contain ||x_*^c||, which d >= 2 lets exceed every ||x_*^i||. Two agents with a state each, "
    "A = I/10 -+ J (J a quarter turn), Phi = I, theta = 0 and (0, 1): ||x_*^i|| < 1, x_*^c = (0, "
    "5), and the left side is 5.02 against 2. Appendix C.6 has the G_x that is needed.",
    corrected="affpcl.d1i",
)
D1J = Claim(
    id="affpcl.d1j",
    source="AffPCL, Lemma D.1 (j)",
    text="||x_*^i - x_*^c|| <= 2 sigma (delta_env + delta_obj) / lambda.",
    latex=r"\|x_*^i-x_*^c\|\le2\lambda^{-1}\sigma(\delta_{\rm env}+\delta_{\rm obj})",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1j,
)
D1J_SHARPER = Claim(
    id="affpcl.d1j_sharper",
    source="AffPCL, Lemma D.1 (j), sharpened",
    text="||x_*^i - x_*^c|| <= (1 - 1/n) sigma (2 delta_env + delta_obj) / lambda^c, with "
    "Section 1.2's G_x in sigma.",
    latex=r"\|x_*^i-x_*^c\|\le(1-\tfrac1n)(\lambda^c)^{-1}\sigma(2\delta_{\rm env}+"
    r"\delta_{\rm obj})",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d1j_sharper,
    derivation="Abar^0 (x_*^i - x_*^c) = (1/n) sum_j [(Abar^j - Abar^i) x_*^i + bbar^i - "
    "bbar^j]. The term j = i is zero; by (g) and (c) the others are at most 2 G_A G_x delta_env "
    "+ 2 G_b (delta_env + delta_obj) <= sigma (2 delta_env + delta_obj). Only x_*^i occurs.",
)

# Lemma D.2.

D2_A = Claim(
    id="affpcl.d2_A",
    source="AffPCL, Lemma D.2, first half",
    text="E_{mu^i}||A(s)(x_*^i - x_*^c)||^2 <= 2 sigma^2 min{1, nu delta_cen^i}, with x_*^c in "
    "G_x.",
    latex=r"\mathbb{E}_{\mu^i}\|A(s)(x_*^i-x_*^c)\|^2\le2\sigma^2\min\{1,\nu\delta_{\rm cen}^i\}",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d2_A,
)
D2_A_SEC12 = Claim(
    id="affpcl.d2_A_sec12",
    source="AffPCL, Lemma D.2, first half, with Section 1.2's G_x",
    text="The same with G_x = max_i ||x_*^i||.",
    latex=r"\mathbb{E}_{\mu^i}\|A(s)(x_*^i-x_*^c)\|^2\le2\sigma^2\min\{1,\nu\delta_{\rm cen}^i\},"
    r"\quad G_x=\max_i\|x_*^i\|",
    kind="upper",
    space=turning(),
    measure=affinity.d2_A_agents,
    expect="violated",
    note="The proof uses ||x_*^i - x_*^c|| <= 2 G_x. In the counterexample to (i) the left side "
    "is 25.25 against 4; with A = e I -+ J it grows like 1/e^2 while the bound stays. Lemma G.3 "
    "and so Theorem 1 need x_*^c in the G_x of sigma as well.",
    corrected="affpcl.d2_A",
)
D2_A_SHARPER = Claim(
    id="affpcl.d2_A_sharper",
    source="AffPCL, Lemma D.2, first half, sharpened",
    text="E_{mu^i}||A(s)(x_*^i - x_*^c)||^2 <= sigma^2 min{1, 2 nu^i delta_cen^i}.",
    latex=r"\mathbb{E}_{\mu^i}\|A(s)(x_*^i-x_*^c)\|^2\le\sigma^2\min\{1,2\nu^i"
    r"\delta_{\rm cen}^i\}",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d2_A_sharper,
    derivation="The paper's two bounds before they are merged: (2 G_A G_x)^2 <= sigma^2, and 2 "
    "G_A G_x ||Dbar^i (Abar^i)^{-1}|| 2 sigma delta_cen^i, in which only agent i's own nu "
    "occurs.",
)
D2_PHI = Claim(
    id="affpcl.d2_Phi",
    source="AffPCL, Lemma D.2, second half",
    text="E_{mu^i}||Phi(s)(theta_*^i - theta_*^c)||^2 <= 2 sigma^2 min{1, nu delta_cen^i}.",
    latex=r"\mathbb{E}_{\mu^i}\|\Phi(s)(\theta_*^i-\theta_*^c)\|^2\le2\sigma^2"
    r"\min\{1,\nu\delta_{\rm cen}^i\}",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d2_Phi,
    expect="violated",
    note="The proof, 'similarly', puts Phi in the place of A, hence in Definition 3 as well, "
    "while nu there is that of A. A = I has nu = 1; Phi a rotation by +-phi with cos(phi) = "
    "0.05, each with probability 1/2, theta = +-(1, 0): 1 against 8 * 0.025 = 0.2. Lemma G.3, "
    "and so Theorem 1, need the larger one of nu of A and nu of Phi (here 20) in the effective "
    "affinity.",
    corrected="affpcl.d2_Phi_corrected",
)
D2_PHI_CORRECTED = Claim(
    id="affpcl.d2_Phi_corrected",
    source="AffPCL, Lemma D.2, second half, corrected",
    text="E_{mu^i}||Phi(s)(theta_*^i - theta_*^c)||^2 <= 2 sigma^2 min{1, nu_Phi delta_cen^i}, "
    "nu_Phi = max_i ||E_{mu^i} sqrt(Phi' Phi) (Phibar^i)^{-1}||.",
    latex=r"\mathbb{E}_{\mu^i}\|\Phi(s)(\theta_*^i-\theta_*^c)\|^2\le2\sigma^2"
    r"\min\{1,\nu_\Phi\delta_{\rm cen}^i\}",
    kind="upper",
    space=SYSTEMS,
    measure=affinity.d2_Phi_own_nu,
    derivation="With v = theta^i - theta_*^c, ||v|| <= 2 G_b, and D = sqrt(Phi' Phi) <= I: "
    "E||Phi v||^2 <= ||v|| ||Dbar v|| <= 2 G_b nu_Phi ||Phibar^i v|| <= 2 G_b nu_Phi 2 sigma "
    "delta_cen^i by (e), and 2 G_b <= sigma. On the other hand E||Phi v||^2 <= (2 G_b)^2 <= "
    "sigma^2.",
)

# Lemma D.3.


def _pair(mu: Any, rest: Any, share: Any) -> SimpleNamespace:
    """mu and mu' = share mu + (1 - share) rest: any mu' that is positive where mu is."""
    mixed = share[:, None] * mu + (1 - share[:, None]) * rest
    return SimpleNamespace(mu=mu, other=mixed)


D3 = Claim(
    id="affpcl.d3",
    source="AffPCL, Lemma D.3",
    text="chi^2(mu, mu') <= max{||mu/mu'||_inf, 1} ||mu - mu'||_TV.",
    latex=r"\chi^2(\mu,\mu')\le\max\{\|\mu/\mu'\|_\infty,1\}\|\mu-\mu'\|_{\rm TV}",
    kind="upper",
    space=Space(
        fields={"mu": simplex("S"), "rest": simplex("S"), "share": positive(low=1e-4, high=1.0)},
        sizes={"S": (1, 5)},
        view=_pair,
        batched=True,
    ),
    measure=lambda pair: affinity.d3(pair.mu, pair.other),
)

# Lemma D.4.

D4 = Claim(
    id="affpcl.d4",
    source="AffPCL, Lemma D.4",
    text="One-step inequalities with alpha^k lambda^k = alpha < 1 give L_{t+1} <= (1 - alpha) "
    "L_t + alpha^2 sum_k w^k C^k / (lambda^k)^2 for L_t = sum_k w^k E||Delta z_t^k||^2.",
    latex=r"\mathcal{L}_{t+1}\le(1-\alpha_t)\mathcal{L}_t+\alpha_t^2\sum_kw^kC^k(\lambda^k)^{-2}",
    kind="upper",
    space=Space(
        fields={
            "z": interval("K", high=10.0),
            "alpha": interval(low=0.001, high=0.999),
            "lam": positive("K"),
            "C": interval("K", high=10.0),
            "coupling": interval("K", "K", high=10.0),
        },
        sizes={"K": (1, 4)},
        given={"right-hand sides >= 0": lambda s: lyapunov.coupled_step(**vars(s)) >= 0},
        batched=True,
    ),
    measure=lambda s: lyapunov.d4(**vars(s)),
    note="The left side of the printed hypothesis has t for t + 1. Beyond alpha = 2/3 its factor "
    "1 - (3/2) alpha is negative; only steps with right-hand sides >= 0 can occur.",
)

# Lemma D.5.

D5_CONST = Claim(
    id="affpcl.d5_const",
    source="AffPCL, Lemma D.5, constant step",
    text="With alpha = ln t / t, L_t <= (L_0 + C ln t) / t for all t >= 1.",
    latex=r"\mathcal{L}_t\le\frac{\mathcal{L}_0+C\ln t}{t}",
    kind="upper",
    space=Space(
        fields={
            "L0": interval(high=10.0),
            "C": interval(high=10.0),
            "t": whole_numbers(low=1, high=1000),
        },
        batched=True,
    ),
    measure=lambda s: lyapunov.d5_const(**vars(s)),
    note="ln t / t is at most 1/e, so 1 - alpha stays positive. The lemma's O(C ln t / t) leaves "
    "out L_0 / t; at t = 1 the step is zero and L_1 = L_0, which C ln t = 0 does not bound.",
)


def _diminishing_regimes() -> Sequence[Regime]:
    """Slopes of Ltilde_t between t and 2 t, without and with a start that has to be forgotten."""
    times = np.array([2500.0, 5000.0, 10_000.0])
    found = []
    for name, L0, t0 in (("L_0 = 0, t0 = 3", 0.0, 3.0), ("L_0 = C, t0 = 15", 1.0, 15.0)):
        ones = np.ones_like(times)
        values = lyapunov.diminishing_average(L0 * ones, ones, t0 * ones, times)
        slopes = np.diff(np.log(values)) / np.diff(np.log(times))
        low, high = float(slopes.min()), float(slopes.max())
        found.append(Regime(name, "t", -1.0, float(slopes[-1]), low, high))
    return found


D5_DIM = RateClaim(
    id="affpcl.d5_dim",
    source="AffPCL, Lemma D.5, diminishing step",
    text="With alpha_tau = 4/(tau + t0 + 1), the convex combination Ltilde_t is O(C / t).",
    latex=r"\tilde{\mathcal{L}}_t=O(C/t)",
    regimes=_diminishing_regimes,
    note="The limit of t Ltilde_t is (32/3) C. The start adds t0^2 L_0 / t^2, which is below C / "
    "t only once t > t0^2 L_0 / C.",
)

_DIMINISHING = Space(
    fields={
        "L0": interval(high=10.0),
        "C": interval(high=10.0),
        "t0": interval(low=3.0, high=40.0),
        "t": whole_numbers(low=1, high=200),
    },
    batched=True,
)
D5_DIM_EXPLICIT = Claim(
    id="affpcl.d5_dim_explicit",
    source="AffPCL, Lemma D.5, last display of the proof",
    text="With alpha_tau = 4/(tau + t0 + 1), Ltilde_t <= t0^2 L_0 / (2 t^2) + 8 C / t.",
    latex=r"\tilde{\mathcal{L}}_t\le\frac{t_0^2\mathcal{L}_0}{2t^2}+\frac{8C}{t}",
    kind="upper",
    space=_DIMINISHING,
    measure=lambda s: lyapunov.d5_dim_explicit(**vars(s)),
    expect="violated",
    note="The first display bounds L_tau / 2; the second puts this bound in the place of L_tau "
    "and loses a factor of two. With L_0 = 0, C = 1, t0 = 3 and t = 100, Ltilde_t = 0.0953 > "
    "0.08; in the limit t Ltilde_t = 32/3. The order O(C / t) and the theorems stand, with "
    "constants doubled. The space has t0 >= 3, where alpha_tau <= 1 and equality is the worst "
    "case.",
    corrected="affpcl.d5_dim_explicit_corrected",
)
D5_DIM_EXPLICIT_CORRECTED = Claim(
    id="affpcl.d5_dim_explicit_corrected",
    source="AffPCL, Lemma D.5, last display of the proof, corrected",
    text="With alpha_tau = 4/(tau + t0 + 1), Ltilde_t <= t0^2 L_0 / t^2 + 16 C / t.",
    latex=r"\tilde{\mathcal{L}}_t\le\frac{t_0^2\mathcal{L}_0}{t^2}+\frac{16C}{t}",
    kind="upper",
    space=_DIMINISHING,
    measure=lambda s: lyapunov.d5_dim_doubled(**vars(s)),
    derivation="With m = tau + t0, (m / 2) L_tau <= [(m-1) m L_tau - m (m+1) L_{tau+1}] / 4 + 4 "
    "C m / (m+1). Summing, and dividing by sum m / 2 = (t+1)(t+2 t0)/4, gives Ltilde_t <= [t0 "
    "(t0-1) L_0 + 16 C (t+1)] / ((t+1)(t+2 t0)). It uses the hypotheses linearly, so that t0 > 0 "
    "is enough for it.",
)
D5_DIM_EXPLICIT_SHARPER = Claim(
    id="affpcl.d5_dim_explicit_sharper",
    source="AffPCL, Lemma D.5, last display of the proof, sharpened",
    text="Ltilde_t <= t0 (t0-1) L_0 / ((t+1)(t+2 t0)) + (32/3) C / (t+2 t0) for t0 >= 3.",
    latex=r"\tilde{\mathcal{L}}_t\le\frac{t_0(t_0-1)\mathcal{L}_0}{(t+1)(t+2t_0)}+"
    r"\frac{32}{3}\,\frac{C}{t+2t_0},\quad t_0\ge3",
    kind="upper",
    space=_DIMINISHING,
    measure=lambda s: lyapunov.d5_dim_sharper(**vars(s)),
    derivation="P_m = m (m-1)(m-2)(m-3) turns the recursion into P_{m+1} L_{m+1} <= P_m L_m + 16 "
    "C m (m-1)(m-2)/(m+1), and m/(m+1) < 1 and sum (m-1)(m-2) = [(M-1)(M-2)(M-3)]/3 less its "
    "start give L_m <= P_{t0} L_0 / P_m + 16 C / (3 m). The average over m uses sum_{m >= t0} "
    "1/((m-1)(m-2)(m-3)) = 1/(2 (t0-2)(t0-3)). t0 = 3 is the limit t0 -> 3.",
)

"""FIRM, Appendix F: how the proof of Theorem 1 puts its pieces together."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from experiments.audit import Claim, Space, ball, interval, positive, reals, simplex, whole_numbers
from experiments.claims.firm._periods import PAIR, RESTARTED, period, printed
from experiments.claims.firm._spaces import clients, two_clients
from experiments.claims.firm.descent import SYNCHRONISED
from linsys.linalg import norm
from mgda.theory import ascent, assembly, paths
from mgda.theory.client_gradients import Printed
from mgda.theory.descent import Round
from mgda.theory.weights import smoothed

# The gradient error, (17).

EQ17 = Claim(
    id="firm.eq17",
    source="FIRM, equation (17)",
    text="E||(1/C) sum_c sum_j lambda_t^j (g^{j,c} - grad J^j)||^2 <= 12 zeta + (12/C) (r_max + 2 "
    "R_w)^2 (1 - rho + 4 kappa rho)/((1 - rho) B) + (12/C) sum_c max_j E||w_* - w||^2. Clients "
    "with one policy, lambda_t known before the step, independent states of d_pi, C_psi < 1.",
    latex=r"\mathbb E[\mathcal T^{\rm gradient-error}_{1,1}]\le12\zeta+\frac{12}C"
    r"\frac{(r_{\max}+2R_w)^2(1-\rho+4\kappa\rho)}{(1-\rho)B}+\frac{12}C\sum_c\max_j"
    r"\mathbb E\|w_*^{j,c}-w^{j,c}\|^2",
    kind="upper",
    space=printed({"lam": simplex("M"), "clients": whole_numbers(low=1, high=8)}),
    measure=lambda s: assembly.eq17(s.at, s.lam, s.known, s.clients, s.size),
    expect="violated",
    note="Lemma 4 is false: tabular critics (zeta = 0), w = w_* and B to infinity leave "
    "||sum_j lambda^j (Delta^j - grad J^j)||^2, which nothing on the right covers: Delta lacks "
    "the factor gamma/(1-gamma) of grad J and averages over d_pi, not over the discounted "
    "occupancy. C_psi = 1 is assumed silently. And (16) needs lambda_t to be known before step t, "
    "while F.1.2 and Lemma 10 take the clients' average, which is made of the gradients of step "
    "t: then all M noises have to be bounded at once, a factor M of the term in 1/(C B), see "
    "firm.eq16_corrected. As it stands the left side of Theorem 1 has an error that neither B nor "
    "features remove.",
    corrected="firm.eq17_corrected",
    main=True,
)
EQ17_CORRECTED = Claim(
    id="firm.eq17_corrected",
    source="FIRM, equation (17), corrected",
    text="For B independent restarted transitions and H = (1 - gamma) J/gamma: E||(1/C) sum_c "
    "sum_j lambda_t^j (g^{j,c} - grad H^j)||^2 <= C_psi^2 gamma max_j (sqrt(zeta^j) + ||w_*^j - "
    "w^j||)^2 + R^2/(C B). Clients with one policy, lambda_t known before the step.",
    latex=r"\mathbb E[\mathcal T^{\rm gradient-error}_{1,1}]\le C_\psi^2\gamma\max_j\big("
    r"\sqrt{\zeta^j}+\|w_*^j-w^j\|\big)^2+\frac{R^2}{CB}",
    kind="upper",
    space=RESTARTED,
    measure=lambda s: assembly.eq17_corrected(s.at, s.lam, s.clients, s.size),
    derivation="Bias and noise are orthogonal; firm.restarted_bias, and each client's variance is "
    "at most R^2/B, R = C_psi (r_max + (1 + gamma) radius). With lambda_t the clients' average "
    "noise and bias may be parallel: twice both, and M R^2/(C B).",
)

# The disagreement drift, (23) and (24).


def _paths(*, g: Any, **others: Any) -> paths.Paths:
    """Gradients of length at most R, the longest one."""
    return paths.Paths(g=g, R=norm(g).max(axis=(1, 2, 3, 4)), **others)


PATHS = Space(
    fields={
        "g": ball("N", "T", "C", "M", "d"),
        "p": simplex("N"),
        "start": simplex("M"),
        "eta": interval("T"),
        "beta": positive(low=0.001, high=10.0),
    },
    sizes={"N": (1, 2), "T": (1, 2), "C": (2, 2), "M": (1, 3), "d": (1, 2)},
    view=_paths,
    batched=True,
    meaning={
        "g": "gradients of N outcomes, T steps, C clients and M objectives, of length at most 1: "
        "all statements are unchanged by g -> c g, beta -> c^2 beta",
        "p": "probabilities of the outcomes",
        "start": "lambda_0",
    },
)

EQ23 = Claim(
    id="firm.eq23",
    source="FIRM, equation (23)",
    text="E drift_t <= (8 R^3 sqrt(M^3)/(beta C^2)) sum_{c,c'} sum_{i<=t} eta_i prod_{k>i} (1 - "
    "eta_k) max_j E||g_i^{j,c} - g_i^{j,c'}||, from one lambda_0.",
    latex=r"\mathbb E[\mathcal T^{\rm disagr-drift}_{1,1}]\le\frac{8R^3\sqrt{M^3}}{\beta C^2}"
    r"\sum_{c,c'}\sum_{i=1}^t\eta_i\prod_{k=i+1}^t(1-\eta_k)\max_j\mathbb E\|g_i^{j,c}-g_i^{j,c'}"
    r"\|",
    kind="upper",
    space=PATHS,
    measure=paths.eq23,
    note="Lemma 8 gives E max_j, not max_j E, which is less, by up to a factor M: the exchange is "
    "a slip. The statement is true all the same, with half of the constant, by another argument: "
    "firm.eq23_sharper.",
)
EQ23_SHARPER = Claim(
    id="firm.eq23_sharper",
    source="FIRM, equation (23), sharpened",
    text="E drift_t <= (4 R^3 sqrt(M)/(beta C^2)) sum_{c,c'} sum_{i<=t} eta_i prod_{k>i} (1 - "
    "eta_k) sum_j E||g_i^{j,c} - g_i^{j,c'}||; so half of (23) is enough.",
    latex=r"\mathbb E[\mathcal T^{\rm disagr-drift}_{1,1}]\le\frac{4R^3\sqrt M}{\beta C^2}"
    r"\sum_{c,c'}\sum_{i=1}^t\eta_i\prod_{k=i+1}^t(1-\eta_k)\sum_j\mathbb E\|g_i^{j,c}-g_i^{j,c'}"
    r"\|",
    kind="upper",
    space=PATHS,
    measure=paths.eq23_sharper,
    derivation="(20), (22) and firm.lemma1_frobenius: 2 R^2 sqrt(M) times 2 R/beta, and ||A - "
    "A'||_F <= sum_j ||g^j - g'^j||.",
)
LEMMA1_FROBENIUS = Claim(
    id="firm.lemma1_frobenius",
    source="FIRM, Lemmas 1 and 8, sharpened further",
    text="||lambda*^c - lambda*^c'||_2 <= (2 R/beta) (sum_j ||g^{j,c} - g^{j,c'}||^2)^{1/2}.",
    latex=r"\|\lambda^{*,c}-\lambda^{*,c'}\|_2\le\frac{2R}\beta\Big(\sum_j\|g^{j,c}-g^{j,c'}\|^2"
    r"\Big)^{1/2}",
    kind="upper",
    space=two_clients(),
    measure=lambda s: paths.lipschitz(s.A, s.other, s.beta, s.R),
    derivation="In the derivation of firm.lemma1_sharper, sum_j <d_j, y_j g + lambda_j Ay> <= "
    "||D||_F W and W <= 2 R/beta.",
)
DRIFT_OF_PAIRS = Claim(
    id="firm.drift_of_pairs",
    source="FIRM, equation (18), for pairs of clients",
    text="drift <= ((1 - 1/C)/(2 C^2)) sum_{c,c'} sum_j ||g^{j,c} - g^{j,c'}||^2, whatever the "
    "weights are.",
    latex=r"\mathcal T^{\rm disagr-drift}_{1,1}\le\frac{1-1/C}{2C^2}\sum_{c,c'}\sum_j"
    r"\|g^{j,c}-g^{j,c'}\|^2",
    kind="upper",
    space=clients({"lam": simplex("C", "M")}),
    measure=lambda s: paths.drift_of_pairs(s.g, s.lam),
    derivation="The vector is (1/(2 C^2)) sum_{c,c'} (A_c - A_c')(lambda^c - lambda^c'), C (C - 1) "
    "terms of length at most ||A_c - A_c'||_F sqrt(2). Attained: C = M = 2, both weights at "
    "corners, g^1 and g^2 apart by opposite vectors.",
)
EQ24 = Claim(
    id="firm.eq24",
    source="FIRM, equation (24)",
    text="E[drift_t | F_t] <= (8 R^3 M^{3/2}/beta) sum_{i<=t} eta_i prod_{k>i} (1 - eta_k) "
    "max_{j,c,c'} (4 sqrt(zeta) + 2 sqrt(.) + 2 sqrt(.) + 4 sqrt((r_max + R_w)^2 (1 - rho + 4 "
    "kappa rho)/((1 - rho) B)) + 4 L_J R a K). Here t = K = 2, exact tabular critics.",
    latex=r"\mathbb E[\mathcal T^{\rm disagr-drift}_{1,1}|\mathcal F_t]\le\frac{8R^3M^{3/2}}\beta"
    r"\sum_{i=1}^t\eta_i\prod_{k=i+1}^t(1-\eta_k)\Big(4\sqrt\zeta+\ldots+4\sqrt{\tfrac{(r_{\max}+"
    r"R_w)^2(1-\rho+4\kappa\rho)}{(1-\rho)B}}+4L_JRaK\Big)",
    kind="upper",
    space=replace(PAIR, sizes={**PAIR.sizes, "M": (2, 2)}),
    measure=lambda s: assembly.eq24(s.step, s.known, s.size),
    expect="violated",
    note="Lemma 9 fails for small gamma, see there. A second slip: Lemma 9 for step i is about "
    "E[.|F_i], (24) needs E[.|F_t] of gradients that F_t already contains. It is not needed, as "
    "firm.eq24_present has the gradients of step t alone. The counterexamples are remote (gamma "
    "near 1e-12, B near 2^100), for the factor 8 R^3 M^{3/2}/beta hides what Lemma 9 lacks at any "
    "usual value.",
    corrected="firm.eq24_present",
)
EQ24_PRESENT = Claim(
    id="firm.eq24_present",
    source="FIRM, equations (23) and (24), corrected",
    text="drift_t <= (4 R^3 M/(beta C^2)) (sum_{i<=t} eta_i prod_{k>i} (1 - eta_k)) sum_{c,c'} "
    "max_j ||g_t^{j,c} - g_t^{j,c'}||, for every outcome, hence given F_t.",
    latex=r"\mathcal T^{\rm disagr-drift}_{1,1}\le\frac{4R^3M}{\beta C^2}\Big(\sum_{i=1}^t\eta_i"
    r"\prod_{k=i+1}^t(1-\eta_k)\Big)\sum_{c,c'}\max_j\|g_t^{j,c}-g_t^{j,c'}\|",
    kind="upper",
    space=PATHS,
    measure=paths.present_gaps,
    derivation="The vector is (1/(2 C^2)) sum_{c,c'} (A_c - A_c')(lambda^c - lambda^c'); each term "
    "is at most x = gap ||lambda^c - lambda^c'||_1, gap = max_j ||g_t^{j,c} - g_t^{j,c'}||. x^2 <= "
    "2 gap (2 R) ||.||_1, and ||.||_1 <= sqrt(M) sum_i omega_i (2 R sqrt(M)/beta) 2 R by (22) and "
    "firm.lemma1_sharper; a quarter of the mean of x^2. firm.lemma9_corrected bounds E gap.",
)

# (25), (27) and (33).

EQ25 = Claim(
    id="firm.eq25",
    source="FIRM, equation (25)",
    text="E T_{1,1} <= (17) + (24). Here for M = 1, where lambda = 1 and nothing disagrees, and "
    "K = 1.",
    latex=r"\mathbb E[\mathcal T_{1,1}]\le12\zeta+\frac{12}C\frac{(r_{\max}+2R_w)^2(1-\rho+4\kappa"
    r"\rho)}{(1-\rho)B}+\frac{12}C\sum_c\max_j\mathbb E\|w_*^{j,c}-w^{j,c}\|^2+"
    r"\mathcal E_{\rm MGDA}(t)",
    kind="upper",
    space=printed(
        {
            "clients": whole_numbers(low=1, high=8),
            "beta": positive(low=1e-3, high=1e3),
            "a": positive(low=1e-9, high=1.0),
            "doublings": whole_numbers(low=0, high=120),
        },
        M=(1, 1),
    ),
    measure=lambda s: assembly.eq25(s.at, s.known, s.clients, s.size, s.beta, s.a / s.known.L_J),
    expect="violated",
    note="(17) is false, and with B to infinity and a to zero (24) adds nothing. The factor 2 of "
    "(14) is missing too.",
    corrected="firm.eq33_corrected",
)


def _bounded(s: Any) -> Any:
    """Exact gradients at the clients' policies are no longer than R."""
    return norm(s.step.local).max(axis=(1, 2)) <= s.R


EQ27 = Claim(
    id="firm.eq27",
    source="FIRM, equation (27)",
    text="T_1 <= Q_t, the last term of which is 4 L_J R^2 a^2 K^2. Here with exact gradients and "
    "one lambda at step t, where all other terms vanish.",
    latex=r"\mathcal T_1\le\mathcal Q_t=\ldots+4L_JR^2\alpha^2K^2",
    kind="upper",
    space=replace(SYNCHRONISED, given={"gradients of length at most R": _bounded}),
    measure=lambda s: ascent.eq27(s.step, s.a, s.L, s.R, s.K),
    expect="violated",
    note="(26) and (33) have L_J^2. By (26)'s own fourfold slack the term is too small from L_J = "
    "4 on, and the units are wrong. The sum of (25) and (26) also lacks the factors 2 of (13) and "
    "(14): with them the gradient error and the disagreement count 4 times, the drift twice.",
    corrected="firm.eq33_corrected",
)
EQ27_SQUARED = Claim(
    id="firm.eq27_squared",
    source="FIRM, equation (27) with L_J^2",
    text="The same with 4 L_J^2 R^2 a^2 K^2.",
    latex=r"\mathcal T_1\le\mathcal Q_t=\ldots+4L_J^2R^2\alpha^2K^2",
    kind="upper",
    space=EQ27.space,
    measure=lambda s: ascent.eq27(s.step, s.a, s.L, s.R, s.K, 2),
    derivation="(26).",
)


def _constants(*, errors: Any, odds: Any, R_w: Any, rho: Any, **others: Any) -> Any:
    """Constants, and critics whose errors have few outcomes."""
    s = SimpleNamespace(**others)
    one = 1 + 0 * rho
    s.known = Printed(s.r_max, R_w, rho, s.zeta, s.L_J, one, s.gamma)
    s.first, s.second = ((odds * errors**k).sum(axis=-1) for k in (1, 2))
    s.clients = errors.shape[1]
    return s


EQ33 = Claim(
    id="firm.eq33",
    source="FIRM, equation (33)",
    text="Q_t of (27) with (24) is at most (33), where eps_critic bounds E||w_* - w||.",
    latex=r"\mathcal Q_t\le\frac{8R^3\sqrt{M^3}}\beta\Big[4\sqrt\zeta+4\sqrt\varepsilon+4\sqrt{"
    r"\tfrac{(r_{\max}+R_w)^2(1-\rho+4\kappa\rho)}{(1-\rho)B}}+4L_JR\alpha K\Big]+\frac{12}C"
    r"\Big[\tfrac{(r_{\max}+2R_w)^2(1-\rho+4\kappa\rho)}{(1-\rho)B}\Big]+12\varepsilon+12\zeta+"
    r"4L_J^2R^2\alpha^2K^2",
    kind="upper",
    space=Space(
        fields={
            "errors": positive("C", "N", low=0.001, high=1000.0),
            "odds": simplex("C", "N"),
            "r_max": positive(),
            "R_w": positive(),
            "rho": interval(high=0.99),
            "gamma": interval(high=0.99),
            "zeta": positive(low=1e-6, high=100.0),
            "L_J": positive(),
            "a": positive(low=1e-6, high=1.0),
            "beta": positive(low=1e-3, high=1e3),
            "M": whole_numbers(low=1, high=8),
            "K": whole_numbers(low=1, high=10),
            "doublings": whole_numbers(low=0, high=60),
            "omega": interval(),
        },
        sizes={"C": (1, 2), "N": (1, 2)},
        view=_constants,
        batched=True,
        meaning={
            "errors": "||w_* - w|| of each client, outcomes",
            "odds": "probabilities of these outcomes",
            "doublings": "a batch has 2^doublings transitions",
            "omega": "the sum of eta_i prod (1 - eta_k)",
        },
    ),
    measure=lambda s: assembly.eq33(
        s.known, s.M, s.clients, 2**s.doublings, s.beta, s.a, s.K, s.first, s.second, s.omega
    ),
    expect="violated",
    note="Two slips. 12 eps_critic replaces 12 E||w_* - w||^2, of which a bound on the first "
    "moment says nothing (||w_* - w|| = 100: 120000 against 1200). And L_J^2 replaces (27)'s L_J, "
    "which is less if L_J < 1; (33) has the right one. Otherwise the substitution is sound: the "
    "weights eta_i prod (1 - eta_k) sum to 1 - prod (1 - eta_k) <= 1, and t - t_0 <= K.",
    corrected="firm.eq33_corrected",
)
EQ33_CORRECTED = Claim(
    id="firm.eq33_corrected",
    source="FIRM, equations (25), (27) and (33), corrected",
    text="For independent restarted transitions, H = (1 - gamma) J/gamma and lambda_t the clients' "
    "average: E[T_1 | F_t] <= 4 {M R^2/(C B) + b^2 + (1 - 1/C) min[(4 R^3 M/beta) (R sqrt(2 M/B) + "
    "2 b + 2 L_H R a s), (1 - 1/C) M (R^2/B + 2 (b + L_H R a s)^2)] + (L_H R a s)^2}, b = C_psi "
    "sqrt(gamma) max (sqrt(zeta) + ||w_* - w||), s = t - t_0 <= K - 1. Here B = s = 1.",
    latex=r"\mathbb E[\mathcal T_1|\mathcal F_t]\le4\Big\{\tfrac{MR^2}{CB}+b^2+(1-\tfrac1C)\min"
    r"\big[\tfrac{4R^3M}\beta\big(R\sqrt{\tfrac{2M}B}+2b+2L_HR\alpha s\big),(1-\tfrac1C)M\big("
    r"\tfrac{R^2}B+2(b+L_HR\alpha s)^2\big)\big]+(L_HR\alpha s)^2\Big\}",
    kind="upper",
    space=period({}, clients=(1, 2)),
    measure=lambda s: assembly.eq33_corrected(s.step),
    derivation="gbar - grad H(thetabar) lambda_t is a sum of four vectors. Noise, weighed with "
    "lambda_t: firm.eq16_corrected, each variance at most R^2/B. Bias: firm.restarted_bias. "
    "Disagreement: firm.eq24_present, or firm.drift_of_pairs, with the second moments of "
    "firm.lemma9_corrected. Drift: firm.eq26_sharper. The second entry of the minimum needs no "
    "beta: the theorem holds for beta = 0, with 1/B and not 1/sqrt(B), and without the product a "
    "K/(beta sqrt B).",
)

# From one step to the sum over time, (28) to (32).


def _outcomes(
    *, b: Any, h: Any, o: Any, L: Any, a: Any, p: Any, theta: Any, g: Any, lam: Any, common: Any
) -> SimpleNamespace:
    """Rounds of all N outcomes, those of an instance one after another; one policy each."""
    count, N = p.shape
    b, h, o = (np.repeat(x, N, axis=0) for x in (b, h * L[:, None, None], o))
    rest = (x.reshape(count * N, *x.shape[2:]) for x in (g, lam, common))
    g, lam, common = rest
    theta = np.repeat(theta, N, axis=0)
    step = Round(b=b, h=h, o=o, theta=theta, g=g, lam=lam, common=common)
    return SimpleNamespace(step=step, p=p, a=a / L)


_OBJECTIVES = {
    "b": reals("M", "d", magnitude=(0.1, 10.0)),
    "h": interval("M", "d", low=-1.0, high=1.0),
    "o": reals("M", "d", magnitude=(0.1, 10.0)),
    "L": positive(low=0.1, high=10.0),
    "a": positive(low=0.01, high=1.0),
}
_MEANING = {
    "b": "J^j(theta) is the sum over coordinates of b theta + (L/2) h (theta - o)|theta - o|",
    "h": "see b",
    "o": "see b",
    "L": "L_J",
    "a": "the step size times L_J",
}

EQ28_30 = Claim(
    id="firm.eq28_30",
    source="FIRM, equations (28) to (30)",
    text="E||grad J(thetabar_t) lambda_t||^2 <= (2/a) E lambda_t'(J(thetabar_{t+1}) - "
    "J(thetabar_t)) + E Q_t for a <= 1/L_J, if Q_t is at least T_1; here it is T_1.",
    latex=r"\mathbb E\|\nabla J(\bar\theta_t)\lambda_t\|^2\le\frac2\alpha\mathbb E\big["
    r"\lambda_t^\top(J(\bar\theta_{t+1})-J(\bar\theta_t))\big]+\mathbb E\mathcal Q_t",
    kind="upper",
    space=Space(
        fields={
            **_OBJECTIVES,
            "p": simplex("N"),
            "theta": reals("C", "d", magnitude=(0.1, 10.0)),
            "g": reals("N", "C", "M", "d", magnitude=(0.1, 10.0)),
            "lam": simplex("N", "C", "M"),
            "common": simplex("N", "M"),
        },
        sizes={"N": (1, 2), "C": (1, 2), "M": (1, 2), "d": (1, 2)},
        view=_outcomes,
        batched=True,
        meaning={
            **_MEANING,
            "p": "probabilities of the outcomes",
            "theta": "the clients' policies",
            "g": "the clients' stochastic gradients, of every outcome",
            "lam": "the clients' weights",
            "common": "lambda_t",
        },
    ),
    measure=lambda s: ascent.eq28_30(s.step, s.p, s.a),
    note="Sound, also for a lambda_t that depends on the gradients of step t, as (12) holds for "
    "every outcome.",
)


def _ascent(
    *, b: Any, h: Any, o: Any, L: Any, a: Any, first: Any, e: Any, start: Any, stars: Any, eta: Any
) -> SimpleNamespace:
    """A path of T steps with smoothed weights."""
    lam = smoothed(start, stars, eta)[:, 1:]
    objectives = Round(b, h * L[:, None, None], o, first, e, lam, start)
    return SimpleNamespace(path=ascent.Ascent(objectives, first, e, lam, a / L), eta=eta)


def _decreasing(*, eta: Any, **others: Any) -> SimpleNamespace:
    """The same with eta_1 >= eta_2 >= ..."""
    return _ascent(eta=np.minimum.accumulate(eta, axis=1), **others)


ASCENTS = Space(
    fields={
        **_OBJECTIVES,
        "first": reals("d", magnitude=(0.1, 10.0)),
        "e": reals("T", "d", magnitude=(0.01, 10.0)),
        "start": simplex("M"),
        "stars": simplex("T", "M"),
        "eta": interval("T"),
    },
    sizes={"T": (1, 3), "M": (1, 2), "d": (1, 2)},
    view=_ascent,
    batched=True,
    meaning={
        **_MEANING,
        "first": "thetabar_1",
        "e": "gbar_t - grad J(thetabar_t) lambda_t",
        "start": "lambda_0",
        "stars": "lambda*_1, ..., lambda*_T",
    },
)

EQ31 = Claim(
    id="firm.eq31",
    source="FIRM, equation (31)",
    text="(1/T) sum ||grad J(thetabar_t)||^2 <= (2/(T a)) sum lambda_t'(J(thetabar_{t+1}) - "
    "J(thetabar_t)) + (1/T) sum Q_t, for a norm of the matrix that is at least ||.||_F/sqrt(M).",
    latex=r"\frac1T\sum_t\|\nabla J(\bar\theta_t)\|^2\le\frac2{T\alpha}\sum_t\lambda_t^\top"
    r"(J(\bar\theta_{t+1})-J(\bar\theta_t))+\frac1T\sum_t\mathcal Q_t",
    kind="upper",
    space=ASCENTS,
    measure=lambda s: ascent.eq31(s.path),
    expect="violated",
    note="lambda_t is missing on the left, and the expectation of the first sum on the right. No "
    "weighted combination bounds all gradients: lambda = (1, 0), J^1 constant, J^2 not: 0 on the "
    "right. (32) has lambda_t again, so nothing follows from it.",
    corrected="firm.eq31_corrected",
)
EQ31_CORRECTED = Claim(
    id="firm.eq31_corrected",
    source="FIRM, equation (31), corrected",
    text="The same with ||grad J(thetabar_t) lambda_t||^2 on the left.",
    latex=r"\frac1T\sum_t\|\nabla J(\bar\theta_t)\lambda_t\|^2\le\frac2{T\alpha}\sum_t\lambda_t^"
    r"\top(J(\bar\theta_{t+1})-J(\bar\theta_t))+\frac1T\sum_t\mathcal Q_t",
    kind="upper",
    space=ASCENTS,
    measure=lambda s: ascent.eq31_corrected(s.path),
    derivation="The average of (30).",
)
EQ32 = Claim(
    id="firm.eq32",
    source="FIRM, equation (32)",
    text="(1/T) sum ||grad J(thetabar_t) lambda_t||^2 <= (2/(T a)) (r_max/(1-gamma)) (1 + "
    "sum_{t<=T-1} 2 eta_t) + (1/T) sum Q_t, if Q_t is at least T_1 and no J^j varies by more than "
    "r_max/(1-gamma).",
    latex=r"\frac1T\sum_t\|\nabla J(\bar\theta_t)\lambda_t\|^2\le\frac2{T\alpha}\frac{r_{\max}}"
    r"{1-\gamma}\Big(1+\sum_{t=1}^{T-1}2\eta_t\Big)+\frac1T\sum_t\mathcal Q_t",
    kind="upper",
    space=replace(ASCENTS, sizes={"T": (2, 2), "M": (2, 2), "d": (1, 2)}),
    measure=lambda s: ascent.eq32(s.path, s.eta),
    expect="violated",
    note="Lemma 10 is off by an index. eta = (0, 1), each J^j concave of curvature L_J = 1/a along "
    "its own axis, exact gradients: lambda_1 = (1, 0) while J^1 rises by top, lambda_2 = (0, 1) "
    "while J^2 does: 4 top/a against 2 top/a, times 1/T. No effect where eta_t does not grow.",
    corrected="firm.eq32_corrected",
)
EQ32_DECREASING = replace(
    EQ32,
    id="firm.eq32_decreasing",
    source="FIRM, equation (32) for steps that do not grow",
    text="The same with eta_1 >= eta_2 >= ... .",
    space=replace(ASCENTS, view=_decreasing),
    measure=lambda s: ascent.eq32(s.path, s.eta),
    expect="holds",
    note="",
    corrected=None,
    derivation="firm.eq32_corrected and eta_{t+1} <= eta_t.",
)
EQ32_CORRECTED = Claim(
    id="firm.eq32_corrected",
    source="FIRM, equation (32), corrected",
    text="(1/T) sum ||grad J(thetabar_t) lambda_t||^2 <= (2/(T a)) top (1 + sum_{t=2}^T eta_t) + "
    "(1/T) sum Q_t, if Q_t is at least T_1 and no J^j varies by more than top.",
    latex=r"\frac1T\sum_t\|\nabla J(\bar\theta_t)\lambda_t\|^2\le\frac{2\,{\rm top}}{T\alpha}"
    r"\Big(1+\sum_{t=2}^T\eta_t\Big)+\frac1T\sum_t\mathcal Q_t",
    kind="upper",
    space=ASCENTS,
    measure=lambda s: ascent.eq32_corrected(s.path, s.eta),
    derivation="firm.eq31_corrected and firm.lemma10_corrected; (30) holds given F_t, and its mean "
    "is taken over all of the past.",
)
THEOREM = Claim(
    id="firm.eq32_33_corrected",
    source="FIRM, Theorem 1 in its explicit form, (32) with (33), corrected",
    text="For independent restarted transitions, H = (1 - gamma) J/gamma, lambda_t the clients' "
    "average and a <= 1/L_H: (1/T) sum E||grad H(thetabar_t) lambda_t||^2 <= (2 r_max/(T a)) (1 + "
    "sum_{t=2}^T eta_t) + Q, Q that of firm.eq33_corrected. Here T = B = 1.",
    latex=r"\frac1T\sum_t\mathbb E\|\nabla H(\bar\theta_t)\lambda_t\|^2\le\frac{2r_{\max}}{T\alpha}"
    r"\Big(1+\sum_{t=2}^T\eta_t\Big)+\mathcal Q",
    kind="upper",
    space=period({}, clients=(1, 2)),
    measure=lambda s: assembly.theorem(s.step),
    derivation="firm.eq32_corrected for H, which is in [0, r_max], and firm.eq33_corrected. Any "
    "beta, also 0, gives log T/(a T) + M/B + zeta + eps + M a^2 K^2, eps the critics' mean square "
    "error: no product a K/(beta sqrt B), and 1/(C B) only for the noise of the gradients. Runs of "
    "two steps with all their outcomes are among the tests.",
)

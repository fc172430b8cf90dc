"""FIRM, Appendix F.1.1: independent clients, critics' errors, variance and size of gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

import ratecheck as rc
from experiments.firm.claims._chains import LONG, SIMPLEST, inside, processes
from experiments.firm.claims._spaces import BETA
from experiments.firm.paper import PAPER
from experiments.firm.theory import critic_bounds as at
from experiments.firm.theory.chain import Chains
from experiments.firm.theory.program import weights
from linsys.linalg import Numbers, squared, transpose

LAM = {"lam": rc.simplex("M")}
CRITICS = {"w": rc.ball("M", "d2"), **LAM}
WEIGHTED = processes(LAM)
WEIGHTED_LONG = processes({**LAM, **LONG})
WITH_CRITICS = processes(CRITICS)
WITH_CRITICS_LONG = processes({**CRITICS, **LONG})
TWO_CLIENTS = processes({"other": rc.reals("S", "A", magnitude=(0.1, 5.0)), **LAM, **LONG})

_NOISE = {"xi": rc.reals("C", "K", "M", "d", magnitude=(0.1, 10.0)), "p": rc.simplex("C", "K")}
_NOISE_MEANING = {
    "xi": "the K values of the noise of a client's gradients, before its mean is subtracted",
    "p": "their probabilities",
}
_NOISE_SIZES = {"C": (1, 3), "K": (2, 2), "M": (1, 3), "d": (1, 2)}


def _mean_is_zero(noise: Numbers, probabilities: Numbers) -> Numbers:
    """Whether noise (B, N, C, M, d) has mean zero, up to rounding."""
    weighed = probabilities[:, :, None, None, None] * noise
    mean, size = weighed.sum(axis=1), np.abs(weighed).sum(axis=1)
    return np.asarray((np.abs(mean) <= 1e-12 * (1 + size)).all(axis=(1, 2, 3)))


FIXED = rc.Space(
    fields={**_NOISE, **LAM},
    sizes=_NOISE_SIZES,
    batched=True,
    meaning={**_NOISE_MEANING, "lam": "lambda_t"},
)
SAME_SAMPLES = rc.Space(
    fields={**_NOISE, "mean": rc.reals("M", "d", magnitude=(0.1, 10.0)), "beta": BETA},
    sizes=_NOISE_SIZES,
    assumes={
        "clients are independent: probabilities of joint outcomes sum to one": lambda s: (
            np.abs(at.outcomes(s.xi, s.p)[1].sum(axis=1) - 1) <= 1e-12
        ),
        "(16): the noise has mean zero": lambda s: _mean_is_zero(*at.outcomes(s.xi, s.p)),
        "beta > 0": lambda s: s.beta > 0,
    },
    batched=True,
    meaning={**_NOISE_MEANING, "mean": "the gradients' means, common to all clients"},
)

# Clients.


@PAPER.identity(
    "eq16",
    ref="equation (16)",
    tex=r"\mathbb E\|\tfrac1C\sum_cZ_c\|^2=\tfrac1{C^2}\sum_c\mathbb E\|Z_c\|^2",
    on=FIXED,
    note="(16)'s first line multiplies by 3 terms that (15) defines with the 3; the second does "
    "not.",
)
def eq16(xi: rc.Numbers, p: rc.Numbers, lam: rc.Numbers) -> rc.Sides:
    """E||(1/C) sum_c Z_c||^2 = (1/C^2) sum_c E||Z_c||^2 for independent clients, Z_c = sum_j
    lambda_t^j (g^{j,c} - Delta^{j,c}), lambda_t fixed before the samples of round t.
    """
    return at.eq16(xi, p, lam)


@PAPER.upper(
    "eq16_same_samples",
    ref="equation (16), with lambda_t as (11) computes it",
    family=[
        {
            "xi": [[[[0.0], [1.5]], [[0.0], [-1.5]]]] * 2,
            "p": [[0.5, 0.5]] * 2,
            "mean": [[1.0], [0.0]],
            "beta": 1.0,
        }
    ],
    uses=["eq10"],
    reading="lambda_t as F.1.2 defines it, the average of the clients' weights, which (11) "
    "computes from the gradients of step t; Lemma 10 needs this lambda_t.",
    tex=r"\mathbb E\|\tfrac1C\sum_cZ_c\|^2\le\tfrac1{C^2}\sum_c\mathbb E\|Z_c\|^2",
    on=SAME_SAMPLES,
    expect="violated",
    main=True,
    note="lambda_t is a function of the samples of round t: given F_t it is not a constant, the "
    "Z_c have a mean and depend on each other. C = M = 2, d = 1, means 1 and 0, noise 0 and +-1.5 "
    "with probability 1/2 each, beta = 1: 0.0963 against 0.0722. The speed-up in C survives with "
    "up to M times the constant: 1/(CB) becomes M/(CB) in Theorem 1. lambda_{t-1} in the place of "
    "lambda_t is F_t-measurable and costs a term in eta_t.",
    corrected="eq16_corrected",
    reading_of="eq16",
)
def eq16_same_samples(
    mean: rc.Numbers, xi: rc.Numbers, p: rc.Numbers, beta: rc.Numbers
) -> rc.Sides:
    """E||(1/C) sum_c Z_c||^2 <= (1/C^2) sum_c E||Z_c||^2 with lambda_t the clients' average of the
    weights (2) of the same gradients (eta_t = 1).

    The gradients are mean (B, M, d) + xi, and eta_t = 1.
    """
    noise, probabilities = at.outcomes(xi, p)
    count, N, clients, M, d = noise.shape
    gradients = transpose(mean[:, None, None] + noise).reshape(-1, d, M)
    each = beta[:, None, None] + 0 * noise[..., 0, 0]
    lam = weights(gradients, each.reshape(-1)).reshape(count, N, clients, M)
    return at.moments(noise, probabilities, lam.sum(axis=2) / clients)


@PAPER.upper(
    "eq16_corrected",
    ref="equation (16), corrected",
    tex=r"\mathbb E\|\tfrac1C\sum_cZ_c\|^2\le\tfrac1{C^2}\sum_c\sum_j"
    r"\mathbb E\|g^{j,c}-\Delta^{j,c}\|^2",
    on=SAME_SAMPLES,
    derivation="(1/C) sum_c Z_c averages M vectors (1/C) sum_c xi^{j,c} with weights lambda_t, so "
    "its square is at most the largest of theirs, hence their sum, and each has the variance of a "
    "mean of independent vectors.",
)
def eq16_corrected(mean: Numbers, xi: Numbers, p: Numbers, beta: Numbers) -> rc.Sides:
    """E||(1/C) sum_c Z_c||^2 <= (1/C^2) sum_c sum_j E||g^{j,c} - Delta^{j,c}||^2 for independent
    clients with E g^{j,c} = Delta^{j,c}, whatever one lambda_t of the simplex depends on. Here it
    is the clients' average of the weights (2) of the same gradients.
    """
    noise, probabilities = at.outcomes(xi, p)
    measured, _ = eq16_same_samples(mean, xi, p, beta)
    total = (probabilities * squared(noise).sum(axis=(2, 3))).sum(axis=1)
    return measured, total / noise.shape[2] ** 2


# Lemma 5: the critics' errors.


@PAPER.upper(
    "lemma5",
    ref="Lemma 5",
    family=[
        {
            **SIMPLEST,
            "r": np.zeros((2, 2, 1)),
            "gamma": 0.5,
            "phi": [[1.0], [-1.0]],
            "w": [[0.5]],
            "lam": [1.0],
            "scale": scale,
        }
        for scale in (4.0, 10.0)
    ],
    tex=r"\mathbb E[\mathcal T_{1,1,1}\mid\mathcal F_t]\le\frac{12}C\sum_c\max_j"
    r"\mathbb E\|w_t^{*,j,c}-w_t^{j,c}\|^2",
    on=WITH_CRITICS_LONG,
    expect="violated",
    note="C_psi^2 is missing: 12 = 3 (1+1)^2 is right for C_psi <= 1. All transitions 1/2, pi = "
    "1/2, phi = +-1, gamma = 1/2, features of length c: 1.875 c^2 against 12 per unit of ||w - "
    "w_*||^2. In Theorem 1 a constant. max_j may stand before E only where lambda_t is fixed "
    "beforehand; else E max_j, up to M times as much.",
    corrected="lemma5_corrected",
)
def lemma5(instance: Any) -> rc.Sides:
    """3 E||(g(w) - g(w_*)) lambda||^2 <= 12 max_j ||w^j - w_*^j||^2 for batches of 1 to 4
    transitions of the stationary chain.
    """
    return at.lemma5(instance.chains, inside(instance), instance.lam)


@PAPER.upper(
    "lemma5_one_hot",
    ref="Lemma 5, one logit per pair",
    printed_as="ours",
    tex=lemma5.latex,
    on=WITH_CRITICS,
    derivation="E|psi|^2 = 1 - sum_a pi(a|s)^2 < 1, though C_psi^2 = 2.",
)
def lemma5_one_hot(instance: Any) -> rc.Sides:
    """3 E||(g(w) - g(w_*)) lambda||^2 <= 12 max_j ||w^j - w_*^j||^2 for policies with one logit per
    state and action, C_psi = sqrt(2), and batches of 1 to 4 transitions of the stationary chain.
    """
    return at.lemma5(instance.chains, inside(instance), instance.lam)


@PAPER.upper(
    "lemma5_corrected",
    ref="Lemma 5, corrected",
    tex=r"\mathbb E[\mathcal T_{1,1,1}\mid\mathcal F_t]\le\frac{3C_\psi^2(1+\gamma)^2}C\sum_c"
    r"\max_j\mathbb E\|w_t^{*,j,c}-w_t^{j,c}\|^2",
    on=WITH_CRITICS_LONG,
    derivation="A sample changes by psi (gamma phi(s') - phi(s))'(w - w_*), of length at most "
    "C_psi (1+gamma)||w - w_*||; squares of averages are at most averages of squares.",
)
def lemma5_corrected(instance: Any) -> rc.Sides:
    """3 E||(g(w) - g(w_*)) lambda||^2 <= 3 C_psi^2 (1+gamma)^2 max_j ||w^j - w_*^j||^2 for batches
    of 1 to 4 transitions of the stationary chain.
    """
    return at.lemma5_corrected(instance.chains, inside(instance), instance.lam)


# Lemma 6: the variance.

#: Where a constant is the critics' only feature.
_LONG = {**SIMPLEST, "gamma": 0.1, "phi": np.ones((2, 1)), "lam": [1.0], "scale": 50.0}

_FACTOR = r"\frac{(r_{\max}+2R_w)^2(1-\rho+4\kappa\rho)}{(1-\rho)B}"


@PAPER.upper(
    "lemma6_client",
    ref="Lemma 6, one client",
    family=[_LONG],
    printed_as="proof step",
    uses=["lemma2"],
    tex=r"\mathbb E\|\sum_j\lambda_t^j(g_t^{j,c}(w^*)-\Delta^{j,c})\|^2\le4" + _FACTOR,
    on=WEIGHTED_LONG,
    expect="violated",
    note="Printed in the proof of Lemma 6, which sums it over clients. C_psi^2 is missing. The "
    "rest is so loose (R_w twice too large, |delta| below r_max + 2 R_w, E|psi|^2 below "
    "C_psi^2) that only a large C_psi shows it, such as 20 or more: all transitions 1/2, phi = 1 "
    "and -1 in the two states, r = 1, pi = 1/2, features of length c, C_psi = sqrt(2) c: w_* = 0, "
    "lambda_A = 1, and c^2/2 against 4 (1 + 4)^2 = 100 at B = 1.",
    corrected="lemma6_corrected",
)
def lemma6_client(chains: Any, r_max: Any, lam: Any) -> rc.Sides:
    """E||(g(w_*) - Delta(w_*)) lambda||^2 <= 4 (r_max + 2 R_w)^2 (1 - rho + 4 kappa rho) / ((1 -
    rho) B) for B = 1, ..., 8 transitions of the stationary chain, kappa = 1, and the R_w of a
    lambda_A that serves every policy.
    """
    return at.lemma6_client(chains, r_max, chains.R_w_of_all(r_max), lam, 8)


@PAPER.upper(
    "lemma6",
    ref="Lemma 6",
    family=[{**_LONG, "other": np.zeros((2, 2))}],
    uses=["lemma6_client"],
    tex=r"\mathbb E[\mathcal T_{1,1,2}\mid\mathcal F_t]\le\frac{12}C" + _FACTOR,
    on=TWO_CLIENTS,
    expect="violated",
    note="As for one client. In (17) and (33) the term 1/(CB) lacks the constant C_psi^2, which "
    "the O of (35) hides.",
    corrected="lemma6_corrected",
)
def lemma6(
    chains: Chains, there: Chains, r_max: Numbers, lam: Numbers, longest: int = 8
) -> rc.Sides:
    """(3/C^2) sum_c E||(g^c(w_*) - Delta^c(w_*)) lambda||^2 <= (12/C) (r_max + 2 R_w)^2 (1 - rho +
    4 kappa rho) / ((1 - rho) B), C = 2 clients with two policies, B = 1, ..., 8.
    """
    R_w = chains.R_w_of_all(r_max)
    here, bound = at.lemma6_client(chains, r_max, R_w, lam, longest)
    other, _ = at.lemma6_client(there, r_max, R_w, lam, longest)
    return 3 * (here + other) / 4, 3 * bound / 2


@PAPER.upper(
    "lemma6_one_hot",
    ref="Lemma 6, one client, one logit per pair",
    printed_as="ours",
    tex=lemma6_client.latex,
    on=WEIGHTED,
    uses=["lemma5_one_hot", "lemma6_sharper"],
    derivation="E|psi|^2 < 1, see firm.lemma5_one_hot, and firm.lemma6_sharper.",
)
def lemma6_one_hot(chains: Any, r_max: Any, lam: Any) -> rc.Sides:
    """E||(g(w_*) - Delta(w_*)) lambda||^2 <= 4 (r_max + 2 R_w)^2 (1 - rho + 4 kappa rho)/((1 - rho)
    B) for one logit per state and action, B = 1, ..., 8 transitions of the stationary chain, kappa
    = 1.
    """
    return at.lemma6_client(chains, r_max, chains.R_w(r_max), lam, 8)


@PAPER.upper(
    "lemma6_corrected",
    ref="Lemma 6, corrected",
    tex=r"\mathbb E\|\sum_j\lambda_t^j(g_t^{j,c}(w^*)-\Delta^{j,c})\|^2\le\frac{R^2}B\Big(3+"
    r"\frac{4\kappa\rho}{1-\rho}\Big)",
    on=WEIGHTED_LONG,
    derivation="With Y = Z - E Z, E||Y||^2 <= R^2. Neighbours have E<Y_0, Y_1> <= R^2. For k >= "
    "2, s_1 fixes Y_0's influence: E<Y_0, Y_k> <= E||Y_0|| ||E[Y_k | s_1]|| <= R 2R kappa "
    "rho^{k-1}. Sum: (R^2/B)(1 + 2 + 4 kappa rho/(1-rho)). (Y_0 contains s_1, so rho^{k-1} and "
    "not rho^k.)",
)
def lemma6_corrected(chains: Chains, r_max: Numbers, lam: Numbers, longest: int = 8) -> rc.Sides:
    """E||(g(w_*) - Delta(w_*)) lambda||^2 <= R^2 (3 + 4 kappa rho / (1 - rho)) / B with R = C_psi
    (r_max + (1+gamma) R_w), stationary chain, lambda fixed before the samples; so C_psi^2 before
    the printed bound suffices. Here B = 1, ..., 8 and kappa = 1.
    """
    R = at.gradient_bound(chains, r_max, chains.R_w(r_max))
    scale = R**2 * at.mixing_factor(chains, 3)
    return at.spread(chains, lam, longest), scale[:, None] / np.arange(1, longest + 1)


@PAPER.upper(
    "lemma6_sharper",
    ref="Lemma 6, sharpened",
    tex=r"\mathbb E\|\sum_j\lambda_t^j(g_t^{j,c}(w^*)-\Delta^{j,c})\|^2\le\frac{\max_s\mathbb "
    r"E[|\psi|^2\mid s]\,\max|\delta\lambda|^2}B\Big(3+\frac{4\kappa\rho}{1-\rho}\Big)",
    on=WEIGHTED_LONG,
    derivation="E||Z||^2 and ||E[Z | s]||^2 are at most this; R was used for nothing else.",
    sharpens="lemma6_corrected",
)
def lemma6_sharper(chains: Chains, lam: Numbers, longest: int = 8) -> rc.Sides:
    """E||(g(w_*) - Delta(w_*)) lambda||^2 <= max_s E[|psi|^2 | s] max |delta lambda|^2 (3 + 4 kappa
    rho / (1 - rho)) / B for B = 1, ..., 8 transitions of the stationary chain, kappa = 1, lambda
    fixed before the samples, the second maximum over transitions.
    """
    error = (chains.errors(chains.values(chains.w_star)) * lam[:, None, None, None]).sum(axis=-1)
    largest = np.abs(error).max(axis=(1, 2, 3))
    scale = chains.score_variance * largest**2 * at.mixing_factor(chains, 3)
    return at.spread(chains, lam, longest), scale[:, None] / np.arange(1, longest + 1)


@PAPER.upper(
    "lemma6_factor",
    ref="Lemma 6, its dependence on kappa and rho",
    printed_as="ours",
    reading="The factor 1 - rho + 4 kappa rho by itself, as what the covariances within a batch "
    "add to the variance of one transition; the constants before it hide this.",
    tex=r"B\,\mathbb E\|\tfrac1B\sum_lY_l\|^2-\mathbb E\|Y_1\|^2\le\frac{4\kappa\rho}{1-\rho}"
    r"\mathbb E\|Y_1\|^2",
    on=WEIGHTED,
    expect="violated",
    note="s_1 belongs to the first transition, so the k-th one after it is tied to it by "
    "rho^{k-1}, not rho^k. Every step goes to the second state, but its second action goes back "
    "with probability 0.04 = rho; r = 1 for that action, phi = (0, 1), pi = 1/2, gamma = 1/2, B = "
    "8: 0.0107 against 0.0081, or 0.0038 against 0.0012 after the subtraction. "
    "Lemma 6 survives by the 4 before it, which has room for the 3 of "
    "firm.lemma6_corrected.",
    corrected="lemma6_corrected",
    reading_of="lemma6",
)
def lemma6_factor(chains: Chains, lam: Numbers, longest: int = 8) -> rc.Sides:
    """B E||mean of B||^2 <= E||one||^2 (1 + 4 kappa rho / (1 - rho)) for the deviations of B = 2,
    ..., 8 transitions, kappa = 1; E||one||^2 is subtracted on both sides.

    Of deviations from E g: what the covariances within a batch add.
    """
    moments = at.spread(chains, lam, longest)
    added = moments[:, 1:] * np.arange(2, longest + 1) - moments[:, :1]
    return added, moments[:, :1] * at.mixing_factor(chains, 0)[:, None]


@PAPER.upper(
    "lemma6_start",
    ref="Lemma 6, s_0 of any law",
    printed_as="ours",
    tex=r"\mathbb E\|\sum_j\lambda_t^j(g_t^{j,c}(w^*)-\Delta^{j,c})\|^2\le\frac{4R^2}B\Big(1+"
    r"\frac{2\kappa}{1-\rho}\Big)",
    on=WEIGHTED_LONG,
    derivation="||Z - E Z|| <= 2R, and ||E[Z_k - E Z | s_1]|| <= 2R kappa rho^{k-1} for k >= 1.",
)
def lemma6_start(chains: Any, r_max: Any, lam: Any) -> rc.Sides:
    """E||(g(w_*) - Delta(w_*)) lambda||^2 <= 4 R^2 (1 + 2 kappa / (1 - rho)) / B where s_0 has any
    law, with the R of Lemma 7, Delta under d_pi and lambda fixed before the samples. Here B = 1,
    ..., 8 and kappa = 1.
    """
    return at.lemma6_anywhere(chains, r_max, lam, chains.start)


# Lemma 7.


@PAPER.upper(
    "lemma7",
    ref="Lemma 7",
    tex=r"\|g_t^{j,c}\|_2\le R=C_\psi(r_{\max}+(1+\gamma)R_w)",
    on=WITH_CRITICS_LONG,
    note="Approached by batches that repeat one rare action; its root mean square is at most R / "
    "sqrt(2) where E|psi|^2 is at most half of C_psi^2.",
)
def lemma7(instance: Any) -> rc.Sides:
    """||g^j|| <= R = C_psi (r_max + (1+gamma) R_w) for every batch and every w in H."""
    return at.lemma7(instance.chains, instance.r_max, inside(instance))

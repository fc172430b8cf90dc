"""FIRM, Appendix F.1.1: independent clients, critics' errors, variance and size of gradients."""

from __future__ import annotations

import ratecheck as rc
from experiments.firm.claims._chains import LONG, inside, processes
from experiments.firm.claims._spaces import BETA
from experiments.firm.theory import critic_bounds as at

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
FIXED = rc.Space(
    fields={**_NOISE, **LAM},
    sizes=_NOISE_SIZES,
    batched=True,
    meaning={**_NOISE_MEANING, "lam": "lambda_t"},
)
SAME_SAMPLES = rc.Space(
    fields={**_NOISE, "mean": rc.reals("M", "d", magnitude=(0.1, 10.0)), "beta": BETA},
    sizes=_NOISE_SIZES,
    batched=True,
    meaning={**_NOISE_MEANING, "mean": "the gradients' means, common to all clients"},
)

# Clients.

EQ16 = rc.Claim(
    id="firm.eq16",
    source="FIRM, equation (16)",
    text="E||(1/C) sum_c Z_c||^2 = (1/C^2) sum_c E||Z_c||^2 for independent clients, Z_c = sum_j "
    "lambda_t^j (g^{j,c} - Delta^{j,c}), lambda_t fixed before the samples of round t.",
    latex=r"\mathbb E\|\tfrac1C\sum_cZ_c\|^2=\tfrac1{C^2}\sum_c\mathbb E\|Z_c\|^2",
    kind="identity",
    space=FIXED,
    measure=lambda s: at.eq16(s.xi, s.p, s.lam),
    note="(16)'s first line multiplies by 3 terms that (15) defines with the 3; the second does "
    "not.",
)
EQ16_SAME_SAMPLES = rc.Claim(
    id="firm.eq16_same_samples",
    source="FIRM, equation (16), with lambda_t as (11) computes it",
    text="E||(1/C) sum_c Z_c||^2 <= (1/C^2) sum_c E||Z_c||^2 with lambda_t the clients' average "
    "of the weights (2) of the same gradients (eta_t = 1).",
    latex=r"\mathbb E\|\tfrac1C\sum_cZ_c\|^2\le\tfrac1{C^2}\sum_c\mathbb E\|Z_c\|^2",
    kind="upper",
    space=SAME_SAMPLES,
    measure=lambda s: at.eq16_same_samples(s.mean, s.xi, s.p, s.beta),
    expect="violated",
    main=True,
    note="lambda_t is a function of the samples of round t: given F_t it is not a constant, the "
    "Z_c have a mean and depend on each other. C = M = 2, d = 1, means 1 and 0, noise 0 and +-1.5 "
    "with probability 1/2 each, beta = 1: 0.0963 against 0.0722. The speed-up in C survives with "
    "up to M times the constant: 1/(CB) becomes M/(CB) in Theorem 1. lambda_{t-1} in the place of "
    "lambda_t is F_t-measurable and costs a term in eta_t.",
    corrected="firm.eq16_corrected",
)
EQ16_CORRECTED = rc.Claim(
    id="firm.eq16_corrected",
    source="FIRM, equation (16), corrected",
    text="E||(1/C) sum_c Z_c||^2 <= (1/C^2) sum_c sum_j E||g^{j,c} - Delta^{j,c}||^2, whatever "
    "one lambda_t of the simplex depends on.",
    latex=r"\mathbb E\|\tfrac1C\sum_cZ_c\|^2\le\tfrac1{C^2}\sum_c\sum_j"
    r"\mathbb E\|g^{j,c}-\Delta^{j,c}\|^2",
    kind="upper",
    space=SAME_SAMPLES,
    measure=lambda s: at.eq16_corrected(s.mean, s.xi, s.p, s.beta),
    derivation="(1/C) sum_c Z_c averages M vectors (1/C) sum_c xi^{j,c} with weights lambda_t, so "
    "its square is at most the largest of theirs, hence their sum, and each has the variance of a "
    "mean of independent vectors.",
)

# Lemma 5: the critics' errors.

LEMMA5 = rc.Claim(
    id="firm.lemma5",
    source="FIRM, Lemma 5",
    text="3 E||(g(w) - g(w_*)) lambda||^2 <= 12 max_j ||w^j - w_*^j||^2 for batches of 1 to 4 "
    "transitions of the stationary chain.",
    latex=r"\mathbb E[\mathcal T_{1,1,1}\mid\mathcal F_t]\le\frac{12}C\sum_c\max_j"
    r"\mathbb E\|w_t^{*,j,c}-w_t^{j,c}\|^2",
    kind="upper",
    space=WITH_CRITICS_LONG,
    measure=lambda s: at.lemma5(s.chains, inside(s), s.lam),
    expect="violated",
    note="C_psi^2 is missing: 12 = 3 (1+1)^2 is right for C_psi <= 1. All transitions 1/2, pi = "
    "1/2, phi = +-1, gamma = 1/2, features of length c: 1.875 c^2 against 12 per unit of ||w - "
    "w_*||^2. In Theorem 1 a constant. max_j may stand before E only where lambda_t is fixed "
    "beforehand; else E max_j, up to M times as much.",
    corrected="firm.lemma5_corrected",
)
LEMMA5_ONE_HOT = rc.Claim(
    id="firm.lemma5_one_hot",
    source="FIRM, Lemma 5, one logit per pair",
    text="The same for one logit per state and action, C_psi = sqrt(2).",
    latex=LEMMA5.latex,
    kind="upper",
    space=WITH_CRITICS,
    measure=lambda s: at.lemma5(s.chains, inside(s), s.lam),
    derivation="E|psi|^2 = 1 - sum_a pi(a|s)^2 < 1, though C_psi^2 = 2.",
)
LEMMA5_CORRECTED = rc.Claim(
    id="firm.lemma5_corrected",
    source="FIRM, Lemma 5, corrected",
    text="The same with 3 C_psi^2 (1+gamma)^2 in the place of 12.",
    latex=r"\mathbb E[\mathcal T_{1,1,1}\mid\mathcal F_t]\le\frac{3C_\psi^2(1+\gamma)^2}C\sum_c"
    r"\max_j\mathbb E\|w_t^{*,j,c}-w_t^{j,c}\|^2",
    kind="upper",
    space=WITH_CRITICS_LONG,
    measure=lambda s: at.lemma5_corrected(s.chains, inside(s), s.lam),
    derivation="A sample changes by psi (gamma phi(s') - phi(s))'(w - w_*), of length at most "
    "C_psi (1+gamma)||w - w_*||; squares of averages are at most averages of squares.",
)

# Lemma 6: the variance.

_FACTOR = r"\frac{(r_{\max}+2R_w)^2(1-\rho+4\kappa\rho)}{(1-\rho)B}"
LEMMA6_CLIENT = rc.Claim(
    id="firm.lemma6_client",
    source="FIRM, Lemma 6, one client",
    text="E||(g(w_*) - Delta(w_*)) lambda||^2 <= 4 (r_max + 2 R_w)^2 (1 - rho + 4 kappa rho) / "
    "((1 - rho) B) for B = 1, ..., 8 transitions of the stationary chain, kappa = 1.",
    latex=r"\mathbb E\|\sum_j\lambda_t^j(g_t^{j,c}(w^*)-\Delta^{j,c})\|^2\le4" + _FACTOR,
    kind="upper",
    space=WEIGHTED_LONG,
    measure=lambda s: at.lemma6_client(s.chains, s.r_max, s.lam, 8),
    expect="violated",
    note="C_psi^2 is missing. The rest is so loose (R_w twice too large, |delta| below r_max + 2 "
    "R_w, E|psi|^2 below C_psi^2) that only C_psi above about 60 shows it: all transitions 1/2, "
    "phi = 1, r = 1 for the first action, pi = 1/2, gamma = 0.05, features of length c: c^2/16 "
    "against 108.",
    corrected="firm.lemma6_corrected",
)
LEMMA6 = rc.Claim(
    id="firm.lemma6",
    source="FIRM, Lemma 6",
    text="(3/C^2) sum_c E||(g^c(w_*) - Delta^c(w_*)) lambda||^2 <= (12/C) (r_max + 2 R_w)^2 (1 - "
    "rho + 4 kappa rho) / ((1 - rho) B), C = 2 clients with two policies, B = 1, ..., 8.",
    latex=r"\mathbb E[\mathcal T_{1,1,2}\mid\mathcal F_t]\le\frac{12}C" + _FACTOR,
    kind="upper",
    space=TWO_CLIENTS,
    measure=lambda s: at.lemma6(s.chains, s.there, s.r_max, s.lam),
    expect="violated",
    note="As for one client. In (17), (33) and (35) the term 1/(CB) lacks the constant C_psi^2.",
    corrected="firm.lemma6_corrected",
)
LEMMA6_ONE_HOT = rc.Claim(
    id="firm.lemma6_one_hot",
    source="FIRM, Lemma 6, one client, one logit per pair",
    text="The bound for one client where there is one logit per state and action.",
    latex=LEMMA6_CLIENT.latex,
    kind="upper",
    space=WEIGHTED,
    measure=lambda s: at.lemma6_client(s.chains, s.r_max, s.lam, 8),
    derivation="E|psi|^2 < 1, see firm.lemma5_one_hot, and firm.lemma6_corrected.",
)
LEMMA6_CORRECTED = rc.Claim(
    id="firm.lemma6_corrected",
    source="FIRM, Lemma 6, corrected",
    text="E||(g(w_*) - Delta(w_*)) lambda||^2 <= R^2 (3 + 4 kappa rho / (1 - rho)) / B with R = "
    "C_psi (r_max + (1+gamma) R_w), stationary chain; so C_psi^2 before the printed bound "
    "suffices.",
    latex=r"\mathbb E\|\sum_j\lambda_t^j(g_t^{j,c}(w^*)-\Delta^{j,c})\|^2\le\frac{R^2}B\Big(3+"
    r"\frac{4\kappa\rho}{1-\rho}\Big)",
    kind="upper",
    space=WEIGHTED_LONG,
    measure=lambda s: at.lemma6_corrected(s.chains, s.r_max, s.lam),
    derivation="With Y = Z - E Z, E||Y||^2 <= R^2. Neighbours have E<Y_0, Y_1> <= R^2. For k >= "
    "2, s_1 fixes Y_0's influence: E<Y_0, Y_k> <= E||Y_0|| ||E[Y_k | s_1]|| <= R 2R kappa "
    "rho^{k-1}. Sum: (R^2/B)(1 + 2 + 4 kappa rho/(1-rho)). (Y_0 contains s_1, so rho^{k-1} and "
    "not rho^k.)",
)
LEMMA6_SHARPER = rc.Claim(
    id="firm.lemma6_sharper",
    source="FIRM, Lemma 6, sharpened",
    text="The same with max_s E|psi|^2 max |delta lambda|^2 in the place of R^2.",
    latex=r"R^2\to\max_s\mathbb E|\psi|^2\,\max|\delta\lambda|^2",
    kind="upper",
    space=WEIGHTED_LONG,
    measure=lambda s: at.lemma6_sharper(s.chains, s.lam),
    derivation="E||Z||^2 and ||E[Z | s]||^2 are at most this; R was used for nothing else.",
)
LEMMA6_FACTOR = rc.Claim(
    id="firm.lemma6_factor",
    source="FIRM, Lemma 6, its dependence on kappa and rho",
    text="B E||mean of B||^2 <= E||one||^2 (1 + 4 kappa rho / (1 - rho)) for the deviations of B "
    "= 2, ..., 8 transitions, kappa = 1; E||one||^2 is subtracted on both sides.",
    latex=r"B\,\mathbb E\|\tfrac1B\sum_lY_l\|^2-\mathbb E\|Y_1\|^2\le\frac{4\kappa\rho}{1-\rho}"
    r"\mathbb E\|Y_1\|^2",
    kind="upper",
    space=WEIGHTED,
    measure=lambda s: at.lemma6_factor(s.chains, s.lam),
    expect="violated",
    note="s_1 belongs to the first transition, so the k-th one after it is tied to it by "
    "rho^{k-1}, not rho^k. Every step goes to the second state, but its second action goes back "
    "with probability 0.04 = rho; r = 1 for that action, phi = (0, 1), pi = 1/2, gamma = 1/2, B = "
    "8: 0.0107 against 0.0081. Lemma 6 survives by the 4 before it, which has room for the 3 of "
    "firm.lemma6_corrected.",
    corrected="firm.lemma6_corrected",
)
LEMMA6_START = rc.Claim(
    id="firm.lemma6_start",
    source="FIRM, Lemma 6, s_0 of any law",
    text="E||(g(w_*) - Delta(w_*)) lambda||^2 <= 4 R^2 (1 + 2 kappa / (1 - rho)) / B where s_0 "
    "has any law.",
    latex=r"\mathbb E\|\sum_j\lambda_t^j(g_t^{j,c}(w^*)-\Delta^{j,c})\|^2\le\frac{4R^2}B\Big(1+"
    r"\frac{2\kappa}{1-\rho}\Big)",
    kind="upper",
    space=WEIGHTED_LONG,
    measure=lambda s: at.lemma6_anywhere(s.chains, s.r_max, s.lam, s.chains.start),
    derivation="||Z - E Z|| <= 2R, and ||E[Z_k - E Z | s_1]|| <= 2R kappa rho^{k-1} for k >= 1.",
)

# Lemma 7.

LEMMA7 = rc.Claim(
    id="firm.lemma7",
    source="FIRM, Lemma 7",
    text="||g^j|| <= R = C_psi (r_max + (1+gamma) R_w) for every batch and every w in H.",
    latex=r"\|g_t^{j,c}\|_2\le R=C_\psi(r_{\max}+(1+\gamma)R_w)",
    kind="upper",
    space=WITH_CRITICS_LONG,
    measure=lambda s: at.lemma7(s.chains, s.r_max, inside(s)),
    note="Approached by batches that repeat one rare action; its root mean square is at most R / "
    "sqrt(2) where E|psi|^2 is at most half of C_psi^2.",
)

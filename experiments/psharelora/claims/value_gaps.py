"""P-ShareLoRA, Theorem 4.2, its corollaries, the sets (3.4) and Definition A.3."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.psharelora.claims._spaces import unlike, users
from experiments.psharelora.claims.main_theorems import LIMITS
from experiments.psharelora.claims.parameters import space_with_fit, view_with_fit
from experiments.psharelora.claims.pessimism import PESSIMISTS, POLICIES, POLICIES_MEANING
from experiments.psharelora.claims.subspace import FITTED
from experiments.psharelora.paper import PAPER
from experiments.psharelora.theory import values as values
from experiments.psharelora.theory.pessimism import against, choosers
from experiments.psharelora.theory.preference import Pairs
from experiments.psharelora.theory.subspace import Adaptation, flat, sine
from linsys.linalg import Numbers, inverse, lambda_min, norm, squares, transpose


def _one(*, N_p: Any, **others: Any) -> SimpleNamespace:
    return SimpleNamespace(n=N_p, **others)


def _apart(s: Any) -> Any:
    """Features of trajectories whose differences are not nearly dependent."""
    D = s.psi[:, 1:] - s.psi[:, :1]
    return lambda_min(D @ np.swapaxes(D, 1, 2)) >= 0.01


@PAPER.upper(
    "theorem_4_2",
    ref="Theorem 4.2 (B.2 from scratch)",
    tex=r"J(\pi_{i,tar};r_i^\star)-J(\hat\pi_i;r_i^\star)\le c_2\sqrt{\frac{\log(\mathcal N/"
    r"\delta)}{NN_p\nu}+\frac{kd_2+\log(N/\delta)}{N_p}+\frac1\nu\sqrt{\frac{\Sigma_{tail}}N}+b_i}",
    on=rc.Space(
        fields={
            "theta": rc.reals("d1", magnitude=(0.1, 3.0)),
            "shift": rc.reals("d1", magnitude=(0.1, 3.0)),
            "psi": rc.reals("T", "d1", magnitude=(0.1, 3.0)),
            "seen": rc.whole_numbers(low=1, high=3),
            **LIMITS,
        },
        sizes={"T": (2, 3), "d1": (2, 3)},
        view=_one,
        given={
            "nu >= 0.01": lambda s: (s.theta * s.theta).sum(axis=-1) >= 0.01,
            "the trajectories differ": _apart,
        },
        batched=True,
        meaning={
            "theta": "Theta*",
            "shift": "what a maximum of the likelihood may add where no comparison sees it",
            "psi": "features of the trajectories",
            "seen": "so many of them appear in the data",
            "C": "c2",
        },
    ),
    expect="violated",
    note="c2 hides the concentrability of Definition A.3, which Park et al.'s theorem shows and "
    "this one does not: the last display of B.2's proof has C_r^2 in its constant. With a "
    "trajectory that the data do not show, C_r is infinite and the loss the same for all N_p. "
    "(C.3) bounds zeta from above, so that zeta = 0, no pessimism, is allowed. Nor are Assumption "
    "2's N_p >= N_unif and its delta in the statement.",
    corrected="theorem_4_2_corrected",
    main=True,
)
def theorem_4_2(
    theta: Numbers,
    shift: Numbers,
    psi: Numbers,
    seen: Numbers,
    n: Numbers,
    delta: Numbers,
    C: Numbers,
) -> rc.Sides:
    """J(pi_tar; r*_i) - J(pi_hat_i; r*_i) <= c2 sqrt(log(N_br/delta)/(N N_p nu) + (k d2 +
    log(N/delta))/N_p + sqrt(Sigma_tail/N)/nu + b_i); here N = k = d2 = 1.

    One user, d2 = k = 1: theta, shift (..., d1), psi (..., T, d1). The maximum is theta plus what
    of ``shift`` no comparison sees; the best trajectory is the target and zeta = 0. With it C times
    Theorem 4.2's bound for N = 1, nu = ||theta||^2, Sigma_tail = b = 0.
    """
    T, d1 = psi.shape[-2:]
    shown = np.where(np.arange(1, T) < seen[..., None], 1, 0)
    D = (psi[..., 1:, :] - psi[..., :1, :]) * shown[..., None]
    filled = D @ transpose(D) + np.eye(T - 1, dtype=int) * (1 - shown)[..., None]
    column = shift[..., None]
    Z = (column - transpose(D) @ (inverse(filled) @ (D @ column)))[..., 0]
    value = (psi @ theta[..., None])[..., 0]
    chosen = (psi @ (theta + Z)[..., None])[..., 0].argmax(axis=-1)
    loss = value.max(axis=-1) - np.take_along_axis(value, chosen[..., None], axis=-1)[..., 0]
    nu = (theta * theta).sum(axis=-1)
    logs = (d1 + 1) * np.log(n) - np.log(delta)
    return loss, C * np.sqrt(logs / (n * nu) + (1 - np.log(delta)) / n)


def _chosen(*, policies: Any, reference: Any, psi: Any, **others: Any) -> SimpleNamespace:
    return SimpleNamespace(v=against(policies, reference, flat(psi)), psi=psi, **others)


@PAPER.upper(
    "theorem_4_2_corrected",
    ref="Theorem 4.2, corrected, for linear rewards and any estimate and zeta",
    tex=r"J(\pi_{tar};r_i^\star)-J(\hat\pi_i;r_i^\star)\le\|v_{tar}\|(\sqrt\zeta+e_i)+\|\hat v_i"
    r"\|(e_i-\sqrt\zeta)",
    on=PESSIMISTS,
    note="v = E_pi psi - E_ref psi. With pessimism only the target has to be near the data, and "
    "zeta must be at least e_i^2, for which psl.eq_B1_corrected is the bound; e_i^2 itself needs "
    "coverage.",
    derivation="The choice has <v_hat, Theta_hat> - sqrt(zeta) ||v_hat|| >= the same for v_tar; "
    "|<v, Theta* - Theta_hat>| <= ||v|| e_i twice.",
    main=True,
)
def theorem_4_2_corrected(chooser: Any) -> rc.Sides:
    """J(pi_tar; r*_i) - J(pi_hat_i; r*_i) <= ||v_tar|| (sqrt(zeta) + e_i) + ||v_hat|| (e_i -
    sqrt(zeta)), e_i = ||Theta_hat_i - Theta*_i||_F: 2 ||v_tar|| sqrt(zeta) for zeta >= e_i^2.
    """
    return chooser.value_gap()


COROLLARY_4_1 = replace(
    theorem_4_2,
    id="psl.corollary_4_1",
    source="P-ShareLoRA, Corollary 4.1",
    text="(1/N) sum_i (J(pi_tar; r*_i) - J(pi_hat_i; r*_i)) <= c3 sqrt(log(N_br/delta)/(N N_p nu) "
    "+ (k d2 + log(N/delta))/N_p + sqrt(Sigma_tail/N)/nu); here N = k = d2 = 1.",
    latex=r"\frac1N\sum_i(J(\pi_{i,tar};r_i^\star)-J(\hat\pi_i;r_i^\star))\le c_3\sqrt{\frac{\log"
    r"(\mathcal N/\delta)}{NN_p\nu}+\frac{kd_2+\log(N/\delta)}{N_p}+\frac1\nu\sqrt{\frac{"
    r"\Sigma_{tail}}N}}",
    note="As psl.theorem_4_2. That the mean of b_i, Sigma_tail/N, is left out needs nu "
    "sqrt(Sigma_tail/N) bounded, which Corollary B.1 assumes and this one does not; it is true "
    "with a constant that depends on B: psl.corollary_B1_condition.",
    corrected="psl.corollary_4_1_corrected",
)


def _mean(*, policies: Any, reference: Any, **others: Any) -> SimpleNamespace:
    s = view_with_fit(**others)
    s.v = against(policies, reference, flat(s.pairs.psi))
    return s


@PAPER.upper(
    "corollary_4_1_corrected",
    ref="Corollaries 4.1 and B.1, corrected, for linear rewards and zeta = 0",
    tex=r"\frac1N\sum_i(J(\pi_{i,tar};r_i^\star)-J(\hat\pi_i;r_i^\star))\le\frac Vm\sqrt{\frac"
    r"\eta{\lambda_{\min}}}",
    on=replace(space_with_fit(POLICIES, meaning=POLICIES_MEANING, sizes={"K": (2, 3)}), view=_mean),
    note="Without 1/nu, without (k d2 + log(N/delta))/N_p and without a condition on N: the mean "
    "over users needs the sum of the errors alone, not the columns. The bias is "
    "sqrt(Sigma_tail/N), not its root.",
    derivation="Each gap is at most (||v_tar|| + ||v_hat||) e_i (psl.theorem_4_2_corrected); "
    "Cauchy-Schwarz, and 4 m^2 lambda_min sum e_i^2 <= N eta (psl.lemma_5_coverage). eta: "
    "psl.theorem_4_1_corrected.",
    main=True,
)
def corollary_4_1_corrected(
    users: Adaptation, fit: Adaptation, pairs: Pairs, v: Numbers
) -> rc.Sides:
    """The mean gap is at most (V/m) sqrt(eta/lambda_min), eta = (1/N) sum_i E||P_i - P*_i||_1^2, V
    the longest v; eta <= 4 L1^2 Sigma_tail/N + (4/(N N_p)) (log(1/delta) + 2 log(M/delta)) with
    chance 1 - 2 delta.

    eta = (1/N) sum_i E ||P_i - P*_i||_1^2, V the longest v, m the least Phi'.
    """
    chosen = choosers(users.delta, fit.delta, v, 0 * fit.b)
    m = pairs.steepness(users.delta, fit.delta)
    eta = pairs.apart(fit.delta, users.delta) / users.users
    longest = norm(v).max(axis=-1)
    measured = chosen.gap.mean(axis=-1)
    least = lambda_min(pairs.moment)
    return measured * m * np.sqrt(np.maximum(least, 0 * least)), longest * np.sqrt(eta)


def _sized(*, left: Any, right: Any, small: Any, **others: Any) -> SimpleNamespace:
    scale = np.stack([1 + 0 * small, small], axis=-1)
    delta = (left * scale[:, None, :])[:, None] @ right
    return _chosen(users=Adaptation(delta, 2), **others)


@PAPER.upper(
    "corollary_B1",
    ref="Corollary B.1",
    tex=r"\frac1N\sum_i(J(\pi_{i,tar};r_i^\star)-J(\hat\pi_i;r_i^\star))\le c_4\sqrt{\frac{\log"
    r"(\mathcal N/\delta)}{NN_p}+\sqrt{\frac{\Sigma_{tail}}N}}",
    on=rc.Space(
        fields={
            "left": rc.reals("d1", 2, magnitude=(0.1, 3.0)),
            "right": rc.reals(2, 2, 1, magnitude=(0.1, 3.0)),
            "small": rc.positive(low=1e-6, high=1.0),
            "psi": rc.reals("T", "d1", 1, magnitude=(0.1, 3.0)),
            **POLICIES,
            **LIMITS,
        },
        sizes={"d1": (2, 2), "T": (2, 3), "K": (2, 3)},
        view=_sized,
        given={"sigma_2 > 0": lambda s: s.users.nu > 1e-14},
        batched=True,
        meaning={
            **POLICIES_MEANING,
            "left": "B of Delta Theta* = B W",
            "right": "its W_i",
            "small": "the size of the second of its columns",
            "C": "c4",
        },
    ),
    expect="violated",
    note="Its proof ends with 1/nu and (k d2 + log(N/delta))/N_p under the root; the statement has "
    "neither. 1/nu cannot go: zeta holds it, so that for sigma_k small beside 1/sqrt(N_p) the ball "
    "contains rewards against every policy, (3.5) stays at the reference, and the loss is that of "
    "the reference, even with Theta_hat = Theta*. N >= mu^2 Sigma_tail, mu meaning nu, is what "
    "Sigma_tail/N <= sqrt(Sigma_tail/N)/nu asks.",
    corrected="corollary_4_1_corrected",
)
def corollary_B1(
    users: Adaptation, psi: Numbers, v: Numbers, N_p: Numbers, delta: Numbers, C: Numbers
) -> rc.Sides:
    """With zeta from (B.1) and N >= nu^2 Sigma_tail, the mean gap is at most c4
    sqrt(log(N_br/delta)/(N N_p) + sqrt(Sigma_tail/N)); here Sigma_tail = 0, k = N = 2 and
    Theta_hat = Theta*.

    Sigma_tail = 0, c3 = 1, and N_br is e^(k (d1 + N d2) log(N n)).
    """
    N, (d1, d2), k = users.users, users.delta.shape[-2:], users.k
    logs = k * (d1 + N * d2) * np.log(N * N_p) - np.log(delta)
    heads = (k * d2 + np.log(N / delta)) / N_p
    L1 = np.sqrt(squares(psi).max(axis=-1))
    zeta = np.sqrt((logs / (N * N_p * users.nu) + heads) / 2) / L1
    radius = np.sqrt(zeta)[..., None] + 0 * users.b
    gap = choosers(users.delta, users.delta, v, radius).gap
    return gap.mean(axis=-1), C * np.sqrt(logs / (N * N_p))


@PAPER.upper(
    "corollary_B1_condition",
    ref="Corollary B.1: N >= mu^2 Sigma_tail",
    tex=r"\nu\sqrt{\Sigma_{tail}/N}\le\frac{2B^3}{3\sqrt3\,k}",
    on=users(sizes={"N": (1, 2), "d1": (1, 2), "d2": (1, 2), "k": (1, 1)}),
    note="So Sigma_tail/N is at most 2 B^3/(3 sqrt(3) k) times sqrt(Sigma_tail/N)/nu: the "
    "condition only keeps B out of the constant.",
    derivation="psl.remark_1: nu <= (B^2 - t^2)/k for t^2 = Sigma_tail/N, and t (B^2 - t^2) is "
    "largest at t = B/sqrt 3.",
)
def corollary_B1_condition(users: Adaptation) -> rc.Sides:
    """nu sqrt(Sigma_tail/N) <= 2 B^3/(3 sqrt(3) k) always."""
    B2 = squares(users.delta).max(axis=-1)
    bound = 2 * B2 * np.sqrt(B2 / 3) / (3 * users.k)
    return users.nu * np.sqrt(users.tail / users.users), bound


@PAPER.upper(
    "eq_B1",
    ref="equation (B.1) in (3.4)",
    tex=r"\|\Delta\Theta_i^\star-\Theta_i^\diamond\|_F^2\le\zeta",
    on=users(
        {"L1": rc.positive(low=0.1, high=10.0), "C": rc.positive(low=1.0, high=100.0)},
        given={"sigma_k >= 0.1": unlike(0.1)},
        meaning={"C": "c3"},
    ),
    expect="violated",
    note="Three slips. min over users where the largest is needed: N - 1 users with b_i = 0 and "
    "one with b_1 = b keep min b_i = 0 and Sigma_tail/N = b/N -> 0, so that zeta -> 0 and r*_1 "
    "stays outside, whatever c3 is. A root of squares against a squared norm: b_i is compared with "
    "sqrt(b_i)/L1. And 1/L1 where the terms are not rewards.",
    corrected="eq_B1_corrected",
)
def eq_B1(users: Any, L1: Any, C: Any) -> rc.Sides:
    """r*_i lies in R_i for all i: ||Delta Theta*_i - Delta Theta_hat_i||_F^2 <= zeta from (B.1);
    here N_p = oo and Theta_hat = Theta_diamond.
    """
    return values.confidence(users, L1, C, 1 + 0 * C)


@PAPER.upper(
    "eq_B1_corrected",
    ref="equations (B.1) and (C.3), corrected: a zeta for (3.4)",
    tex=r"\|\Delta\hat\Theta_i-\Delta\Theta_i^\star\|_F^2\le\|\hat W_i-\hat B^\top\Delta"
    r"\Theta_i^\star\|_F^2+(\operatorname{dist}\|W_i^\diamond\|_F+\sqrt{b_i})^2",
    on=FITTED,
    note="One zeta for all users takes the largest right side, so max b_i.",
    derivation="Pythagoras along and across B_hat; (I - P) Delta Theta*_i = (I - P) B_diamond "
    "W_diamond,i + (I - P)(Delta Theta*_i - Theta_diamond,i), and ||(I - P) B_diamond||_F = dist.",
)
def eq_B1_corrected(users: Adaptation, fit: Adaptation) -> rc.Sides:
    """||Delta Theta_hat_i - Delta Theta*_i||_F^2 <= ||W_hat_i - B_hat'Delta Theta*_i||_F^2 +
    (dist(B_hat, B_diamond) ||W_diamond,i||_F + sqrt(b_i))^2.

    B and W_hat are the fit's, W_i those of Theta_diamond.
    """
    heads = squares(fit.W - transpose(fit.B)[..., None, :, :] @ users.delta)
    distance = sine(fit.B, users.B)[..., None]
    aside = distance * np.sqrt(squares(users.W)) + np.sqrt(users.b)
    return squares(fit.delta - users.delta), heads + aside**2


@PAPER.upper(
    "C3",
    ref="equation (C.3) in (3.4)",
    on=users(
        {"share": rc.interval(), "C": rc.positive(low=1.0, high=100.0)},
        given={"sigma_k >= 0.1": unlike(0.1)},
        meaning={"share": "zeta as a share of (C.3)'s bound", "C": "2 c4^2"},
    ),
    tex=eq_B1.latex,
    expect="violated",
    note="An upper bound admits zeta = 0, whose R_i holds r_hat alone; a lower one is needed. And "
    "as in psl.eq_B1: min for max, a root against a square.",
    corrected="eq_B1_corrected",
)
def c3(users: Adaptation, C: Numbers, share: Any) -> rc.Sides:
    """r*_i lies in R_i for all i with a zeta that satisfies (C.3), zeta <= c4 sqrt(min b_i + ...);
    here N_p = oo and Theta_hat = Theta_diamond.
    """
    return values.confidence(users, 1 + 0 * C, C, share)


@PAPER.upper(
    "def_A3",
    ref="Definition A.3: how large C_r is",
    tex=r"C_r\le\sqrt{\tfrac12\chi^2(\pi_{tar}\|\mu_{ref})}",
    on=rc.Space(
        fields={"target": rc.simplex("T"), "reference": rc.simplex("T"), "r": rc.reals("T")},
        sizes={"T": (2, 4)},
        given={"the reference shows all": lambda s: s.reference.min(axis=-1) >= 0.001},
        batched=True,
        meaning={
            "target": "the law of the trajectory under pi_tar",
            "reference": "that under mu_ref",
            "r": "r*_i - r_i",
        },
    ),
    note="Infinite as soon as pi_tar goes where mu_ref does not and the class tells rewards apart "
    "there; 0/0 for rewards that differ by a constant.",
    derivation="E_pi r - E_mu r = E_mu (pi/mu - 1) r, Cauchy-Schwarz, and the pairs' denominator "
    "is 2 Var_mu r. Attained by r = pi/mu, so sharp for the class of all rewards.",
)
def def_A3(target: Numbers, reference: Numbers, r: Numbers) -> rc.Sides:
    """C_r <= sqrt(chi^2(pi_tar | mu_ref)/2), for every class of rewards.

    chi^2 = sum (target - reference)^2 / reference; all (..., T).
    """
    mean = (reference * r).sum(axis=-1)
    numerator = (target * r).sum(axis=-1) - mean
    pairs = 2 * (reference * (r - mean[..., None]) ** 2).sum(axis=-1)
    chi2 = ((target - reference) ** 2 / reference).sum(axis=-1)
    return np.maximum(numerator, 0 * numerator), np.sqrt(pairs * chi2 / 2)

"""P-ShareLoRA, Theorem 4.2, its corollaries, the sets (3.4) and Definition A.3."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.psharelora.claims._spaces import (
    KINDS,
    KINDS_MEANING,
    KINDS_SIZES,
    crowd_case,
    kinds_of_users,
    unlike,
    users,
)
from experiments.psharelora.claims.main_theorems import CREDIBLE, LIMITS
from experiments.psharelora.claims.parameters import space_with_fit, view_with_fit
from experiments.psharelora.claims.pessimism import PESSIMISTS, POLICIES, POLICIES_MEANING
from experiments.psharelora.claims.subspace import FITTED
from experiments.psharelora.paper import PAPER
from experiments.psharelora.theory import values as values
from experiments.psharelora.theory.pessimism import against, choosers
from experiments.psharelora.theory.preference import Pairs
from experiments.psharelora.theory.subspace import Adaptation, Kinds, flat, inner, sine
from experiments.psharelora.theory.unseen import least_loss, log_brackets, logits_of_shares
from linsys.linalg import Numbers, lambda_min, norm, squares, transpose


def _gap(s: Any) -> Any:
    """The difference of the first two trajectories' rewards."""
    x = s.psi[..., 0, :] - s.psi[..., 1, :]
    return np.abs((x * s.theta).sum(axis=-1))


def _concentrated(s: Any) -> Any:
    """N_p >= N_unif of psl.assumption_2 for one direction, where (Delta r)^2 <= 2 D."""
    h = 11 * np.log(1 + 1 / (10 + 0 * s.N_p)) / 10 - 1 / (10 + 0 * s.N_p)
    return s.N_p * h >= 2 * np.log(2 / s.delta)


COMPARED = rc.Space(
    fields={
        "theta": rc.reals("d1", magnitude=(0.1, 3.0)),
        "psi": rc.reals("T", "d1", magnitude=(0.1, 3.0)),
        **LIMITS,
    },
    sizes={"T": (3, 4), "d1": (2, 4)},
    assumes={"Assumption 2, N_p >= N_unif": _concentrated},
    given={
        "nu >= 0.01": lambda s: (s.theta * s.theta).sum(axis=-1) >= 0.01,
        "rewards of the two differ by 0.1 to 2": lambda s: (10 * _gap(s) >= 1) & (_gap(s) <= 2),
    },
    batched=True,
    meaning={
        "theta": "Theta*",
        "psi": "features of the trajectories; only the first two are compared",
        "C": "c2",
    },
    credible=CREDIBLE,
    constructed="one user, d2 = 1; mu_0, mu_1 and the reference show the first two trajectories, "
    "each with chance 1/2, and the target is the better one of these",
)


def _compared_case(N_p: float, C: float) -> dict[str, Any]:
    """A third trajectory that only seems to be better than the two that are compared."""
    return {
        "theta": [1.0, -1.5],
        "psi": [[0.5, 0.0], [-0.5, 0.0], [1.0, 1.0]],
        "N_p": N_p,
        "delta": 0.1,
        "C": C,
    }


@PAPER.upper(
    "theorem_4_2",
    ref="Theorem 4.2 (B.2 from scratch)",
    tex=r"J(\pi_{i,tar};r_i^\star)-J(\hat\pi_i;r_i^\star)\le c_2\sqrt{\frac{\log(\mathcal N/"
    r"\delta)}{NN_p\nu}+\frac{kd_2+\log(N/\delta)}{N_p}+\frac1\nu\sqrt{\frac{\Sigma_{tail}}N}+b_i}",
    on=COMPARED,
    expect="violated",
    note="The estimate's policy leaves the data, and a bounded concentrability of the target does "
    "not hold it back. Features (1/2, 0)', (-1/2, 0)' and (1, 1)', Theta* = (1, -3/2)': rewards "
    "1/2, -1/2, -1/2. Only the first two are compared, half of the time each: C_r of the first "
    "one is 1/sqrt 2. The maximum of least norm tends to (1, 0)', under which the third "
    "trajectory is worth 1 and the first one 1/2. So it is chosen, at a loss of 1, with zeta = 0, "
    "which (C.3) allows, and for large N_p with (B.1) as well, as its ball shrinks while Theta* "
    "stays at the distance 3/2; and so with every zeta between, as a worst value is linear in "
    "sqrt(zeta). Nor does another choice among the maxima help: with a fourth "
    "trajectory, features (1, -1)', and policies that are trajectories, the third or the fourth "
    "one is chosen whatever the estimate's second entry is; Theta* and (1, 3/2)' have the same "
    "comparisons, and one of them loses 1 with chance 0.45 or more. The proof drops the second "
    "bracket as if r*_i were in R_i (psl.B2_pessimism), which takes coverage "
    "(psl.lemma_5_mean_value). c2 also hides C_r, which Park et al.'s theorem shows: the last "
    "display of B.2's proof has C_r^2 in its constant, and for a target that the data do not show "
    "C_r is infinite. Nor are Assumption 2's N_p >= N_unif and its delta in the statement.",
    corrected="theorem_4_2_corrected",
    uses=[
        "lemma_6_bound",
        "B2_zeta_step",
        "B2_concentrability",
        "B2_pessimism",
        "eq_B1",
        "C3",
        "def_A3",
    ],
    family=[_compared_case(n, C) for n, C in ((1e4, 1.0), (1e6, 3.0), (1e9, 30.0), (1e12, 100.0))],
    main=True,
)
def theorem_4_2(theta: Numbers, psi: Numbers, N_p: Numbers, delta: Numbers, C: Numbers) -> rc.Sides:
    """J(pi_tar; r*_i) - J(pi_hat_i; r*_i) <= c2 sqrt(log(N_br/delta)/(N N_p nu) + (k d2 +
    log(N/delta))/N_p + sqrt(Sigma_tail/N)/nu + b_i); here N = k = d2 = 1, so that Sigma_tail = 0
    and b_i = 0, N_br is bounded as in Proposition 1, zeta is (B.1) with c3 = c2^2 and this bound,
    or zero, whichever loses less, Theta_hat is the maximum of least norm, and the left side is what
    is lost at least with chance 0.9.

    More than 0.45 N_p comparisons show both trajectories but for a chance below e^-40, and their
    share of wins is then within 2/sqrt(N_p) of Phi but for a chance of 0.055. Policies are the T
    trajectories.
    """
    x = psi[..., 0, :] - psi[..., 1, :]
    t = logits_of_shares((x * theta).sum(axis=-1), N_p)
    nu = (theta * theta).sum(axis=-1)
    # the class holds Theta* and the estimate
    B2 = np.maximum(nu, (t * t).max(axis=-1) / (x * x).sum(axis=-1))
    L1 = norm(psi).max(axis=-1)
    user = Adaptation(theta[..., None, :, None], 1)
    logs = log_brackets(user, L1, B2, N_p, delta)
    bound = C * np.sqrt(logs / (N_p * nu) + (1 - np.log(delta)) / N_p)
    zeta = bound / (np.sqrt(2 + 0 * L1) * L1)
    lost = [least_loss(theta, psi, t, radius) for radius in (0 * zeta, np.sqrt(zeta))]
    return np.minimum(*lost), bound


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
    sqrt(zeta)), e_i = ||Theta_hat_i - Theta*_i||_F, v_tar = E_pi_tar psi - E_ref psi and v_hat the
    same of pi_hat_i; at most 2 ||v_tar|| sqrt(zeta) for zeta >= e_i^2.
    """
    return chooser.value_gap()


COROLLARY_4_1 = replace(
    theorem_4_2,
    id="psl.corollary_4_1",
    source="P-ShareLoRA, Corollary 4.1",
    text="(1/N) sum_i (J(pi_tar; r*_i) - J(pi_hat_i; r*_i)) <= c3 sqrt(log(N_br/delta)/(N N_p nu) "
    "+ (k d2 + log(N/delta))/N_p + sqrt(Sigma_tail/N)/nu); here N = k = d2 = 1, with N_br, zeta, "
    "the estimate and the left side of psl.theorem_4_2.",
    latex=r"\frac1N\sum_i(J(\pi_{i,tar};r_i^\star)-J(\hat\pi_i;r_i^\star))\le c_3\sqrt{\frac{\log"
    r"(\mathcal N/\delta)}{NN_p\nu}+\frac{kd_2+\log(N/\delta)}{N_p}+\frac1\nu\sqrt{\frac{"
    r"\Sigma_{tail}}N}}",
    uses=("psl.theorem_4_2", "psl.corollary_B1"),
    note="As psl.theorem_4_2, for one user; for each c_3 some N_p is enough, for c_3 = 100 N_p = "
    "10^12. That the mean of b_i, Sigma_tail/N, is left out needs nu sqrt(Sigma_tail/N) bounded, "
    "which Corollary B.1 assumes and this one does not; it is true with a constant that depends on "
    "B: psl.corollary_B1_condition.",
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
    uses=["theorem_4_2_corrected", "lemma_5_coverage", "theorem_4_1_corrected"],
    derivation="Each gap is at most (||v_tar|| + ||v_hat||) e_i (psl.theorem_4_2_corrected); "
    "Cauchy-Schwarz, and 4 m^2 lambda_min sum e_i^2 <= N eta (psl.lemma_5_coverage). eta: "
    "psl.theorem_4_1_corrected.",
    main=True,
)
def corollary_4_1_corrected(
    users: Adaptation, fit: Adaptation, pairs: Pairs, v: Numbers
) -> rc.Sides:
    """The mean gap is at most (V/m) sqrt(eta/lambda_min), eta = (1/N) sum_i E||P_i - P*_i||_1^2, V
    the length of the longest v = E_pi psi - E_ref psi; eta <= 4 L1^2 Sigma_tail/N + (4/(N N_p))
    (log(1/delta) + 2 log(M/delta)) with chance 1 - 2 delta for the maximum over M candidates,
    Theta_diamond one of them. m is the least Phi' of the rewards' differences, lambda_min the least
    eigenvalue of E xx', x = vec(psi(tau0) - psi(tau1)). The first inequality is measured.
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
    return SimpleNamespace(users=Adaptation(delta, 2), **others)


def _rewards(users: Adaptation, psi: Numbers) -> Numbers:
    """All users' differences of the two trajectories' rewards, (..., N)."""
    return np.asarray(inner(users.delta, (psi[..., 0, :, :] - psi[..., 1, :, :])[..., None, :, :]))


def _apart_enough(s: Any) -> Any:
    gaps = np.abs(_rewards(s.users, s.psi))
    return (5 * gaps.mean(axis=-1) >= 1) & (gaps.max(axis=-1) <= 2)


def _small_case(N_p: float, C: float) -> dict[str, Any]:
    """Two users; the second one's Theta* is 1/(2 sqrt(N_p)), orthogonal to the first one's."""
    return {
        "left": [[1.0, 0.0], [0.0, 1.0]],
        "right": [[[1.0], [0.0]], [[0.0], [1.0]]],
        "small": float(0.5 / np.sqrt(N_p)),
        "psi": [[[1.0], [0.0]], [[0.0], [0.0]]],
        "N_p": N_p,
        "delta": 0.1,
        "C": C,
    }


@PAPER.upper(
    "corollary_B1",
    ref="Corollary B.1",
    tex=r"\frac1N\sum_i(J(\pi_{i,tar};r_i^\star)-J(\hat\pi_i;r_i^\star))\le c_4\sqrt{\frac{\log"
    r"(\mathcal N/\delta)}{NN_p}+\sqrt{\frac{\Sigma_{tail}}N}}",
    on=rc.Space(
        fields={
            "left": rc.reals("d1", 2, magnitude=(0.1, 3.0)),
            "right": rc.reals(2, 2, 1, magnitude=(0.1, 3.0)),
            "small": rc.positive(low=1e-5, high=1.0),
            "psi": rc.reals(2, "d1", 1, magnitude=(0.1, 3.0)),
            **LIMITS,
            "N_p": rc.positive(low=1e4, high=1e8),
        },
        sizes={"d1": (2, 3)},
        view=_sized,
        assumes={
            "Assumption 2, N_p >= N_unif": _concentrated,
            "N >= nu^2 Sigma_tail": lambda s: s.users.nu**2 * s.users.tail <= s.users.users,
        },
        given={
            "sigma_2 > 0": lambda s: s.users.nu >= 1e-9,
            "rewards differ by 0.2 on average and by at most 2": _apart_enough,
        },
        batched=True,
        meaning={
            "left": "B of Delta Theta* = B W",
            "right": "its W_i",
            "small": "the size of the second of its columns",
            "psi": "features of the two trajectories",
            "C": "c4",
        },
        credible=CREDIBLE,
        constructed="two users, two trajectories, and the second column of B of any size, as "
        "sigma_k is to be small",
    ),
    expect="violated",
    note="Its proof ends with 1/nu and (k d2 + log(N/delta))/N_p under the root; the statement has "
    "neither. 1/nu cannot go: zeta holds it, so that for sigma_k small beside 1/sqrt(N_p) the ball "
    "contains rewards against every policy, (3.5) stays at the reference, and the loss is that of "
    "the reference. Two trajectories with features e1 and 0, Theta*_1 = e1, Theta*_2 = s e2, k = 2 "
    "and nu = s^2/2. With s^2 = 1/(4 N_p) zeta^2 is at least 2 log(N_br/delta), which is 4.6 or "
    "more for delta = 0.1, whatever N_br is; the first user could gain 1/2 over the reference, "
    "which shows both trajectories alike, and gains nothing, while the bound falls like "
    "1/sqrt(N_p), up to a logarithm. N >= mu^2 Sigma_tail, mu meaning nu, is what "
    "Sigma_tail/N <= sqrt(Sigma_tail/N)/nu asks.",
    corrected="corollary_4_1_corrected",
    uses=["theorem_4_2"],
    family=[_small_case(n, C) for n, C in ((1e4, 1.0), (1e6, 3.0), (1e8, 30.0))],
)
def corollary_B1(
    users: Adaptation, psi: Numbers, N_p: Numbers, delta: Numbers, C: Numbers
) -> rc.Sides:
    """With zeta from (B.1) and N >= nu^2 Sigma_tail, the mean gap is at most c4
    sqrt(log(N_br/delta)/(N N_p) + sqrt(Sigma_tail/N)); here Sigma_tail = 0, k = N = 2, c3 = 1, N_br
    is at least one in zeta and at most that of Proposition 1 in the bound, and the left side is
    what is lost at least with chance 0.8.

    Two trajectories, half of the reference each, and all policies. Against the reference the policy
    that goes to the first one with chance p is worth (p - 1/2) t_i at the estimate, whose t_i is
    the logit of the share of wins, and by at most |p - 1/2| ||x|| sqrt(zeta) less: where |t_i| is
    below ||x|| sqrt(zeta) the reference is chosen, and half of |<Theta*_i, x>| is lost.
    """
    N, d2, k = users.users, users.delta.shape[-1], users.k
    L1 = np.sqrt(squares(psi).max(axis=-1))
    logs = log_brackets(users, L1, squares(users.delta).max(axis=-1), N_p, delta)
    heads = (k * d2 + np.log(N / delta)) / N_p
    zeta = np.sqrt((-np.log(delta) / (N * N_p * users.nu) + heads) / 2) / L1
    reach = np.sqrt(zeta * squares(psi[..., 0, :, :] - psi[..., 1, :, :]))
    gaps = _rewards(users, psi)
    logits = np.abs(logits_of_shares(gaps, N_p[..., None])).max(axis=-1)
    lost = np.where(logits < reach[..., None], np.abs(gaps) / 2, 0 * gaps)
    return lost.mean(axis=-1), C * np.sqrt(logs / (N * N_p))


@PAPER.upper(
    "corollary_B1_condition",
    ref="Corollary B.1: N >= mu^2 Sigma_tail",
    tex=r"\nu\sqrt{\Sigma_{tail}/N}\le\frac{2B^3}{3\sqrt3\,k}",
    on=users(sizes={"N": (1, 2), "d1": (1, 2), "d2": (1, 2), "k": (1, 1)}),
    note="So Sigma_tail/N is at most 2 B^3/(3 sqrt(3) k) times sqrt(Sigma_tail/N)/nu: the "
    "condition only keeps B out of the constant.",
    uses=["remark_1"],
    derivation="psl.remark_1: nu <= (B^2 - t^2)/k for t^2 = Sigma_tail/N, and t (B^2 - t^2) is "
    "largest at t = B/sqrt 3.",
    printed_as="ours",
)
def corollary_B1_condition(users: Adaptation) -> rc.Sides:
    """From scratch nu sqrt(Sigma_tail/N) <= 2 B^3/(3 sqrt(3) k) always."""
    B2 = squares(users.delta).max(axis=-1)
    bound = 2 * B2 * np.sqrt(B2 / 3) / (3 * users.k)
    return users.nu * np.sqrt(users.tail / users.users), bound


@PAPER.upper(
    "eq_B1",
    ref="equation (B.1) in (3.4)",
    tex=r"\|\Delta\Theta_i^\star-\Theta_i^\diamond\|_F^2\le\zeta",
    on=users(
        {
            **KINDS,
            "C": rc.positive(low=100.0, high=1000.0),
        },
        sizes=KINDS_SIZES,
        view=kinds_of_users,
        given={"nu >= 0.01": lambda s: 100 * s.kinds.nu >= 1},
        meaning={**KINDS_MEANING, "C": "c3"},
        constructed="Theta_hat is Theta_diamond, as for N_p = oo and equal Fisher informations",
    ),
    expect="violated",
    note="Three slips. min over users where the largest is needed: N - 1 users with Theta* = (1, "
    "0)' and one with (1, 1)', k = 1. As N grows the last one's b tends to 1, while the others' "
    "b_i, of order 1/N^2, and sqrt(Sigma_tail/N)/nu, of order 1/sqrt(N), tend to zero: zeta does, "
    "too, whatever c3 is, and r*_i stays outside of R_i. A root of squares against a squared norm: "
    "b_i is compared with sqrt(b_i)/L1. And 1/L1 where the terms are not rewards.",
    corrected="eq_B1_corrected",
    family=[{**crowd_case(n), "C": C} for n, C in ((4.0, 100.0), (5.0, 300.0), (6.0, 1000.0))],
    printed_as="ours",
)
def eq_B1(kinds: Kinds, C: Numbers) -> rc.Sides:
    """r*_i lies in R_i for all i: ||Delta Theta*_i - Delta Theta_hat_i||_F^2 <= zeta from (B.1);
    here N_p = oo, Theta_hat = Theta_diamond and L1 = 1.
    """
    return values.confidence(kinds.b, kinds.nu, kinds.spread, 1 + 0 * C, C)


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


def _alone(s: Any) -> Any:
    """Whether B_diamond is far from being another one."""
    sigma2, k = s.users.sigma2, s.users.k
    return sigma2[..., k - 1] >= 2 * sigma2[..., k:].sum(axis=-1)


@PAPER.upper(
    "C3",
    ref="equation (C.3) in (3.4)",
    on=users(
        {"share": rc.interval(high=0.1), "C": rc.positive(low=1.0, high=100.0)},
        given={"sigma_k >= 0.1": unlike(0.1), "sigma_k^2 >= 2 sigma_(k+1)^2": _alone},
        meaning={"share": "zeta as a share of (C.3)'s bound", "C": "2 c4^2"},
        constructed="Theta_hat is Theta_diamond, as for N_p = oo and equal Fisher informations",
    ),
    tex=eq_B1.latex,
    expect="violated",
    note="An upper bound admits zeta = 0, whose R_i holds r_hat alone; a lower one is needed. And "
    "as in psl.eq_B1: min for max, a root against a square.",
    corrected="eq_B1_corrected",
    printed_as="ours",
)
def c3(users: Adaptation, C: Numbers, share: Any) -> rc.Sides:
    """r*_i lies in R_i for all i with any zeta that satisfies (C.3), zeta <= c4
    sqrt(min b_i + ...); here N_p = oo and Theta_hat = Theta_diamond.
    """
    spread = users.tail / users.users
    b, zeta = values.confidence(users.b, users.nu, spread, 1 + 0 * C, C)
    return b, share[..., None] * zeta


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
    printed_as="ours",
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

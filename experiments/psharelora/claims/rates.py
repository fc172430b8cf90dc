"""P-ShareLoRA, Theorem 4.1 and Remark 3: exponents, from exact values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

import ratecheck as rc
from experiments.psharelora.paper import PAPER
from experiments.psharelora.theory import rates as at
from experiments.psharelora.theory.preference import Pairs
from experiments.psharelora.theory.subspace import Adaptation, sine
from linsys.linalg import squares

#: Features, directions and a rest without structure; the exponents do not depend on them.
_RNG = np.random.default_rng(20250711)
_T, _D1, _D2, _USERS = 8, 3, 2, 4
PSI = _RNG.normal(size=(_T, _D1, _D2))
LEFT = _RNG.normal(size=(_D1, 1))
RIGHT = _RNG.normal(size=(_USERS, 1, _D2))
REST = _RNG.normal(size=(_USERS, _D1, _D2))
_EVEN = np.full(_T, 1 / _T)
PAIRS = Pairs(PSI[None], _EVEN[None], _EVEN[None])
#: sigma_1 for which Phi' is 1/4 up to a thousandth, and a tail so small beside sigma_1^2 = 1 that
#: the next order, its root, is below a thousandth.
_FAINT, _SMALL = 0.01, 1e-8


def _users(sigma: float, tail: float, copies: int = 1) -> Adaptation:
    """Rank one with sigma_1 = sigma and Sigma_tail = tail, ``copies`` of each user."""
    shared = (LEFT @ RIGHT)[None]
    left, W = Adaptation(shared, 1).B, Adaptation(shared, 1).joint
    along = W.swapaxes(-1, -2) @ W / (W**2).sum()
    joint = Adaptation(REST[None], 1).joint
    across = joint - left @ (left.swapaxes(-1, -2) @ joint)
    across = across - across @ along
    both = sigma * W / np.sqrt((W**2).sum()) + np.sqrt(tail) * across / np.sqrt((across**2).sum())
    delta = both.reshape(1, _D1, _USERS, _D2).swapaxes(1, 2)
    return Adaptation(np.concatenate([delta] * copies, axis=1), 1)


def _floor(sigma: float, tail: float) -> float:
    """dist^2 of the expected likelihood's maximum."""
    users = _users(sigma, tail)
    return float(sine(at.population(PAIRS, users).B, users.B)[0] ** 2)


def _error(sigma: float, tail: float) -> float:
    """||Theta_hat - Theta*||_F there, which bounds every policy's loss up to a constant."""
    users = _users(sigma, tail)
    fit = at.population(PAIRS, users)
    return float(np.sqrt(squares(fit.delta - users.delta).sum(axis=-1))[0])


def _regime(
    name: str, variable: str, predicted: float, value: Callable[[float], float], first: float
) -> rc.Regime:
    """The exponent between a value and its double."""
    slope = float(np.log2(value(2 * first) / value(first)))
    return rc.Regime(name, variable, predicted, slope, slope, slope)


def bias(predicted: float) -> Sequence[rc.Regime]:
    """The exponent of dist^2 in 1 / Sigma_tail, for strong and for faint preferences."""

    def value(sigma: float, less: float) -> float:
        return _floor(sigma, _SMALL * sigma**2 / less)

    return [
        _regime(name, "1/Sigma_tail", predicted, partial(value, sigma), 1.0)
        for name, sigma in (("rewards of size one", 1.0), ("small rewards", 0.1))
    ]


def variance(predicted: dict[str, float]) -> Sequence[rc.Regime]:
    """Exponents of lim N_p E dist^2 in the number of users and in nu."""

    def users(count: float) -> float:
        return float(at.spread(PAIRS, _users(1.0, 0.0, int(count)))[0])

    def nu(size2: float) -> float:
        return float(at.spread(PAIRS, _users(float(np.sqrt(size2)), 0.0))[0])

    values = {"N": (users, 8.0), "nu": (nu, _FAINT**2)}
    return [_regime(f"in {name}", name, power, *values[name]) for name, power in predicted.items()]


def worst(predicted: float) -> Sequence[rc.Regime]:
    """The exponent of the largest expected loss of two trajectories in N_p."""
    regimes = []
    for n in (401, 1601):
        more = 4 * n + 1  # odd as well
        slope = float(np.log(at.worst_gap(more) / at.worst_gap(n)) / np.log(more / n))
        regimes.append(rc.Regime(f"N_p around {n}", "N_p", predicted, slope, slope, slope))
    return regimes


def tail_loss(predicted: float) -> Sequence[rc.Regime]:
    """The exponent of ||Theta_hat - Theta*||_F in 1 / Sigma_tail, all data."""

    def value(less: float) -> float:
        return _error(1.0, _SMALL / less)

    return [_regime("rewards of size one", "1/Sigma_tail", predicted, value, 1.0)]


@PAPER.rate(
    "theorem_4_1_bias",
    ref="Theorem 4.1: the second term",
    tex=r"\operatorname{dist}^2\sim\frac1\nu\sqrt{\frac{\Sigma_{tail}}N}",
    expect="faster than stated",
    note="dist^2 of the exact maximum of the expected likelihood is linear in Sigma_tail, not of "
    "its root: 1/2 in place of 1/4 for dist. The proof loses it in Lemma 4, which bounds each "
    "logarithm by the first order of the difference, while their mean, a divergence, is of second "
    "order (psl.lemma_4_chance).",
    corrected="theorem_4_1_corrected",
    uses=["theorem_4_1"],
)
def theorem_4_1_bias() -> Sequence[rc.Regime]:
    """For N_p = oo dist^2 is of the order sqrt(Sigma_tail/N)/nu."""
    return bias(-0.5)


THEOREM_4_1_BIAS_SHARP = replace(
    theorem_4_1_bias,
    id="psl.theorem_4_1_bias_sharp",
    source="P-ShareLoRA, Theorem 4.1 corrected: the exponent of Sigma_tail is attained",
    text="For N_p = oo, fixed N and nu and features in general dist^2 is of the order Sigma_tail.",
    latex=r"\operatorname{dist}^2\sim\Sigma_{tail}",
    regimes=partial(bias, -1.0),
    expect="consistent",
    uses=["psl.theorem_4_1_floor"],
    note="It is not zero to first order, although B_diamond is the best of rank k: maximum "
    "likelihood minimises a weighted norm (psl.theorem_4_1_floor).",
    corrected=None,
    derivation="The tangent step of psl.theorem_4_1_floor is linear in the rest.",
    sharpens="psl.theorem_4_1_bias",
)


@PAPER.rate(
    "theorem_4_1_users",
    ref="Theorem 4.1 with Proposition 1: more users",
    tex=r"N_p\operatorname{dist}^2\sim\frac{k(d_1+Nd_2)}{N\nu}",
    expect="faster than stated",
    note="The exact variance of maximum likelihood falls like 1/N with nu fixed: every user adds "
    "information on the shared columns. The bound counts the users' own heads as well "
    "(psl.prop_1_users). The limits are N_p -> oo first: for N -> oo with N_p fixed the heads' "
    "errors leave a bias of dist (Neyman and Scott's) of the order 1/N_p, unless features "
    "favour no side of B_diamond.",
    corrected="theorem_4_1_variance",
    uses=["theorem_4_1", "prop_1"],
)
def theorem_4_1_users() -> Sequence[rc.Regime]:
    """N_p dist^2 is of the order k (d1 + N d2)/(N nu): N^0 for many users and a given nu."""
    return variance({"N": 0.0})


THEOREM_4_1_USERS_SHARP = replace(
    theorem_4_1_users,
    id="psl.theorem_4_1_users_sharp",
    source="P-ShareLoRA, Theorem 4.1, the exponents of the variance",
    text="N_p dist^2, as N_p -> oo, is of the order 1/N for many users and, for rewards in a given "
    "range, of the order 1/nu.",
    latex=r"N_p\operatorname{dist}^2\sim\frac1{N\nu}",
    regimes=partial(variance, {"N": -1.0, "nu": -1.0}),
    expect="consistent",
    uses=["psl.theorem_4_1_variance"],
    note="Measured in N and nu alone, for d1 = 3, d2 = 2 and k = 1. In the printed k (d1 + N d2)/"
    "(N nu) the exponent of N tends to 0.",
    corrected=None,
    derivation="From above psl.theorem_4_1_variance. From below 4 (d1 - k)/(lambda_max N nu), as "
    "the information of C is at most lambda_max/4 times W W' x I.",
    sharpens="psl.theorem_4_1_users",
)


@PAPER.rate(
    "remark_3",
    ref="Remark 3",
    tex=r"N_p=O\Big(\frac{d_1k+Nd_2k}{N\epsilon}\log\frac N\delta\Big)",
    expect="violated",
    note="Corollary 4.1 has a root: it gives 1/epsilon^2, and that is what it takes. Two "
    "trajectories whose rewards differ by r = 1.5/sqrt(N_p) are confused with a fixed chance after "
    "N_p comparisons: a loss of the order 1/sqrt(N_p). nu need not be small for that: the pair may "
    "differ along one coordinate of a column whose other one is 1. The same for the full-parameter "
    "and Park et al.'s counts beside it; the true exponent is psl.remark_3_corrected. 1/nu and the "
    "log(N N_p) of Proposition 1 are missing as well, and Assumption 2 asks for N_p >= d1 d2, or "
    "min(2k, d2) d1 if it is about G'_r (psl.assumption_2_few).",
    corrected="corollary_4_1_corrected",
    main=True,
    uses=["corollary_4_1", "prop_1"],
)
def remark_3() -> Sequence[rc.Regime]:
    """A loss of epsilon needs N_p = O(1/epsilon) comparisons, other sizes fixed: the loss is of the
    order 1/N_p.
    """
    return worst(-1.0)


REMARK_3_CORRECTED = replace(
    remark_3,
    id="psl.remark_3_corrected",
    source="P-ShareLoRA, Remark 3, corrected",
    printed_as="ours",
    uses=("psl.corollary_4_1_corrected",),
    text="For linear rewards, features that span and other sizes fixed a loss of epsilon needs "
    "N_p of the order 1/epsilon^2: the largest loss is of the order 1/sqrt(N_p).",
    latex=r"N_p\sim\frac1{\epsilon^2}",
    regimes=partial(worst, -0.5),
    expect="consistent",
    note="Measured is the largest mean loss of one user with two trajectories.",
    corrected=None,
    derivation="r P(Bin(N_p, Phi(r)) < N_p/2) with r = c/sqrt(N_p) tends to (c/sqrt(N_p)) times a "
    "normal tail at c/2, largest at c = 1.5; the upper bound is psl.corollary_4_1_corrected.",
    main=False,
)


@PAPER.rate(
    "remark_3_bias",
    ref="Remark 3: accuracy 1 - epsilon - (Sigma_tail/N)^(1/4)",
    tex=r"\Big(\frac{\Sigma_{tail}}N\Big)^{1/4}",
    expect="faster than stated",
    note="The error of the maximum of the expected likelihood, which bounds the loss, is of the "
    "order sqrt(Sigma_tail), which no method of rank k can beat. And the corollary's term is "
    "(Sigma_tail/N)^(1/4)/sqrt(nu).",
    corrected="corollary_4_1_corrected",
    uses=["corollary_4_1"],
)
def remark_3_bias() -> Sequence[rc.Regime]:
    """For N_p = oo the loss is of the order (Sigma_tail/N)^(1/4)."""
    return tail_loss(-0.25)

"""P-ShareLoRA, Definitions 4.2 and A.2, Assumption 2, Proposition 1: brackets and samples."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.psharelora.paper import PAPER
from experiments.psharelora.theory import chance as at
from experiments.psharelora.theory.preference import tanh
from linsys.linalg import Numbers, inverse, lambda_min, transpose


def _class(**sizes: Any) -> SimpleNamespace:
    k = np.minimum(sizes["k"], np.minimum(sizes["d1"], sizes["N"] * sizes["d2"]))
    nu = sizes.pop("nu", None)
    return SimpleNamespace(c=at.Class(**{**sizes, "k": k}), nu=nu)


CLASS_FIELDS: dict[str, rc.Field] = {
    "N": rc.whole_numbers(low=1, high=1000),
    "n": rc.whole_numbers(low=1, high=10000),
    "d1": rc.whole_numbers(low=1, high=100),
    "d2": rc.whole_numbers(low=1, high=100),
    "k": rc.whole_numbers(low=1, high=10),
    "B": rc.positive(low=0.1, high=10.0),
    "L1": rc.positive(low=0.1, high=10.0),
    "delta": rc.interval(low=0.01),
}
CLASS_MEANING = {"n": "N_p", "k": "k; more than min(d1, N d2) is that"}
CLASSES = rc.Space(fields=CLASS_FIELDS, view=_class, batched=True, meaning=CLASS_MEANING)


_COUNTED: dict[str, rc.Field] = {
    "N": rc.whole_numbers(low=1, high=1000),
    "k": rc.whole_numbers(low=1, high=10),
    "d1": rc.whole_numbers(low=1, high=1000),
    "d2": rc.whole_numbers(low=1, high=100),
}


def _whole(s: Any) -> Any:
    """Whether N, k, d1 and d2 are whole numbers from one on."""
    counts = np.stack([s.N, s.k, s.d1, s.d2])
    return ((counts >= 1) & (np.asarray(counts % 1) == 0)).all(axis=0)


WIDE = rc.Space(
    fields=_COUNTED,
    assumes={
        "N, k, d1 and d2 are whole numbers from 1 on": _whole,
    },
    given={
        "k <= N d2": lambda s: s.k <= s.N * s.d2,
        "d1 >= 10 k": lambda s: s.d1 >= 10 * s.k,
    },
    batched=True,
)
LARGE = rc.Space(
    fields={**_COUNTED, "m": rc.whole_numbers(low=2, high=10)},
    given={
        "d1 >= m k": lambda s: s.d1 >= s.m * s.k,
        "N d2 >= m k": lambda s: s.N * s.d2 >= s.m * s.k,
    },
    batched=True,
    meaning={"m": "how often d1 and N d2 hold k at least"},
)


SEQUENCE = rc.Space(
    fields={
        "q": rc.interval(low=0.05, high=0.95),
        "share": rc.interval(),
    },
    batched=True,
    meaning={
        "q": "the chance of the first of two pairs",
        "share": "q times the first one's (Delta r)^2/D",
    },
)


def _shown(x: Numbers, n: Numbers) -> tuple[Numbers, Numbers]:
    """The first n pairs' features, zero for the others, and their Gram matrix, there the identity.

    Features (B', p, d1), n (B',): (B', p, d1) and (B', p, p).
    """
    here = np.where(np.arange(x.shape[1]) < n[:, None], 1, 0)
    rows = x * here[..., None]
    return rows, rows @ transpose(rows) + np.eye(x.shape[1], dtype=int) * (1 - here)[..., None]


FEW = rc.Space(
    fields={
        "x": rc.reals("p", "d1", magnitude=(0.1, 3.0)),
        "weights": rc.simplex("p"),
        "n": rc.whole_numbers(low=1, high=2),
        "theta": rc.reals("d1", magnitude=(0.1, 3.0)),
    },
    sizes={"p": (3, 4), "d1": (3, 4)},
    assumes={
        "chances of the pairs are a law": lambda s: np.abs(s.weights.sum(axis=-1) - 1) <= 1e-12,
        "N_p < d1": lambda s: s.n < s.theta.shape[-1],
    },
    given={
        "every pair occurs": lambda s: 20 * s.weights.min(axis=-1) >= 1,
        "the shown pairs are independent": lambda s: 100 * lambda_min(_shown(s.x, s.n)[1]) >= 1,
        "all pairs together span": lambda s: 100 * lambda_min(transpose(s.x) @ s.x) >= 1,
    },
    batched=True,
    meaning={
        "x": "features' differences of the pairs, d2 = 1",
        "weights": "chances of the pairs",
        "n": "so many different pairs are among the N_p < d1 comparisons, the first ones",
        "theta": "Theta_1 - Theta_2, before its part along the shown pairs is taken away",
    },
    constructed="Theta_1 - Theta_2 is across the pairs that are shown",
)


SAMPLES = 2000


@PAPER.identity(
    "def_4_2",
    ref="Definition 4.2 and Appendix C.1's brackets",
    tex=r"\sum_i\sum_o|g_1-g_2|=\epsilon",
    on=rc.Space(
        fields={"f": rc.interval("N"), "epsilon": rc.positive(low=0.001, high=1.0)},
        sizes={"N": (1, 4)},
        batched=True,
        meaning={"f": "a chance for each user"},
    ),
)
def def_4_2(f: Numbers, epsilon: Numbers) -> rc.Sides:
    """||g1 - g2||_1 = epsilon for g = f -+ epsilon/(4N), over users and both outcomes."""
    N = f.shape[-1]
    half = epsilon[:, None] / (4 * N)
    upper = np.stack([f + half, 1 - f + half])
    lower = np.stack([f - half, 1 - f - half])
    return np.abs(upper - lower).sum(axis=(0, -1)), epsilon


@PAPER.upper(
    "def_A2",
    ref="Definition A.2: what Lemma 1 needs of a bracket",
    tex=r"\sum_og_2(o)\le1+\epsilon",
    on=rc.Space(
        fields={
            "P": rc.simplex(2),
            "room": rc.simplex(4),
            "epsilon": rc.positive(low=0.001, high=1.0),
        },
        batched=True,
        meaning={"room": "how the width lies below and above both outcomes"},
    ),
    derivation="g2 = g1 + (g2 - g1) and sum g1 <= sum P = 1. Attained with g1 = P.",
    printed_as="ours",
)
def def_A2(P: Numbers, room: Numbers, epsilon: Numbers) -> rc.Sides:
    """sum_o g2(o) <= 1 + epsilon for a bracket of width epsilon that holds a distribution.

    ``room`` (B', 4) says how the width lies below and above the two outcomes.
    """
    return (P + epsilon[:, None] * room[:, 2:]).sum(axis=-1), 1 + epsilon


@PAPER.upper(
    "prop_1",
    ref="Proposition 1, with the constants of its proof",
    tex=r"\log\frac{\mathcal N(1/(NN_p))}\delta\le k(d_1+Nd_2)\log\big(1+4N^2N_pL_1\sqrt{(k+NB^2)"
    r"(1+B^2)}\big)+\log\tfrac1\delta",
    on=CLASSES,
    note="Two steps of the proof are false, (C.1) and its ball of radius B (psl.eq_C1, "
    "psl.eq_C1_ball); what replaces them gives this bound, by psl.eq_C1_corrected and "
    "psl.eq_C1_ball_corrected. The measured side is what volumes force N_br to be for the "
    "features L1 e_j. O(k (d1 + N "
    "d2) log(N N_p/delta)) with a constant that depends on B and L1; read for N N_p = delta = 1 "
    "its right side is zero.",
    derivation="psl.eq_C1_corrected and a cover of the ball of psl.eq_C1_ball_corrected.",
    uses=["def_4_2", "eq_C1", "eq_C1_ball", "eq_C1_corrected", "eq_C1_ball_corrected"],
)
def prop_1(c: at.Class) -> rc.Sides:
    """log(N_br(1/(N N_p))/delta) <= k (d1 + N d2) log(1 + 4 N^2 N_p L1 sqrt((k + N B^2)(1 + B^2)))
    + log(1/delta).
    """
    radius2 = c.k + c.N * c.B**2
    return c.free(c.k * c.d2), c.covered(c.shared, radius2, 1 + c.B**2)


@PAPER.lower(
    "prop_1_users",
    ref="Proposition 1 in Theorem 4.1: what more users bring",
    tex=r"\frac{\log(\mathcal N/\delta)}{NN_p\nu}\ge\frac{kd_2}{N_p\nu}\log\Big(2N_p\tanh\frac{B"
    r"L_1}{2\sqrt{kd_2}}\Big)",
    on=rc.Space(
        fields={**CLASS_FIELDS, "nu": rc.positive()},
        view=_class,
        batched=True,
        meaning=CLASS_MEANING,
    ),
    note="The class counts all users' heads, N k d2 of them. So Theorem 4.1's bound of the shared "
    "columns does not improve beyond N of about d1/d2 users, while their error does, like 1/N: "
    "psl.theorem_4_1_variance.",
    derivation="With B fixed each pair sees one entry of the W_i, whose chances fill a cube of "
    "side tanh(B L1/(2 sqrt(k d2))); a bracket's box has volume at most (epsilon/(2N))^N.",
    printed_as="ours",
)
def prop_1_users(c: at.Class, nu: Numbers) -> rc.Sides:
    """For linear rewards and features that have L1 e_j for each of k d2 entries and zero,
    log(N_br/delta)/(N N_p nu) >= k d2 log(2 N_p tanh(B L1/(2 sqrt(k d2))))/(N_p nu) for
    every N.
    """
    length = tanh(c.B * c.L1 / (2 * np.sqrt(c.k * c.d2)))
    alone = np.log(2 * c.n * length)
    return c.free(c.k * c.d2) / (c.N * c.n * nu), c.k * c.d2 * alone / (c.n * nu)


@PAPER.upper(
    "prop_1_full",
    ref="below Proposition 1: all matrices, with constants made as in the proof",
    on=prop_1.space,
    tex=r"\log\frac{\mathcal N(1/(NN_p))}\delta\le Nd_1d_2\log\big(1+4N^2N_pL_1\sqrt NB\big)+"
    r"\log\tfrac1\delta",
    note="As in psl.prop_1, the measured side is what volumes force N_br to be.",
    derivation="The same cover without factors: of the ball of radius sqrt(N) B, with 2 C_R L1 for "
    "C_R = 1/4.",
)
def prop_1_full(c: at.Class) -> rc.Sides:
    """log(N_br(1/(N N_p))/delta) <= N d1 d2 log(1 + 4 N^2 N_p L1 sqrt(N) B) + log(1/delta)."""
    return at.prop_1_full(c)


@PAPER.upper(
    "prop_1_local",
    ref="below Proposition 1: LoRA of every user, with the constants of the proof",
    on=prop_1.space,
    tex=r"\log\frac{\mathcal N(1/(NN_p))}\delta\le Nk(d_1+d_2)\log\big(1+4N^2N_pL_1\sqrt{N(k+B^2)"
    r"(1+B^2)}\big)+\log\tfrac1\delta",
    note="As in psl.prop_1, the measured side is what volumes force N_br to be.",
    derivation="The same cover with B_i for every user.",
)
def prop_1_local(c: at.Class) -> rc.Sides:
    """log(N_br(1/(N N_p))/delta) <= N k (d1 + d2) log(1 + 4 N^2 N_p L1 sqrt(N (k + B^2)(1 + B^2)))
    + log(1/delta).
    """
    return at.prop_1_local(c)


@PAPER.identity(
    "prop_1_local_saved",
    ref="below Proposition 1: N d1 k becomes d1 k",
    tex=r"Nk(d_1+d_2)-k(d_1+Nd_2)=(N-1)kd_1",
    on=CLASSES,
)
def prop_1_local_saved(c: at.Class) -> rc.Sides:
    """N k (d1 + d2) - k (d1 + N d2) = (N - 1) k d1."""
    return c.N * c.k * (c.d1 + c.d2) - c.shared, (c.N - 1) * c.k * c.d1


@PAPER.upper(
    "prop_1_full_gain",
    ref="below Proposition 1: 'significantly improved when d1 >> k', in its weakest sense",
    tex=r"k(d_1+Nd_2)\le Nd_1d_2\quad(d_1\ge10k)",
    on=WIDE,
    expect="violated",
    note="N d2 must be large beside k as well: the ratio is k/(N d2) + k/d1, above 1/2 for N d2 = "
    "2 k however large d1 is. For N d2 = k = 1 the shared form counts d1 + 1 parameters of d1. In "
    "the weak sense tried here the sentence fails only for k above 0.9 N d2, where hardly any rank "
    "is saved, so that a reader may take N d2 >> k as understood. With many users it is true; it "
    "is the condition that is not complete.",
    corrected="prop_1_full_gain_corrected",
    reading_of="prop_1_full",
    reading="'Significantly improved' is read as not larger and 'd1 >> k' as d1 >= 10 k: what is "
    "not even that is not improved.",
    family=[{"N": 1.0, "k": 1.0, "d1": d1, "d2": 1.0} for d1 in (10.0, 100.0)],
)
def prop_1_full_gain(N: Numbers, k: Numbers, d1: Numbers, d2: Numbers) -> rc.Sides:
    """k (d1 + N d2) <= N d1 d2 for d1 >= 10 k."""
    return k * (d1 + N * d2), N * d1 * d2


@PAPER.upper(
    "prop_1_full_gain_corrected",
    ref="below Proposition 1, corrected: where sharing has fewer parameters",
    tex=r"k(d_1+Nd_2)\le\tfrac2mNd_1d_2\quad(d_1,Nd_2\ge mk)",
    on=LARGE,
    note="A factor m/2 or more where d1 and N d2 are m times as large as k.",
    derivation="The ratio is k/(N d2) + k/d1 <= 2/m. Attained for d1 = N d2 = m k.",
)
def prop_1_full_gain_corrected(
    N: Numbers, k: Numbers, d1: Numbers, d2: Numbers, m: Numbers
) -> rc.Sides:
    """k (d1 + N d2) <= (2/m) N d1 d2 for d1 >= m k and N d2 >= m k."""
    return m * k * (d1 + N * d2), 2 * N * d1 * d2


def _missed(first: Numbers, second: Numbers) -> Numbers:
    """Whether a mean of j values ``first`` and n - j ``second`` is a tenth away from one."""
    j = np.arange(SAMPLES + 1)
    tenfold = 10 * (j * first[:, None] + (SAMPLES - j) * second[:, None])
    return np.asarray((tenfold < 9 * SAMPLES) | (tenfold > 11 * SAMPLES))


def _binomial(q: Numbers) -> Numbers:
    """The chances of j = 0, ..., n successes of n, each with chance q; (B', n + 1)."""
    n, j = SAMPLES, np.arange(SAMPLES + 1)
    one = (1 + 0 * q)[:, None]
    steps = np.log(one * (n + 1 - j[1:]) / j[1:])
    many = np.concatenate([0 * one, steps.cumsum(axis=1)], axis=1)
    return np.asarray(np.exp(many + j * np.log(q)[:, None] + (n - j) * np.log(1 - q)[:, None]))


@PAPER.upper(
    "assumption_2",
    ref="Assumption 2, for two pairs of trajectories, linear rewards and n = 2000",
    tex=r"P\{\forall\Theta_1,\Theta_2:0.9D\le\hat D\le1.1D\}\ge1-2de^{-nh/\ell}",
    on=SEQUENCE,
    note="So the assumption is satisfiable. For linear rewards in d dimensions N_unif = l log(2d/"
    "delta)/h suffices, with l = max x'(E xx')^(-1) x, which is at least d: about 206 d log(2d/"
    "delta) where l = d. It is a sufficient number; fewer comparisons may do. It grows with the "
    "number of parameters of one user, and it has to: psl.assumption_2_few. For rewards that are "
    "polynomials in Theta of a bounded degree, the paper's example, d is the number of monomials.",
    derivation="Tropp's matrix Chernoff bound for (E xx')^(-1/2) xx' (E xx')^(-1/2), of norm l at "
    "most and mean I; for one direction Chernoff's bound. 0.9 log 0.9 + 0.1 > h.",
)
def assumption_2(q: Numbers, share: Numbers) -> rc.Sides:
    """With chance at least 1 - 2 d e^(-n h/l), 0.9 D <= D_hat <= 1.1 D for all pairs of linear
    rewards with d parameters and n comparisons, l = max x'(E xx')^(-1) x, x the features'
    difference, h = 1.1 log 1.1 - 0.1 = 0.00484: N_unif = l log(2d/delta)/h.

    Two pairs, the first of chance q. d = 1: (Delta r)^2 / D is ``share`` / q or (1 - share) / (1 -
    q), and l is the larger one. d = 2: all directions of two independent pairs at once, that is
    D_hat against D where either pair alone tells the rewards apart, and l = 1/min(q, 1 - q).
    """
    n = SAMPLES
    first, second = share / q, (1 - share) / (1 - q)
    none = 0 * q
    one_way = _missed(first, second)
    all_ways = _missed(1 / q, none) | _missed(none, 1 / (1 - q))
    pmf = _binomial(q)
    chances = [np.where(missed, pmf, 0 * pmf).sum(axis=-1) for missed in (one_way, all_ways)]
    eleven = (11 + none) / 10
    h = eleven * np.log(eleven) - eleven + 1
    largest = np.maximum(first, second), 1 / np.minimum(q, 1 - q)
    bounds = [2 * d * np.exp(-n * h / size) for d, size in zip((1, 2), largest, strict=True)]
    return np.stack(chances, axis=-1), np.stack(bounds, axis=-1)


@PAPER.upper(
    "assumption_2_few",
    ref="Assumption 2 with the N_p of Remark 3",
    tex=r"0.9D\le\hat D\quad(N_p<d_1)",
    on=FEW,
    expect="violated",
    note="Fewer than d1 comparisons leave a direction that is orthogonal to all of them. G_r and "
    "G'_r hold two rewards that differ by it; for these D_hat is 0, and D is positive, as all "
    "pairs together span. So N_unif >= d1. For any d2 two rewards of G_r, the class of all "
    "matrices that Assumption 2 names, may differ by any matrix: N_unif >= d1 d2, as many as "
    "fine-tuning all parameters of one user takes. Two of G'_r may differ by any matrix with "
    "min(2k, d2) columns that are not zero: N_unif >= min(2k, d2) d1 for that class. The paper "
    "states N >= N_unif in Lemma 6 alone, and its proof applies Assumption 2 to the mean over one "
    "user's N_p comparisons; Theorem 4.2 uses this lemma. So every user needs N_p >= min(2k, d2) "
    "d1 at least, which is not divided by N as d1 k is in Remark 3.",
    corrected="assumption_2",
    main=True,
    reading_of="assumption_2",
    printed_as="ours",
    reading="Remark 3's N_p, of the order ((d1 k + N d2 k)/(N epsilon)) log(N/delta), is below d1 "
    "for many users and a d1 that is large beside (d2 k/epsilon) log(N/delta). It rests on "
    "Theorem 4.2, and this on Lemma 6, whose proof uses Assumption 2 for N_p comparisons.",
    family=[
        {
            "x": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
            "weights": [0.3, 0.3, 0.4],
            "n": 2.0,
            "theta": [0.0, 0.0, 1.0],
        },
    ],
)
def assumption_2_few(x: Numbers, weights: Numbers, n: Numbers, theta: Numbers) -> rc.Sides:
    """0.9 D <= D_hat for all pairs of linear rewards on N_p < d1 comparisons, with d2 = k = 1 and
    pairs of trajectories that together span R^d1; Remark 3's N_p, of the order ((d1 + N)/(N
    epsilon)) log(N/delta), is below d1 for many users and a d1 that is large beside (1/epsilon)
    log(N/delta). Here Theta_1 - Theta_2 is orthogonal to the comparisons of the data set.
    """
    rows, gram = _shown(x, n)
    column = theta[..., None]
    across = column - transpose(rows) @ (inverse(gram) @ (rows @ column))
    D = (weights * ((x @ across)[..., 0]) ** 2).sum(axis=-1)
    return 9 * D / 10, (((rows @ across)[..., 0]) ** 2).sum(axis=-1) / n

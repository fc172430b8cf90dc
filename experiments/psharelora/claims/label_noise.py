"""P-ShareLoRA, proof of Theorem B.3 from V to (B.17): the labels' noise in a user's gradient."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.psharelora.claims.bases import DECOMPOSED
from experiments.psharelora.paper import PAPER
from experiments.psharelora.theory import noise as at
from experiments.psharelora.theory.fitted import eq_B17, second_moment, shifted, squared
from experiments.psharelora.theory.proof import lipschitz, spectral
from experiments.psharelora.theory.subspace import frobenius, inner
from linsys.linalg import Numbers, inverse, logistic, norm, transpose

_SIZE = (0.1, 3.0)
GAPS = rc.Space(
    fields={"x": rc.reals("n", magnitude=(0.1, 10.0))},
    sizes={"n": (1, 2)},
    batched=True,
    meaning={"x": "differences of the true rewards"},
)


@PAPER.identity(
    "V_centered",
    ref="V_ij below (B.11)",
    tex=r"\Phi(x)\frac{\Phi'(x)}{\Phi(x)}=\Phi(-x)\frac{\Phi'(-x)}{\Phi(-x)}",
    on=GAPS,
    note="Because Phi' is even. With the indicators of psl.grad_f as printed it would not be.",
)
def V_centered(s: Any) -> tuple[Any, Any]:
    """E V_ij = 0: the part of o = 1 is minus the part of o = 0."""
    high, low, up, down = at.scores(s.x)
    return high * up, -low * down


@PAPER.identity(
    "V_bounded",
    ref="V_ij below (B.11): bounded",
    tex=r"\frac{\Phi'(x)}{\Phi(x)}+\frac{\Phi'(-x)}{\Phi(-x)}=1",
    on=GAPS,
    derivation="Phi'/Phi (x) = Phi(-x), and Phi(x) + Phi(-x) = 1.",
)
def V_bounded(s: Any) -> tuple[Any, Any]:
    """The two values of V_ij are one apart for the sigmoid; by Hoeffding's lemma V_ij is
    sub-Gaussian with variance 1/4.
    """
    high, low, _, _ = at.scores(s.x)
    return high - low, 1 + 0 * s.x


DESIGN = rc.Space(
    fields={
        "x": rc.reals("n", "D", magnitude=_SIZE),
        "v": rc.reals("n", magnitude=_SIZE),
        "shift": rc.positive(low=1e-6, high=10.0),
    },
    sizes={"n": (1, 4), "D": (1, 3)},
    assumes={"lambda > 0": lambda s: s.shift > 0},
    batched=True,
    meaning={"x": "features of each comparison, D = k d2", "v": "any numbers", "shift": "lambda"},
)


@PAPER.upper(
    "eq_B13",
    ref="equation (B.13), its first step",
    tex=r"\Big\|\frac1{N_p}\sum_jv_jx_j\Big\|_{(\Sigma+\lambda I)^{-1}}\le\max_j|v_j|",
    on=DESIGN,
    note="Without powers of N_p or of D; attained for lambda to zero.",
    uses=["M_i_corrected"],
    derivation="The squared left side is v'M v with ||M|| <= 1/N_p, see psl.M_i_corrected.",
)
def eq_B13(x: rc.Numbers, v: rc.Numbers, shift: rc.Numbers) -> rc.Sides:
    """||(1/N_p) sum_j v_j x_j|| <= C max |v_j| in the norm of (Sigma + lambda I)^{-1}, C = 1."""
    mean = (v[..., None] * x).mean(axis=1)
    moved = np.sqrt(squared(mean, inverse(shifted(second_moment(x), shift))))
    return moved, np.abs(v).max(axis=1)


@PAPER.upper(
    "eq_B13_display",
    ref="equation (B.13)",
    tex=r"\Big\|\frac1{N_p}\sum_j(V'_j-V_j)x_j\Big\|_{(\Sigma+\lambda I)^{-1}}\le2CL_1\xi"
    r"(\|\Theta^\star_i-\Theta^\diamond_i\|_F+\|B^\diamond-\hat B\|\|W^\diamond_i\|_F)",
    on=replace(
        DECOMPOSED,
        fields={
            **{name: f for name, f in DECOMPOSED.fields.items() if name != "W_hat"},
            "truth": rc.reals("d1", "d2", magnitude=(0.1, 10.0)),
            "shift": rc.positive(low=1e-6, high=10.0),
        },
        meaning={**DECOMPOSED.meaning, "truth": "Theta*_i", "shift": "lambda"},
    ),
    note="For linear rewards and the sigmoid. With the bases as they are: see "
    "psl.B_minus_Bdiamond. ||B_diamond - B_hat|| is the operator norm, as in (B.5).",
)
def eq_B13_display(
    truth: Numbers,
    diamond: Numbers,
    hat: Numbers,
    W_diamond: Numbers,
    psi0: Numbers,
    psi1: Numbers,
    shift: Numbers,
) -> rc.Sides:
    """The first part of grad f(w_diamond) is at most 2 C L1 xi (||Theta* - B_diamond W_diamond||_F
    + ||B_diamond - B_hat|| ||W_diamond||_F) with C = 1, xi = max Phi' = 1/4.

    ``truth`` is Theta* (B, d1, d2), ``diamond`` and ``hat`` are bases (B, d1, k), W is W_diamond.
    """
    X = psi0 - psi1
    both = [logistic(inner(M[:, None], X)) for M in (truth, hat @ W_diamond)]
    x = transpose(hat)[:, None] @ X
    measured, _ = eq_B13(x.reshape(*x.shape[:2], -1), both[0] - both[1], shift)
    bases = spectral(diamond - hat) * frobenius(W_diamond)
    apart = frobenius(truth - diamond @ W_diamond) + bases
    return measured, lipschitz(psi0, psi1) * apart / 2


def _moments(s: Any, printed: bool) -> tuple[Any, Any]:
    first, second, largest = at.traces(s.x, s.shift)
    n, D = s.x.shape[1:]
    whole = np.sqrt(second)
    one = 1 + 0 * first
    sides = [(first, one * D / n), (second, one * D / n**2)]
    sides += [(whole, one / n)] if printed else [(largest, one / n), (whole, np.sqrt(D * one) / n)]
    measured, bound = zip(*sides, strict=True)
    return np.stack(measured, axis=1), np.stack(bound, axis=1)


@PAPER.upper(
    "M_i",
    ref="M_i above (B.14)",
    tex=r"\operatorname{Tr}M_i\le\frac{d_2k}{N_p},\ \operatorname{Tr}M_i^2\le\frac{d_2k}{N_p^2},"
    r"\ \|M_i\|_F\le\frac1{N_p}",
    on=DESIGN,
    expect="violated",
    note="The third one is true of the operator norm, as in the work that it is taken from: "
    "||M||_F^2 = Tr M^2 comes near d2 k/N_p^2. Two orthogonal comparisons, D = 2, lambda to zero: "
    "M = I/2, ||M||_F = 0.71 against 1/2. The tail bound (B.14) uses the operator norm.",
    corrected="M_i_corrected",
    printed_as="proof step",
    family=[{"x": [[1.0, 0.0], [0.0, 1.0]], "v": [0.0, 0.0], "shift": 0.001}],
)
def M_i(instance: Any) -> rc.Sides:
    """Tr M <= d2 k/N_p, Tr M^2 <= d2 k/N_p^2 and ||M||_F <= 1/N_p."""
    return _moments(instance, True)


@PAPER.upper(
    "M_i_corrected",
    ref="M_i above (B.14), corrected",
    on=M_i.space,
    tex=r"\operatorname{Tr}M_i\le\frac{d_2k}{N_p},\ \operatorname{Tr}M_i^2\le\frac{d_2k}{N_p^2},"
    r"\ \|M_i\|\le\frac1{N_p},\ \|M_i\|_F\le\frac{\sqrt{d_2k}}{N_p}",
    derivation="An eigenvalue s of Sigma becomes one s/(N_p (s + lambda)) < 1/N_p of M; there are "
    "at most D = d2 k others than zero.",
)
def M_i_corrected(instance: Any) -> rc.Sides:
    """Tr M <= d2 k/N_p, Tr M^2 <= d2 k/N_p^2, ||M|| <= 1/N_p and ||M||_F <= sqrt(d2 k)/N_p."""
    return _moments(instance, False)


def _likely(s: Any) -> Any:
    """Whether n of d1 vectors, drawn one by one, all differ with more than the chance delta/2."""
    others = 1 - np.arange(s.o.shape[-1]) / s.d1[:, None]
    return 2 * others.prod(axis=-1) > np.exp(-s.size)


@PAPER.upper(
    "eq_B14",
    ref="equation (B.14)",
    tex=r"\sqrt{V_i^\top M_iV_i}\le C_4\sqrt{\frac{kd_2+\log(N/\delta)}{N_p}}",
    on=rc.Space(
        fields={
            "o": rc.whole_numbers("n", low=0, high=1),
            "d1": rc.whole_numbers(low=1, high=1000),
            "length": rc.positive(low=0.1, high=10.0),
            "shift": rc.positive(low=1e-3, high=1.0),
            "size": rc.positive(low=0.7, high=3.0),
        },
        sizes={"n": (1, 12)},
        assumes={
            "labels are 0 or 1": lambda s: ((s.o == 0) | (s.o == 1)).all(axis=1),
            "0 < delta <= 1": lambda s: s.size >= 0,
            "lambda > 0": lambda s: s.shift > 0,
            "there are N_p pairs to draw: d1 is whole and 1 or more": lambda s: (
                (s.d1 >= 1) & (np.asarray(s.d1 % 1) == 0)
            ),
        },
        given={"more than delta/2 is the chance that all pairs differ": _likely},
        batched=True,
        meaning={
            "o": "labels",
            "length": "of the basis vectors",
            "shift": "lambda",
            "size": "log(1/delta)",
        },
        constructed="one user without preferences compares N_p basis vectors with zero, drawn from "
        "d1 many; those data sets in which they all differ",
    ),
    expect="violated",
    main=True,
    note="Bernstein's inequality needs M_i fixed, but B_hat has seen V. Here B_hat is along V and "
    "V'M V comes near 1/4 for every N_p, on all data sets without a repeated pair. Their chance is "
    "(1 - 1/d1)(1 - 2/d1) ... (1 - (N_p - 1)/d1), 0.936 for N_p = 12 and d1 = 1000, and near one "
    "for d1 far above N_p^2: no C4 serves. Theta* is 0 here; a small "
    "one, with nu > 0, does as well. The bound would need d1 k more "
    "degrees of freedom for one user, which sharing is meant to save. The step of Theorem B.3 can "
    "be repaired: compare with the fixed basis B_diamond, which adds dist(B_hat, B_diamond) ||(1/"
    "N_p) sum V_j x_j||, see psl.theorem_B3_corrected.",
    corrected="eq_B14_corrected",
    printed_as="proof step",
    uses=["M_i", "V_centered", "V_bounded"],
    family=[
        {"o": [1.0, 0.0] * pairs, "d1": 1000.0, "length": 10.0, "shift": 0.001, "size": 0.7}
        for pairs in (4, 6)
    ],
)
def eq_B14(o: Numbers, length: Numbers, shift: Numbers, size: Numbers) -> rc.Sides:
    """V'M V <= C4^2 (k d2 + log(N/delta))/N_p with probability 1 - delta/(2 N), for B_hat learned
    from the same labels. Here for one user without preferences, k = d2 = 1, whose N_p pairs are
    drawn from d1 basis vectors, each against zero: on a data set without a repeated pair, which
    together have a chance above delta/2; C4^2 = (2 + 3 log 2)/4, which suffices for a fixed basis.

    The vectors are ``length`` long and Theta* = 0. On those that are drawn, the most likely Theta
    in any ball is along o - 1/2, and zero elsewhere, so that V'M V does not depend on the labels.
    """
    n = o.shape[1]
    V = o - 1 / (2 + 0 * o)
    B = V / norm(V)[:, None]
    x = (length[:, None] * B)[..., None]
    values = ((V[:, None] @ at.kernel(x, shift)) * V[:, None]).sum(axis=(-2, -1))
    return values, at.explicit(size) * (1 + size) / n


NOISE = rc.Space(
    fields={
        "x": rc.reals("n", "D", magnitude=_SIZE),
        "gap": rc.reals("n", magnitude=_SIZE),
        "shift": rc.positive(low=1e-6, high=1.0),
        "size": rc.positive(low=0.01, high=3.0),
    },
    sizes={"n": (1, 6), "D": (1, 2)},
    batched=True,
    meaning={
        "x": "features in a basis that does not depend on the labels",
        "gap": "differences of the true rewards",
        "shift": "lambda",
        "size": "log(N/delta)",
    },
)


@PAPER.upper(
    "eq_B14_corrected",
    ref="equation (B.14), corrected",
    tex=r"P\Big(V_i^\top M_iV_i>\tfrac{2+3\log2}4\cdot\frac{kd_2+\log(N/\delta)}{N_p}\Big)\le"
    r"\frac\delta{2N}",
    on=NOISE,
    uses=["V_bounded", "M_i_corrected"],
    derivation="V has independent entries, sub-Gaussian with variance 1/4 (psl.V_bounded). The "
    "tail bound of Hsu, Kakade and Zhang (2012) for quadratic forms: with probability 1 - e^-t, "
    "V'M V <= (Tr M + 2 sqrt(t Tr M^2) + 2 t ||M||)/4 <= (D + 2 sqrt(D t) + 2 t)/(4 N_p) <= (2 D + "
    "3 t)/(4 N_p) by psl.M_i_corrected. Here t = log(2 N/delta) and D >= 1.",
)
def eq_B14_corrected(x: Any, gap: Any, shift: Any, size: Any) -> rc.Sides:
    """P(V'M V > C4^2 (k d2 + log(N/delta))/N_p) <= delta/(2 N) with C4^2 = (2 + 3 log 2)/4, a
    little above one, for a basis that does not depend on the labels. All data sets enumerated.
    """
    return at.eq_B14(x, gap, shift, size, at.explicit(size))


RADII = rc.Space(
    fields={
        "x": rc.reals("n", "D", magnitude=_SIZE),
        "d": rc.reals("D", magnitude=_SIZE),
        "more": rc.positive(low=1.0, high=10.0),
        "shift": rc.positive(low=1e-4, high=10.0),
    },
    sizes={"n": (1, 3), "D": (1, 2)},
    assumes={
        "lambda > 0": lambda s: s.shift > 0,
        "w_hat and w_diamond lie in the ball: ||d|| <= 2 B": lambda s: s.more >= 1,
    },
    batched=True,
    meaning={
        "x": "features in the learned basis",
        "d": "w_hat - w_diamond",
        "more": "2 B / ||d||",
        "shift": "lambda",
    },
)


@PAPER.upper(
    "eq_B17",
    ref="equation (B.17)",
    tex=r"\|\hat w-w^\diamond\|_\Sigma\le\sqrt{c^2g^2+2c\lambda Bg}",
    on=RADII,
    expect="violated",
    note="lambda ||d||^2 is at most 4 lambda B^2, whose root has sqrt(lambda): the printed bound "
    "is too small for lambda < 1. D = 1, Sigma = 0.01, d = 2 B = 2, lambda = 0.01: 0.04 against "
    "0.0228. The printed lambda, proportional to the root of the rate, gives a squared error of "
    "rate^(3/4); with lambda = (g/B)^2 the corrected bound is (c^2 + 2 c) g^2, so that this slip "
    "alone leaves Theorem B.3 its rate.",
    corrected="eq_B17_corrected",
    printed_as="proof step",
    uses=["eq_B11"],
    family=[{"x": [[0.1]], "d": [2.0], "more": 1.0, "shift": 0.01}],
)
def eq_B17_claim(x: Any, d: Any, more: Any, shift: Any) -> rc.Sides:
    """||w_hat - w_diamond||^2_Sigma <= (c g)^2 + 2 c lambda B g, from (B.11), ||.||^2_Sigma <= c g
    ||.||_{Sigma + lambda I}, and ||w_hat - w_diamond|| <= 2 B; g is the length of grad
    f(w_diamond) in the norm of (Sigma + lambda I)^-1, c the constant of (B.11).
    """
    return eq_B17(x, d, more * norm(d) / 2, shift, False)


@PAPER.upper(
    "eq_B17_corrected",
    ref="equation (B.17), corrected",
    tex=r"\|\hat w-w^\diamond\|_\Sigma\le\sqrt{c^2g^2+2c\sqrt\lambda Bg}",
    on=RADII,
    derivation="s = ||d||^2_Sigma satisfies s^2 <= c^2 g^2 (s + 4 lambda B^2), so that s <= (c^2 "
    "g^2 + sqrt(c^4 g^4 + 16 c^2 g^2 lambda B^2))/2 <= c^2 g^2 + 2 c g B sqrt(lambda).",
)
def eq_B17_corrected(x: Any, d: Any, more: Any, shift: Any) -> rc.Sides:
    """||w_hat - w_diamond||^2_Sigma <= (c g)^2 + 2 c sqrt(lambda) B g."""
    return eq_B17(x, d, more * norm(d) / 2, shift, True)

"""P-ShareLoRA, Appendix B and C.2: bases near each other, and (B.5), which needs them to be."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.psharelora.paper import PAPER
from experiments.psharelora.theory import proof as at

_SIZE = (0.1, 10.0)


def _bases(*, raw_B: Any, raw_U: Any, k: Any) -> SimpleNamespace:
    """Two bases of k columns."""
    d1 = raw_B.shape[-1]
    k = np.minimum(k, d1 + 0 * k)
    held = np.where(np.arange(d1) < k[:, None], 1, 0)[:, None]
    first, second = at.orthogonal(raw_B) * held, at.orthogonal(raw_U) * held
    return SimpleNamespace(sides=at.overlap(first, second, k))


BASES = rc.Space(
    fields={
        "raw_B": rc.reals("d1", "d1", magnitude=_SIZE),
        "raw_U": rc.reals("d1", "d1", magnitude=_SIZE),
        "k": rc.whole_numbers(low=1, high=3),
    },
    sizes={"d1": (2, 4)},
    view=_bases,
    batched=True,
    meaning={
        "raw_B": "the first k columns of Cayley's rotation of it are B_hat",
        "raw_U": "the same for B_diamond",
        "k": "k; more than d1 is d1",
    },
)


@PAPER.upper(
    "B_minus_Bdiamond",
    ref="end of Appendix B.1 and of C.2",
    tex=r"\|B-B^\diamond\|_F^2\le\mathrm{dist}^2(B,B^\diamond)",
    on=BASES,
    expect="violated",
    note="dist does not see the basis. B = -B_diamond: dist = 0 and the left side is 4 k. The "
    "factor 2 of (B.21) alone does not help. If the learned basis may be turned, B Q and Q'W for B "
    "and W, which changes no reward, the factor 2 is right (psl.B_minus_Bdiamond_corrected) and "
    "the factor 1 is wrong the other way round (psl.B_minus_Bdiamond_aligned): so read, this slip "
    "alone costs (B.5), (B.13) and Theorem 4.2 a factor only.",
    corrected="B_minus_Bdiamond_corrected",
    printed_as="proof step",
)
def B_minus_Bdiamond(sides: Any) -> rc.Sides:
    """||B - B_diamond||_F^2 <= dist^2(B, B_diamond) for orthonormal bases of two subspaces."""
    return (sides[0], sides[1])


@PAPER.upper(
    "B_minus_Bdiamond_corrected",
    ref="end of Appendix B.1 and of C.2, corrected",
    on=B_minus_Bdiamond.space,
    tex=r"\min_{Q\in O(k)}\|B-B^\diamond Q\|_F^2\le2\,\mathrm{dist}^2(B,B^\diamond)",
    note="Attained by orthogonal subspaces.",
    derivation="With the cosines c_j of the principal angles, the singular values of B'B_diamond, "
    "the best Q gives 2 sum (1 - c_j) and dist^2 = sum (1 - c_j)(1 + c_j), where 1 <= 1 + c_j.",
)
def B_minus_Bdiamond_corrected(sides: Any) -> rc.Sides:
    """min over orthogonal Q of ||B - B_diamond Q||_F^2 <= 2 dist^2(B, B_diamond)."""
    return sides[2], 2 * sides[1]


@PAPER.lower(
    "B_minus_Bdiamond_aligned",
    ref="end of Appendix B.1, from below",
    on=B_minus_Bdiamond_corrected.space,
    tex=r"\min_{Q\in O(k)}\|B-B^\diamond Q\|_F^2\ge\mathrm{dist}^2(B,B^\diamond)",
    note="Equal in the limit of equal subspaces.",
    derivation="As before, with 1 + c_j <= 2.",
    printed_as="ours",
)
def B_minus_Bdiamond_aligned(sides: Any) -> rc.Sides:
    """min over orthogonal Q of ||B - B_diamond Q||_F^2 >= dist^2(B, B_diamond)."""
    return sides[2], sides[1]


C2_C3 = replace(
    B_minus_Bdiamond,
    id="psl.C2_C3",
    source="P-ShareLoRA, Appendix C.2, the last display",
    note="As psl.B_minus_Bdiamond. Two slips beside it: C.2 and C.3 end with N_Gr, the class of "
    "all matrices, where the theorems have N_G'r, and the last display of C.3 has J(pi_tar; r_i) "
    "in place of J(pi_tar; r*_i).",
)


def _decomposed(
    *, raw_B: Any, raw_U: Any, k: Any, W_diamond: Any, **others: Any
) -> SimpleNamespace:
    held = np.where(np.arange(raw_B.shape[-1]) < k[:, None], 1, 0)
    first, second = at.orthogonal(raw_B), at.orthogonal(raw_U)
    return SimpleNamespace(
        hat=first * held[:, None],
        diamond=second * held[:, None],
        k=k,
        W_diamond=W_diamond * held[..., None],
        **others,
    )


DECOMPOSED = rc.Space(
    fields={
        "raw_B": rc.reals("d1", "d1", magnitude=_SIZE),
        "raw_U": rc.reals("d1", "d1", magnitude=_SIZE),
        "k": rc.whole_numbers(low=1, high=2),
        "W_diamond": rc.reals("d1", "d2", magnitude=_SIZE),
        "W_hat": rc.reals("d1", "d2", magnitude=_SIZE),
        "psi0": rc.reals("n", "d1", "d2", magnitude=_SIZE),
        "psi1": rc.reals("n", "d1", "d2", magnitude=_SIZE),
    },
    sizes={"n": (1, 2), "d1": (1, 3), "d2": (1, 2)},
    view=_decomposed,
    batched=True,
    meaning={
        "raw_B": "the first k columns of Cayley's rotation of it are B_hat",
        "raw_U": "the same for B_diamond",
        "W_diamond": "its rows after the k-th one are unused",
    },
)


def _b5(s: Any, first: int, power: int) -> tuple[Any, Any]:
    factor = first * at.lipschitz(s.psi0, s.psi1) ** power
    return at.eq_B5(s.diamond, s.hat, s.W_diamond, s.W_hat, s.psi0, s.psi1, factor)


@PAPER.upper(
    "eq_B5",
    ref="equation (B.5)",
    tex=r"\frac1{N_p}\sum_jA_{i,j}\le4L_1\|B^\diamond-\hat B\|^2\|W^\diamond_i\|_F^2"
    r"+2\|w_i^\diamond-\hat w_i\|^2_{\hat\Sigma_i}",
    on=replace(
        DECOMPOSED,
        sizes={**DECOMPOSED.sizes, "d1": (2, 3)},
        given={"k < d1": lambda s: s.k < s.hat.shape[-2]},
    ),
    expect="violated",
    note="As in (B.3): the Lipschitz bound 2 L1 is not squared. The paper prints 4 L, 'from the "
    "L-Lipschitz continuity of the function r'; the L1 of Assumption 1 is that constant. k = d2 = "
    "1, B_hat = (1, 0)', B_diamond = (0, 1)', both W = 1 and one comparison of (-2, 2)' with (2, "
    "-2)', so that L1 = 2 sqrt(2): 64 against 16 sqrt(2) = 22.6. ||B_diamond - B_hat|| is the "
    "operator norm, for which step (ii) is right. It is that of the bases as they are, which dist "
    "does not bound (psl.B_minus_Bdiamond). This slip alone leaves Theorem B.3 its form, with "
    "8 L1^2.",
    family=[
        {
            "raw_B": [[1.0, 1.0], [1.0, 1.0]],
            "raw_U": [[1.0, 2.0], [1.0, 1.0]],
            "k": 1.0,
            "W_diamond": [[1.0], [0.0]],
            "W_hat": [[1.0], [0.0]],
            "psi0": [[[-size], [size]]],
            "psi1": [[[size], [-size]]],
        }
        for size in (1.0, 2.0, 9.0)
    ],
    corrected="eq_B5_corrected",
    printed_as="proof step",
)
def eq_B5(instance: Any) -> rc.Sides:
    """(1/N_p) sum_j A_ij <= 4 L1 ||B_diamond - B_hat||^2 ||W_diamond_i||_F^2 + 2 ||w_diamond_i -
    w_hat_i||^2 in the norm of Sigma_hat_i; linear rewards.
    """
    return _b5(instance, 4, 1)


@PAPER.upper(
    "eq_B5_corrected",
    ref="equation (B.5), corrected",
    on=DECOMPOSED,
    tex=r"\frac1{N_p}\sum_jA_{i,j}\le8L_1^2\|B^\diamond-\hat B\|^2\|W^\diamond_i\|_F^2"
    r"+2\|w_i^\diamond-\hat w_i\|^2_{\hat\Sigma_i}",
    uses=["eq_B3_corrected"],
    derivation="As psl.eq_B3_corrected, with ||(B_diamond - B_hat) W|| <= ||B_diamond - B_hat|| "
    "||W||_F.",
)
def eq_B5_corrected(instance: Any) -> rc.Sides:
    """(1/N_p) sum_j A_ij <= 8 L1^2 ||B_diamond - B_hat||^2 ||W_diamond_i||_F^2 + 2 ||w_diamond_i -
    w_hat_i||^2 in the norm of Sigma_hat_i; linear rewards.
    """
    return _b5(instance, 8, 2)

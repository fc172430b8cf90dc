"""FSLoRA, Proposition D.4: the smoothness of f~(.; S), f_i^S and f^S from that of f_i."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.fslora.claims._spaces import (
    AFFINE,
    DIRECTION,
    DIRECTIONS,
    FIELDS,
    MEANING,
    least_squares,
    ranks,
)
from experiments.fslora.theory import hessians as hessians
from experiments.fslora.theory.sketching import Devices
from linsys.linalg import transpose

_RANGE = (0.1, 10.0)
_ONE = {"N": (1, 1)}


def _isotropic(*, d: Any, B: Any, A: Any, k: Any, scale: Any, **others: Any) -> SimpleNamespace:
    """Devices with the inputs scale times the basis vectors: M is a multiple of I."""
    n = A.shape[-1]
    x = scale[..., None, None] * np.eye(n, dtype=int)
    devices = Devices(x=x, d=d, B=B, A=A, k=ranks(k, A.shape[-2]))
    return SimpleNamespace(devices=devices, **others)


ISOTROPIC = rc.Space(
    fields={
        "scale": rc.positive("N", low=0.1, high=10.0),
        "d": rc.reals("N", "n", "m", magnitude=_RANGE),
        **{name: FIELDS[name] for name in ("B", "A", "k")},
        **DIRECTION,
    },
    sizes={"N": (1, 2), "m": (1, 2), "n": (1, 2), "r": (1, 3)},
    view=_isotropic,
    batched=True,
    meaning={
        **{name: MEANING[name] for name in ("d", "k")},
        **DIRECTIONS,
        "scale": "the inputs are scale times the basis vectors",
    },
)


def _quadratic(*, BB: Any, BA: Any, AA: Any, b: Any, a: Any, k: Any) -> SimpleNamespace:
    """Hessians (B', N, 2r, 2r) of quadratic functions of (b, a), and a direction."""
    rows = [np.concatenate([BB, BA], axis=-1), np.concatenate([transpose(BA), AA], axis=-1)]
    Q = hessians.symmetric(np.concatenate(rows, axis=-2))
    v = np.concatenate([b, a], axis=-1)
    return SimpleNamespace(Q=Q, v=v, k=ranks(k, a.shape[-1]))


QUADRATICS = rc.Space(
    fields={
        **{name: rc.reals("N", "r", "r") for name in ("BB", "BA", "AA")},
        "b": rc.reals("r", magnitude=_RANGE),
        "a": rc.reals("r", magnitude=_RANGE),
        "k": rc.whole_numbers("N", low=1, high=4),
    },
    sizes={"N": (1, 2), "r": (1, 3)},
    view=_quadratic,
    batched=True,
    meaning={
        "BB": "the Hessian's block of b before it is made symmetric",
        "BA": "its block of b and a",
        "AA": "its block of a",
        "b": "the b part of X - Y",
        "a": "the a part of X - Y",
        "k": "ranks k_i; more than r is r",
    },
)


PROP_D4_I = rc.Claim(
    id="fslora.prop_d4_i",
    source="FSLoRA, Proposition D.4 (i)",
    text="f~(.; S) is L (r/k)^2-smooth if f_i is L-smooth as a function of (B, A).",
    latex=r"\|\nabla\tilde f_i(X;S)-\nabla\tilde f_i(Y;S)\|\le\frac{r^2}{k_i^2}L\|X-Y\|",
    kind="upper",
    space=QUADRATICS,
    measure=lambda s: hessians.prop_d4_i(s.Q, s.k, s.v),
    note="Measured on quadratic functions of (B, A), as the proof uses nothing of f_i but its "
    "smoothness; attained in b. Of functions of BA only affine ones satisfy Assumption 4.1 "
    "(fslora.a41_any), and they have half the exponent: fslora.d4_affine. So has every function of "
    "BA on balls: fslora.d4_local_corrected.",
)
PROP_D4_I_BLOCKS = rc.Claim(
    id="fslora.prop_d4_i_blocks",
    source="FSLoRA, Proposition D.4 (i), sharpened",
    text="Along v the Hessian of f~(.; S) is at most L ((r/k)^2 ||v_B on I||^2 + ||v_A||^2): only "
    "B is scaled.",
    latex=r"|v^\top\nabla^2\tilde f\,v|\le L\Big(\frac{r^2}{k^2}\|v_{B,I}\|^2+\|v_A\|^2\Big)",
    kind="upper",
    space=QUADRATICS,
    measure=lambda s: hessians.prop_d4_i_blocks(s.Q, s.k, s.v),
    derivation="The Hessian is T'QT with T = diag(S, I).",
)
PROP_D4_II = rc.Claim(
    id="fslora.prop_d4_ii",
    source="FSLoRA, Proposition D.4 (ii)",
    text="f_i^S is L r/k_i-smooth if f_i is L-smooth as a function of (B, A).",
    latex=r"\|\nabla f_i^{\mathcal S}(X)-\nabla f_i^{\mathcal S}(Y)\|\le\frac r{k_i}L\|X-Y\|",
    kind="upper",
    space=QUADRATICS,
    measure=lambda s: hessians.prop_d4_ii(s.Q, s.k, s.v),
    note="E T'QT <= L E T'T = L diag(r/k, 1): attained in b, as in (i). A function of BA has no "
    "factor at all: fslora.d4_local_corrected.",
)
PROP_D4_III = rc.Claim(
    id="fslora.prop_d4_iii",
    source="FSLoRA, Proposition D.4 (iii)",
    text="f^S is L (1/N) sum_i r/k_i-smooth.",
    latex=r"\|\nabla f^{\mathcal S}(X)-\nabla f^{\mathcal S}(Y)\|\le\Big(\frac1N\sum_i\frac r{k_i}"
    r"\Big)L\|X-Y\|",
    kind="upper",
    space=QUADRATICS,
    measure=lambda s: hessians.prop_d4_iii(s.Q, s.k, s.v),
)
D4_EQUALITY = rc.Claim(
    id="fslora.d4_equality",
    source="FSLoRA, Appendix D.4, below (24)",
    text="||[US; V]||^2 = (r/k)^2 ||[U; V]||^2 and E||[US; V]||^2 = (r/k) ||[U; V]||^2.",
    latex=r"\Big\|\begin{bmatrix}\Delta BS\\\Delta A\end{bmatrix}\Big\|^2=\frac{r^2}{k_i^2}"
    r"\Big\|\begin{bmatrix}\Delta B\\\Delta A\end{bmatrix}\Big\|^2",
    kind="identity",
    space=replace(AFFINE, fields={**DIRECTION, "k": rc.whole_numbers(low=1, high=4)}),
    measure=lambda s: hessians.d4_equality(s.U, s.V, s.k),
    expect="violated",
    note="Printed as equalities; they are inequalities, as S does not touch A: U = 0, V = 1, r = "
    "2, k = 1 has 1 against 4 and 2. The proposition needs no more.",
    corrected="fslora.d4_equality_corrected",
)
D4_EQUALITY_CORRECTED = replace(
    D4_EQUALITY,
    id="fslora.d4_equality_corrected",
    source="FSLoRA, Appendix D.4, below (24), corrected",
    text="||[US; V]||^2 <= (r/k)^2 ||[U; V]||^2 and E||[US; V]||^2 <= (r/k) ||[U; V]||^2.",
    latex=r"\Big\|\begin{bmatrix}\Delta BS\\\Delta A\end{bmatrix}\Big\|^2\le\frac{r^2}{k_i^2}"
    r"\Big\|\begin{bmatrix}\Delta B\\\Delta A\end{bmatrix}\Big\|^2",
    kind="upper",
    relation="<=",
    expect="holds",
    note="",
    corrected=None,
    derivation="(8) and (9) for U, and 1 <= r/k for V. Attained where V = 0.",
)
D4_AFFINE = rc.Claim(
    id="fslora.d4_affine",
    source="FSLoRA, Proposition D.4 for the functions that satisfy Assumption 4.1",
    text="For f = <C, BA>, which is L = ||C||-smooth, f~(.; S) is (r/k) L-smooth and f^S is "
    "L-smooth: not (r/k)^2 and r/k.",
    latex=r"f=\langle C,BA\rangle:\ \tilde f(\cdot;S)\text{ is }\tfrac rkL\text{-smooth, }"
    r"f^{\mathcal S}=f",
    kind="upper",
    space=AFFINE,
    measure=lambda s: hessians.d4_affine(s.C, s.k, s.U, s.V),
    derivation="||S|| = r/k and E S = I, and the loss is linear in S. Attained.",
)
D4_I_CENTRED = rc.Claim(
    id="fslora.d4_i_centred",
    source="FSLoRA, Proposition D.4 (i) on balls around 0, for least squares with M = mu I",
    text="In the ball of radius rho around 0 f~(.; S) is (r/k)^2 L(rho)-smooth, L(rho) being the "
    "largest Hessian norm of f in the same ball.",
    latex=r"\|\nabla^2\tilde f(X;S)\|\le\frac{r^2}{k^2}L(\|X\|),\quad L(\rho)=\tfrac32\rho^2\|M\|"
    r"+\|C\|",
    kind="upper",
    space=ISOTROPIC,
    measure=lambda s: hessians.d4_i_centred(s.devices, s.U, s.V, sharp=False),
    derivation="fslora.d4_i_centred_sharp and L(c rho) <= c^2 L(rho) for c >= 1. A loss that bends "
    "more farther out, max(0, w - 1)^2 with rho^2 < 2, need not satisfy the last step.",
)
D4_I_CENTRED_SHARP = rc.Claim(
    id="fslora.d4_i_centred_sharp",
    source="FSLoRA, Proposition D.4 (i) on balls around 0, sharpened",
    text="In that ball f~(.; S) is (r/k) L(sqrt(r/k) rho)-smooth.",
    latex=r"\|\nabla^2\tilde f(X;S)\|\le\frac rkL\big(\sqrt{r/k}\,\|X\|\big)",
    kind="upper",
    space=ISOTROPIC,
    measure=lambda s: hessians.d4_i_centred(s.devices, s.U, s.V, sharp=True),
    derivation="f~(B, A; S) = f(B S^{1/2}, S^{1/2} A) for every function f of BA, and "
    "||S^{1/2}||^2 = r/k. Attained by one component.",
)
D4_II_CENTRED = rc.Claim(
    id="fslora.d4_ii_centred",
    source="FSLoRA, Proposition D.4 (ii) on balls around 0, for least squares with M = mu I",
    text="In the ball of radius rho around 0 f_i^S is (r/k) L(rho)-smooth.",
    latex=r"\|\nabla^2f_i^{\mathcal S}(X)\|\le\frac r{k_i}L(\|X\|)",
    kind="upper",
    space=ISOTROPIC,
    measure=lambda s: hessians.d4_ii_centred(s.devices, s.U, s.V, sharp=False),
    derivation="fslora.d4_ii_centred_sharp and L(c rho) <= c^2 L(rho).",
)
D4_II_CENTRED_SHARP = rc.Claim(
    id="fslora.d4_ii_centred_sharp",
    source="FSLoRA, Proposition D.4 (ii) on balls around 0, sharpened",
    text="In that ball f_i^S is L(sqrt(r/k) rho)-smooth, without a factor.",
    latex=r"\|\nabla^2f_i^{\mathcal S}(X)\|\le L\big(\sqrt{r/k_i}\,\|X\|\big)",
    kind="upper",
    space=ISOTROPIC,
    measure=lambda s: hessians.d4_ii_centred(s.devices, s.U, s.V, sharp=True),
    derivation="As in (i): along v its Hessian is E v'T'H(TX)Tv <= L(sqrt(r/k) rho) E||Tv||^2 with "
    "T = S^{1/2} on both factors, and E T'T = I. Attained by one component.",
)
D4_LOCAL = rc.Claim(
    id="fslora.d4_local",
    source="FSLoRA, Proposition D.4 with the smoothness measured where the iterates are",
    text="At any X the Hessian of f~(.; S) is at most (r/k)^2 times that of f, and the Hessian of "
    "f_i^S at most r/k times.",
    latex=r"\|\nabla^2\tilde f(X;S)\|\le\frac{r^2}{k^2}\|\nabla^2f(X)\|,\quad\|\nabla^2f_i^"
    r"{\mathcal S}(X)\|\le\frac r{k_i}\|\nabla^2f(X)\|",
    kind="upper",
    space=least_squares(sizes={**_ONE, "m": (1, 1)}),
    measure=lambda s: hessians.d4_local(s.devices),
    expect="violated",
    note="f~ at X is f at another point, (BS, A), farther out, and (i) needs L there. r = 2, k = "
    "1, B_1 = A_1 = 1, all else zero, residual zero: Hessian norms 2 of f, 10 of f~ with the "
    "first component, 5 of f^S; (i) and (ii) give 8 and 4. So a constant measured near the "
    "iterates is not enough for a step size.",
    corrected="fslora.d4_local_corrected",
)
D4_LOCAL_CORRECTED = rc.Claim(
    id="fslora.d4_local_corrected",
    source="FSLoRA, Proposition D.4, corrected and sharpened for functions of BA",
    text="The Hessian of f~(.; S) at (B, A) is at most r/k times that of f at (B S^{1/2}, S^{1/2} "
    "A), and that of f_i^S at most the largest of those: in particular L r/k- and L-smooth where "
    "f is L-smooth on the ball of radius sqrt(r/k) rho.",
    latex=r"\|\nabla^2\tilde f(X;S)\|\le\frac rk\|\nabla^2f(BS^{1/2},S^{1/2}A)\|,\quad\|\nabla^2"
    r"f_i^{\mathcal S}(X)\|\le\max_S\|\nabla^2f(BS^{1/2},S^{1/2}A)\|",
    kind="upper",
    space=least_squares(sizes={**_ONE, "m": (1, 1)}),
    measure=lambda s: hessians.d4_local_corrected(s.devices),
    derivation="f~(B, A; S) = f(B S^{1/2}, S^{1/2} A); with T = S^{1/2} on both factors the "
    "Hessian is T'H(TX)T, ||T||^2 = r/k and E T'T = I. Both attained. The proof's f(BS, A) scales "
    "B alone, hence its (r/k)^2 and r/k.",
)

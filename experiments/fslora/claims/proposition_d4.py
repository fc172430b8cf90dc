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
from experiments.fslora.claims._variants import true_variant
from experiments.fslora.paper import PAPER
from experiments.fslora.theory import hessians as hessians
from experiments.fslora.theory.sketching import Devices, join, sketches
from experiments.fslora.theory.smoothness import length, spectral
from linsys.linalg import Numbers, norm, operator_norm, squares, transpose

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


def _smooth(
    *, VB: Any, VA: Any, h: Any, o: Any, w: Any, to_b: Any, to_a: Any, b: Any, a: Any, k: Any
) -> SimpleNamespace:
    """Sums of functions of v.X - o whose slope is h clip(., -w, w), at Y and at X = Y + v."""
    V = np.concatenate([VB, VA], axis=-1)
    Y, v = np.concatenate([to_b, to_a], axis=-1), np.concatenate([b, a], axis=-1)
    L = operator_norm(V @ transpose(V))
    return SimpleNamespace(V=V, h=h, o=o, w=w, Y=Y, v=v, L=L, k=ranks(k, a.shape[-1]))


SMOOTH = rc.Space(
    fields={
        "VB": rc.reals("N", "p", "r"),
        "VA": rc.reals("N", "p", "r"),
        "h": rc.interval("N", "p", low=-1.0, high=1.0),
        "o": rc.reals("N", "p", magnitude=_RANGE),
        "w": rc.positive("N", "p", low=0.1, high=100.0),
        "to_b": rc.reals("r", magnitude=_RANGE),
        "to_a": rc.reals("r", magnitude=_RANGE),
        "b": rc.reals("r", magnitude=_RANGE),
        "a": rc.reals("r", magnitude=_RANGE),
        "k": rc.whole_numbers("N", low=1, high=4),
    },
    sizes={"N": (1, 2), "p": (1, 2), "r": (1, 3)},
    view=_smooth,
    batched=True,
    meaning={
        "VB": "the b part of the directions that f_i depends on",
        "VA": "their a part",
        "h": "in the direction v the slope is h clip(v.X - o, -w, w)",
        "o": "see h",
        "w": "see h",
        "to_b": "the b part of Y",
        "to_a": "its a part",
        "b": "the b part of X - Y",
        "a": "its a part",
        "k": "ranks k_i; more than r is r",
    },
)


def scalings(k: Numbers, r: int) -> tuple[Numbers, Numbers]:
    """The diagonals of T = diag(S, I) on (b, a), shape (..., K, 2r), and the chances (..., K)."""
    S, chance = sketches(k, r)
    held = (chance > 0)[..., None]
    return np.where(held, np.concatenate([S, 1 + 0 * S], axis=-1), 0), chance


def _moved(Q: Numbers, T: Numbers, v: Numbers) -> Numbers:
    """T Q T v for every sketch: Q (B', N, w, w), T (B', N, K, w), v (B', w)."""
    return np.asarray(T * (Q[:, :, None] @ (T * v[:, None, None])[..., None])[..., 0])


def _changed(s: Any) -> tuple[Numbers, Numbers]:
    """grad f~_i(X; S) - grad f~_i(Y; S) of every sketch, (B', N, K, w), and the chances."""
    T, chance = scalings(s.k, s.v.shape[-1] // 2)

    def slopes(point: Numbers) -> Numbers:
        along = (T * point[:, None, None]) @ transpose(s.V) - s.o[:, :, None]
        w = s.w[:, :, None]
        clipped = np.minimum(np.maximum(along, -w), w)
        return np.asarray(T * ((s.h[:, :, None] * clipped) @ s.V))

    return slopes(s.Y + s.v) - slopes(s.Y), chance


@PAPER.upper(
    "prop_d4_i",
    ref="Proposition D.4 (i)",
    tex=r"\|\nabla\tilde f_i(X;S)-\nabla\tilde f_i(Y;S)\|\le\frac{r^2}{k_i^2}L\|X-Y\|",
    on=SMOOTH,
    note="Measured on functions of (B, A) whose slopes are sums of lines between constants, with "
    "curvature of both signs, as the proof uses nothing of f_i but its smoothness; attained in b. "
    "Of functions of BA only affine ones satisfy Assumption 4.1 (fslora.a41_any), and they have "
    "half the exponent: fslora.d4_affine. So has every function of BA on balls: "
    "fslora.d4_local_corrected.",
    uses=["lemma_d3_8"],
)
def prop_d4_i(instance: Any) -> rc.Sides:
    """f~(.; S) is L (r/k)^2-smooth if f_i is L-smooth as a function of (B, A)."""
    s = instance
    changed, _ = _changed(s)
    top = (s.v.shape[-1] // 2 / s.k) ** 2 * s.L * norm(s.v)[:, None]
    return norm(changed), top[..., None]


@PAPER.upper(
    "prop_d4_i_blocks",
    ref="Proposition D.4 (i), sharpened",
    tex=r"|v^\top\nabla^2\tilde f\,v|\le L\Big(\frac{r^2}{k^2}\|v_{B,I}\|^2+\|v_A\|^2\Big)",
    on=QUADRATICS,
    printed_as="ours",
    derivation="The Hessian is T'QT with T = diag(S, I).",
)
def prop_d4_i_blocks(Q: Numbers, k: Numbers, v: Numbers) -> rc.Sides:
    """Along v the Hessian of f~(.; S) is at most L ((r/k)^2 ||v_B on I||^2 + ||v_A||^2): only B is
    scaled.
    """
    T, _ = scalings(k, v.shape[-1] // 2)
    form = np.abs((v[:, None, None] * _moved(Q, T, v)).sum(axis=-1))
    scaled = T * v[:, None, None]
    return form, operator_norm(Q)[..., None] * (scaled * scaled).sum(axis=-1)


@PAPER.upper(
    "prop_d4_ii",
    ref="Proposition D.4 (ii)",
    tex=r"\|\nabla f_i^{\mathcal S}(X)-\nabla f_i^{\mathcal S}(Y)\|\le\frac r{k_i}L\|X-Y\|",
    on=SMOOTH,
    note="With T = diag(S, I) and the gradient g of f_i, ||E T (g(TX) - g(TY))|| is at most L "
    "sqrt(E||T (X - Y)||^2 E||T v||^2) <= L (r/k) ||X - Y|| for some v of length one: attained in "
    "b, as in (i). A function of BA has no factor at all, with the L of a larger ball: "
    "fslora.d4_local_corrected.",
    uses=["lemma_d3_9"],
)
def prop_d4_ii(instance: Any) -> rc.Sides:
    """f_i^S is L r/k_i-smooth if f_i is L-smooth as a function of (B, A)."""
    s = instance
    changed, chance = _changed(s)
    mean = (chance[..., None] * changed).sum(axis=2)
    return norm(mean), s.v.shape[-1] // 2 / s.k * s.L * norm(s.v)[:, None]


@PAPER.upper(
    "prop_d4_iii",
    ref="Proposition D.4 (iii)",
    tex=r"\|\nabla f^{\mathcal S}(X)-\nabla f^{\mathcal S}(Y)\|\le\Big(\frac1N\sum_i\frac r{k_i}"
    r"\Big)L\|X-Y\|",
    on=SMOOTH,
    uses=["prop_d4_ii"],
)
def prop_d4_iii(instance: Any) -> rc.Sides:
    """f^S is L (1/N) sum_i r/k_i-smooth if all f_i are L-smooth as functions of (B, A)."""
    s = instance
    changed, chance = _changed(s)
    mean = (chance[..., None] * changed).sum(axis=2).sum(axis=1) / s.k.shape[1]
    top = (s.v.shape[-1] // 2 / s.k).sum(axis=1) / s.k.shape[1] * s.L.max(axis=1)
    return norm(mean), top * norm(s.v)


@PAPER.identity(
    "d4_equality",
    ref="Appendix D.4, below (24)",
    tex=r"\Big\|\begin{bmatrix}\Delta BS\\\Delta A\end{bmatrix}\Big\|^2=\frac{r^2}{k_i^2}"
    r"\Big\|\begin{bmatrix}\Delta B\\\Delta A\end{bmatrix}\Big\|^2",
    on=replace(AFFINE, fields={**DIRECTION, "k": rc.whole_numbers(low=1, high=4)}),
    expect="violated",
    note="Printed as equalities; they are inequalities, as S does not touch A: U = 0, V = 1, r = "
    "2, k = 1 has 1 against 4 and 2. The proposition needs no more.",
    corrected="d4_equality_corrected",
    printed_as="proof step",
)
def d4_equality(U: Numbers, V: Numbers, k: Numbers) -> rc.Sides:
    """||[US; V]||^2 = (r/k)^2 ||[U; V]||^2 and E||[US; V]||^2 = (r/k) ||[U; V]||^2."""
    r = U.shape[-1]
    S, chance = sketches(k, r)
    each = squares(U[:, None] * S[:, :, None]) + squares(V)[:, None]
    both, kappa = (squares(U) + squares(V))[:, None], (r / k)[:, None]
    held = np.where(chance > 0, each, 0 * each)
    bound = np.where(chance > 0, kappa**2 * both, 0 * each)
    mean = (chance * each).sum(axis=-1)[:, None]
    return np.concatenate([held, mean], axis=1), np.concatenate([bound, kappa * both], axis=1)


D4_EQUALITY_CORRECTED = true_variant(
    d4_equality,
    id="fslora.d4_equality_corrected",
    source="FSLoRA, Appendix D.4, below (24), corrected",
    text="||[US; V]||^2 <= (r/k)^2 ||[U; V]||^2 and E||[US; V]||^2 <= (r/k) ||[U; V]||^2.",
    printed_as="statement",
    latex=r"\Big\|\begin{bmatrix}\Delta BS\\\Delta A\end{bmatrix}\Big\|^2\le\frac{r^2}{k_i^2}"
    r"\Big\|\begin{bmatrix}\Delta B\\\Delta A\end{bmatrix}\Big\|^2",
    kind="upper",
    relation="<=",
    derivation="(8) and (9) for U, and 1 <= r/k for V. Attained where V = 0.",
)


@PAPER.upper(
    "d4_affine",
    ref="Proposition D.4 for the functions that satisfy Assumption 4.1",
    tex=r"f=\langle C,BA\rangle:\ \tilde f(\cdot;S)\text{ is }\tfrac rkL\text{-smooth, }"
    r"f^{\mathcal S}=f",
    on=AFFINE,
    printed_as="ours",
    derivation="||S|| = r/k and E S = I, and the loss is linear in S. Attained.",
)
def d4_affine(C: Numbers, k: Numbers, U: Numbers, V: Numbers) -> rc.Sides:
    """For f = <C, BA>, which is L-smooth with L = ||C||, the operator norm, f~(.; S) is (r/k)
    L-smooth and f^S is L-smooth: not (r/k)^2 and r/k.
    """
    S, chance = sketches(k, U.shape[-1])
    by_B = (C @ transpose(V))[:, None] * S[:, :, None]
    by_A = S[..., None] * (transpose(U) @ C)[:, None]
    each = join(by_B, by_A)
    sizes = np.where(chance > 0, norm(each), 0 * chance)
    mean = norm((chance[..., None] * each).sum(axis=1))
    top = (spectral(C) * length(U, V))[:, None]
    bound = np.concatenate([(U.shape[-1] / k)[:, None] * top + 0 * sizes, top], axis=1)
    return np.concatenate([sizes, mean[:, None]], axis=1), bound


@PAPER.upper(
    "d4_i_centred",
    ref="Proposition D.4 (i) on balls around 0, for least squares with M = mu I",
    tex=r"\|\nabla^2\tilde f_i(X;S)\|\le\frac{r^2}{k_i^2}L(\|X\|),\quad L(\rho)=\tfrac32\rho^2\|M\|"
    r"+\|C\|",
    on=ISOTROPIC,
    printed_as="ours",
    uses=["d4_i_centred_sharp"],
    derivation="fslora.d4_i_centred_sharp and L(c rho) <= c^2 L(rho) for c >= 1. A loss that bends "
    "more farther out, max(0, w - 1)^2 with rho^2 < 2, need not satisfy the last step.",
)
def d4_i_centred(devices: Any, U: Any, V: Any) -> rc.Sides:
    """In the ball of radius rho around 0 f~_i(.; S) is (r/k_i)^2 L(rho)-smooth, L(rho) being the
    largest Hessian norm of f_i in the same ball; here for least squares with M = mu I, M the
    second moment of the inputs.
    """
    return hessians.d4_i_centred(devices, U, V, sharp=False)


@PAPER.upper(
    "d4_i_centred_sharp",
    ref="Proposition D.4 (i) on balls around 0, sharpened",
    tex=r"\|\nabla^2\tilde f(X;S)\|\le\frac rkL\big(\sqrt{r/k}\,\|X\|\big)",
    on=ISOTROPIC,
    derivation="f~(B, A; S) = f(B S^{1/2}, S^{1/2} A) for every function f of BA, and "
    "||S^{1/2}||^2 = r/k. Attained by one component.",
    sharpens="d4_i_centred",
)
def d4_i_centred_sharp(devices: Any, U: Any, V: Any) -> rc.Sides:
    """In the ball of radius rho around 0 f~_i(.; S) is (r/k) L(sqrt(r/k) rho)-smooth, L(rho) being
    the largest Hessian norm of f_i in the ball of radius rho; here for least squares with M = mu I,
    M the second moment of the inputs.
    """
    return hessians.d4_i_centred(devices, U, V, sharp=True)


@PAPER.upper(
    "d4_ii_centred",
    ref="Proposition D.4 (ii) on balls around 0, for least squares with M = mu I",
    tex=r"\|\nabla^2f_i^{\mathcal S}(X)\|\le\frac r{k_i}L(\|X\|)",
    on=ISOTROPIC,
    printed_as="ours",
    uses=["d4_ii_centred_sharp"],
    derivation="fslora.d4_ii_centred_sharp and L(c rho) <= c^2 L(rho).",
)
def d4_ii_centred(devices: Any, U: Any, V: Any) -> rc.Sides:
    """In the ball of radius rho around 0 f_i^S is (r/k) L(rho)-smooth."""
    return hessians.d4_ii_centred(devices, U, V, sharp=False)


@PAPER.upper(
    "d4_ii_centred_sharp",
    ref="Proposition D.4 (ii) on balls around 0, sharpened",
    tex=r"\|\nabla^2f_i^{\mathcal S}(X)\|\le L\big(\sqrt{r/k_i}\,\|X\|\big)",
    on=ISOTROPIC,
    derivation="As in (i): along v its Hessian is E v'T'H(TX)Tv <= L(sqrt(r/k) rho) E||Tv||^2 with "
    "T = S^{1/2} on both factors, and E T'T = I. Attained by one component.",
    sharpens="d4_ii_centred",
)
def d4_ii_centred_sharp(devices: Any, U: Any, V: Any) -> rc.Sides:
    """In the ball of radius rho around 0 f_i^S is L(sqrt(r/k) rho)-smooth, without a factor, L(rho)
    being the largest Hessian norm of f_i in the ball of radius rho; here for least squares with M =
    mu I.
    """
    return hessians.d4_ii_centred(devices, U, V, sharp=True)


@PAPER.upper(
    "d4_local",
    ref="Proposition D.4 with the smoothness measured where the iterates are",
    tex=r"\|\nabla^2\tilde f(X;S)\|\le\frac{r^2}{k^2}\|\nabla^2f(X)\|,\quad\|\nabla^2f_i^"
    r"{\mathcal S}(X)\|\le\frac r{k_i}\|\nabla^2f(X)\|",
    on=least_squares(sizes={**_ONE, "m": (1, 1)}),
    expect="violated",
    note="f~ at X is f at another point, (BS, A), farther out, and (i) needs L there. r = 2, k = "
    "1, B_1 = A_1 = 1, all else zero, residual zero: Hessian norms 2 of f, 10 of f~ with the "
    "first component, 5 of f^S; (i) and (ii) give 8 and 4. So a constant measured near the "
    "iterates is not enough for a step size.",
    corrected="d4_local_corrected",
    printed_as="ours",
)
def d4_local(devices: Devices) -> rc.Sides:
    """At any X the Hessian of f~(.; S) is at most (r/k)^2 times that of f, and the Hessian of f_i^S
    at most r/k times.
    """
    return hessians.d4_local(devices)


@PAPER.upper(
    "d4_local_corrected",
    ref="Proposition D.4, corrected and sharpened for functions of BA",
    tex=r"\|\nabla^2\tilde f(X;S)\|\le\frac rk\|\nabla^2f(BS^{1/2},S^{1/2}A)\|,\quad\|\nabla^2"
    r"f_i^{\mathcal S}(X)\|\le\max_S\|\nabla^2f(BS^{1/2},S^{1/2}A)\|",
    on=least_squares(sizes={**_ONE, "m": (1, 1)}),
    derivation="f~(B, A; S) = f(B S^{1/2}, S^{1/2} A); with T = S^{1/2} on both factors the "
    "Hessian is T'H(TX)T, ||T||^2 = r/k and E T'T = I. Both attained. The proof's f(BS, A) scales "
    "B alone, hence its (r/k)^2 and r/k.",
)
def d4_local_corrected(devices: Devices) -> rc.Sides:
    """The Hessian of f~(.; S) at (B, A) is at most r/k times that of f at (B S^{1/2}, S^{1/2} A),
    and that of f_i^S at most the largest of those of f over S: in particular they are L r/k- and
    L-smooth on the ball of radius rho around 0 if f is L-smooth on that of radius sqrt(r/k) rho.
    """
    return hessians.d4_local_corrected(devices)

"""FSLoRA, Proposition D.4: the smoothness of f~(.; S), f_i^S and f^S from that of f_i.

Twice: for quadratic functions of (B, A) that need not be functions of BA, which is all that the
proof uses, and for least squares, where constants are those of a ball or of a point.
"""

from __future__ import annotations

import numpy as np

from experiments.fslora.theory.sketching import Devices, join, sketches, squares
from experiments.fslora.theory.smoothness import (
    ball_constant,
    hessian_action,
    hessians,
    length,
    sketch_variance,
    spectral,
)
from linsys.linalg import Numbers, norm, operator_norm, transpose

Sides = tuple[Numbers, Numbers]


def scalings(k: Numbers, r: int) -> tuple[Numbers, Numbers]:
    """The diagonals of T = diag(S, I) on (b, a), shape (..., K, 2r), and the chances (..., K)."""
    S, chance = sketches(k, r)
    held = (chance > 0)[..., None]
    return np.where(held, np.concatenate([S, 1 + 0 * S], axis=-1), 0), chance


def symmetric(Q: Numbers) -> Numbers:
    """(Q + Q') / 2."""
    return np.asarray((Q + transpose(Q)) / 2)


def _moved(Q: Numbers, T: Numbers, v: Numbers) -> Numbers:
    """T Q T v for every sketch: Q (B', N, w, w), T (B', N, K, w), v (B', w)."""
    return np.asarray(T * (Q[:, :, None] @ (T * v[:, None, None])[..., None])[..., 0])


def prop_d4_i(Q: Numbers, k: Numbers, v: Numbers) -> Sides:
    """||grad f~(X; S) - grad f~(Y; S)|| <= (r/k)^2 L ||X - Y||, f with Hessian Q, L = ||Q||.

    Q is (B', N, 2r, 2r), v = X - Y is (B', 2r).
    """
    r = v.shape[-1] // 2
    T, _ = scalings(k, r)
    top = (r / k) ** 2 * operator_norm(Q) * norm(v)[:, None]
    return norm(_moved(Q, T, v)), top[..., None]


def prop_d4_i_blocks(Q: Numbers, k: Numbers, v: Numbers) -> Sides:
    """|v'TQTv| <= L ((r/k)^2 ||v_B on I||^2 + ||v_A||^2): only B is scaled."""
    T, _ = scalings(k, v.shape[-1] // 2)
    form = np.abs((v[:, None, None] * _moved(Q, T, v)).sum(axis=-1))
    scaled = T * v[:, None, None]
    return form, operator_norm(Q)[..., None] * (scaled * scaled).sum(axis=-1)


def prop_d4_ii(Q: Numbers, k: Numbers, v: Numbers) -> Sides:
    """||grad f_i^S(X) - grad f_i^S(Y)|| <= (r/k) L ||X - Y||."""
    r = v.shape[-1] // 2
    T, chance = scalings(k, r)
    mean = (chance[..., None] * _moved(Q, T, v)).sum(axis=2)
    return norm(mean), r / k * operator_norm(Q) * norm(v)[:, None]


def prop_d4_iii(Q: Numbers, k: Numbers, v: Numbers) -> Sides:
    """||grad f^S(X) - grad f^S(Y)|| <= (mean r/k_i) L ||X - Y||, L the largest ||Q_i||."""
    r = v.shape[-1] // 2
    T, chance = scalings(k, r)
    mean = (chance[..., None] * _moved(Q, T, v)).sum(axis=2).sum(axis=1) / k.shape[1]
    top = (r / k).sum(axis=1) / k.shape[1] * operator_norm(Q).max(axis=1)
    return norm(mean), top * norm(v)


def d4_equality(U: Numbers, V: Numbers, k: Numbers) -> Sides:
    """||[US; V]||^2 against (r/k)^2 ||[U; V]||^2, and E of it against r/k times that."""
    r = U.shape[-1]
    S, chance = sketches(k, r)
    each = squares(U[:, None] * S[:, :, None]) + squares(V)[:, None]
    both, kappa = (squares(U) + squares(V))[:, None], (r / k)[:, None]
    held = np.where(chance > 0, each, 0 * each)
    bound = np.where(chance > 0, kappa**2 * both, 0 * each)
    mean = (chance * each).sum(axis=-1)[:, None]
    return np.concatenate([held, mean], axis=1), np.concatenate([bound, kappa * both], axis=1)


def d4_affine(C: Numbers, k: Numbers, U: Numbers, V: Numbers) -> Sides:
    """f = <C, BA>: f~(.; S) is (r/k) ||C||-smooth, f^S = f is ||C||-smooth; X - Y = (U, V)."""
    S, chance = sketches(k, U.shape[-1])
    by_B = (C @ transpose(V))[:, None] * S[:, :, None]
    by_A = S[..., None] * (transpose(U) @ C)[:, None]
    each = join(by_B, by_A)
    sizes = np.where(chance > 0, norm(each), 0 * chance)
    mean = norm((chance[..., None] * each).sum(axis=1))
    top = (spectral(C) * length(U, V))[:, None]
    bound = np.concatenate([(U.shape[-1] / k)[:, None] * top + 0 * sizes, top], axis=1)
    return np.concatenate([sizes, mean[:, None]], axis=1), bound


def _every_action(devices: Devices, U: Numbers, V: Numbers) -> Numbers:
    """The Hessian of f~_i(.; S) times (U, V) for every sketch, (B', N, K, w)."""
    B, A, U, V = (part[:, None, None] for part in (devices.B, devices.A, U, V))
    return hessian_action(devices.C[:, :, None], devices.M[:, :, None], B, A, devices.dense, U, V)


def _own(devices: Devices, values: Numbers) -> Numbers:
    """Values (B', N, K) of the sketches of rank k_i, zero for the others."""
    return np.where(devices.chance > 0, values, 0 * values)


def d4_i_centred(devices: Devices, U: Numbers, V: Numbers, *, sharp: bool) -> Sides:
    """The Hessian of f~(.; S) at X against (r/k)^2 L(||X||), or (r/k) L(sqrt(r/k) ||X||).

    L is :func:`experiments.fslora.theory.smoothness.ball_constant`.
    """
    found = _own(devices, norm(_every_action(devices, U, V)))
    radius, kappa = length(devices.B, devices.A)[:, None], devices.kappa
    near = ball_constant(devices.C, devices.M, radius)
    wide = ball_constant(devices.C, devices.M, np.sqrt(kappa) * radius)
    top = kappa * wide if sharp else kappa**2 * near
    return found, (top * length(U, V)[:, None])[..., None]


def d4_ii_centred(devices: Devices, U: Numbers, V: Numbers, *, sharp: bool) -> Sides:
    """The Hessian of f_i^S at X against (r/k) L(||X||), or L(sqrt(r/k) ||X||)."""
    found = norm(devices.mean(_every_action(devices, U, V)))
    radius, kappa = length(devices.B, devices.A)[:, None], devices.kappa
    near = ball_constant(devices.C, devices.M, radius)
    wide = ball_constant(devices.C, devices.M, np.sqrt(kappa) * radius)
    return found, (wide if sharp else kappa * near) * length(U, V)[:, None]


def d4_local(devices: Devices) -> Sides:
    """||Hessian of f~(.; S)|| at X against (r/k)^2 ||Hessian of f|| at X; f_i^S against r/k."""
    each, mean = _sketched_norms(devices)
    B, A = devices.B[:, None], devices.A[:, None]
    eye = np.eye(devices.r, dtype=int)
    plain = operator_norm(hessians(devices.C, devices.M, B, A, eye))
    kappa = devices.kappa
    top = (kappa**2 * plain)[..., None] + 0 * each
    return _columns(each, mean), _columns(_own(devices, top), kappa * plain)


def d4_local_corrected(devices: Devices) -> Sides:
    """The same with f's Hessian at (B S^{1/2}, S^{1/2} A) and r/k, and its largest with 1."""
    each, mean = _sketched_norms(devices)
    root = np.sqrt(devices.dense)
    B, A = devices.B[:, None, None] @ root, root @ devices.A[:, None, None]
    C, M = devices.C[:, :, None], devices.M[:, :, None]
    eye = np.eye(devices.r, dtype=int)
    there = _own(devices, operator_norm(hessians(C, M, B, A, eye)))
    return _columns(each, mean), _columns(devices.kappa[..., None] * there, there.max(axis=-1))


def _sketched_norms(devices: Devices) -> tuple[Numbers, Numbers]:
    """||Hessian|| of f~_i(.; S) for every sketch (B', N, K), and of f_i^S (B', N)."""
    B, A = devices.B[:, None, None], devices.A[:, None, None]
    H = hessians(devices.C[:, :, None], devices.M[:, :, None], B, A, devices.dense)
    return _own(devices, operator_norm(H)), operator_norm(devices.mean(H))


def _columns(each: Numbers, mean: Numbers) -> Numbers:
    return np.concatenate([each, mean[..., None]], axis=-1)


# The ranks in Assumption 4.2 and Theorem 4.4.


def next_variance(devices: Devices) -> Sides:
    """The variance by the sketch at ranks k_i + 1 and at k_i."""
    more = Devices(x=devices.x, d=devices.d, B=devices.B, A=devices.A, k=devices.k + 1)
    return sketch_variance(more), sketch_variance(devices)


def k_monotone(
    ranks: tuple[Numbers, Numbers],
    r: Numbers,
    gap: Numbers,
    times: tuple[Numbers, Numbers],
    gamma: Numbers,
    variances: tuple[Numbers, Numbers, Numbers],
) -> Sides:
    """The bound of Theorem 4.4 at the larger and at the smaller ranks (B', N), for L = 1.

    Args:
        ranks: the smaller and the larger ones.
        r: global rank.
        gap: f^S(X^0) - f*.
        times: T and H.
        gamma: step size; a second entry of both sides has that of Corollary 4.5 in its place.
        variances: sigma_g^2, sigma_s^2, sigma_h^2.
    """
    (T, H), (data, sketch, apart) = times, variances
    found = []
    for k in ranks:
        count, kappa = k.shape[1], r[:, None] / k
        once, twice = kappa.sum(axis=1) / count, (kappa**2).sum(axis=1) / count
        noise = (6 * once * (data + sketch) + 12 * twice * (data + sketch + 3 * apart)) / count
        own = np.sqrt(count / (T * H * twice))
        found.append(np.stack([4 * gap / (g * T * H) + g * noise for g in (gamma, own)], axis=1))
    return found[1], found[0]

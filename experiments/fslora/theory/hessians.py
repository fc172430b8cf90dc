"""FSLoRA, Proposition D.4: the smoothness of f~(.; S), f_i^S and f^S from that of f_i.

Twice: for quadratic functions of (B, A) that need not be functions of BA, which is all that the
proof uses, and for least squares, where constants are those of a ball or of a point.
"""

from __future__ import annotations

import numpy as np

import ratecheck as rc
from experiments.fslora.theory.sketching import Devices
from experiments.fslora.theory.smoothness import (
    ball_constant,
    hessian_action,
    hessians,
    length,
)
from linsys.linalg import Numbers, norm, operator_norm, transpose


def symmetric(Q: Numbers) -> Numbers:
    """(Q + Q') / 2."""
    return np.asarray((Q + transpose(Q)) / 2)


def _every_action(devices: Devices, U: Numbers, V: Numbers) -> Numbers:
    """The Hessian of f~_i(.; S) times (U, V) for every sketch, (B', N, K, w)."""
    B, A, U, V = (part[:, None, None] for part in (devices.B, devices.A, U, V))
    return hessian_action(devices.C[:, :, None], devices.M[:, :, None], B, A, devices.dense, U, V)


def _own(devices: Devices, values: Numbers) -> Numbers:
    """Values (B', N, K) of the sketches of rank k_i, zero for the others."""
    return np.where(devices.chance > 0, values, 0 * values)


def d4_i_centred(devices: Devices, U: Numbers, V: Numbers, *, sharp: bool) -> rc.Sides:
    """The Hessian of f~(.; S) at X against (r/k)^2 L(||X||), or (r/k) L(sqrt(r/k) ||X||).

    L is :func:`experiments.fslora.theory.smoothness.ball_constant`.
    """
    norms = _own(devices, norm(_every_action(devices, U, V)))
    radius, kappa = length(devices.B, devices.A)[:, None], devices.kappa
    near = ball_constant(devices.C, devices.M, radius)
    wide = ball_constant(devices.C, devices.M, np.sqrt(kappa) * radius)
    top = kappa * wide if sharp else kappa**2 * near
    return norms, (top * length(U, V)[:, None])[..., None]


def d4_ii_centred(devices: Devices, U: Numbers, V: Numbers, *, sharp: bool) -> rc.Sides:
    """The Hessian of f_i^S at X against (r/k) L(||X||), or L(sqrt(r/k) ||X||)."""
    norms = norm(devices.mean(_every_action(devices, U, V)))
    radius, kappa = length(devices.B, devices.A)[:, None], devices.kappa
    near = ball_constant(devices.C, devices.M, radius)
    wide = ball_constant(devices.C, devices.M, np.sqrt(kappa) * radius)
    return norms, (wide if sharp else kappa * near) * length(U, V)[:, None]


def _columns(each: Numbers, mean: Numbers) -> Numbers:
    return np.concatenate([each, mean[..., None]], axis=-1)


def d4_local(devices: Devices) -> rc.Sides:
    """||Hessian of f~(.; S)|| at X against (r/k)^2 ||Hessian of f|| at X; f_i^S against r/k."""
    each, mean = _sketched_norms(devices)
    B, A = devices.B[:, None], devices.A[:, None]
    eye = np.eye(devices.r, dtype=int)
    plain = operator_norm(hessians(devices.C, devices.M, B, A, eye))
    kappa = devices.kappa
    top = (kappa**2 * plain)[..., None] + 0 * each
    return _columns(each, mean), _columns(_own(devices, top), kappa * plain)


def d4_local_corrected(devices: Devices) -> rc.Sides:
    """``d4_local`` by f's Hessian at (B S^{1/2}, S^{1/2} A) and r/k, and its largest with 1."""
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

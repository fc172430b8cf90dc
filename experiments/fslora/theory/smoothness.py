"""FSLoRA, Assumptions 4.1 and 4.2 and Proposition D.4: what is smooth, where, and how much.

The Hessian of f~(.; S) at X = (B, A) takes (U, V) to

    ((USA + BSV) M A'S + G V'S,  S U'G + S B'(USA + BSV) M),    G = C + BSA M,

for least squares with slope C at W0 and second moment M. It grows as ||X||^2. As f depends on BA
alone, f~(B, A; S) = f(B S^{1/2}, S^{1/2} A): with T = S^{1/2} on both factors its Hessian is
T' H T at T X, where E T'T = I.
"""

from __future__ import annotations

import numpy as np

from experiments.fslora.theory.bias import square
from experiments.fslora.theory.sketching import Devices, join
from linsys.linalg import Numbers, operator_norm, squares, transpose


def spectral(P: Numbers) -> Numbers:
    """The largest singular value of each matrix (..., p, q)."""
    return operator_norm(square(P))


def hessian_action(
    C: Numbers, M: Numbers, B: Numbers, A: Numbers, S: Numbers, U: Numbers, V: Numbers
) -> Numbers:
    """The Hessian of f~(.; S) times (U, V), as :func:`join` has it; S diagonal matrices."""
    G = C + B @ S @ A @ M
    change = (U @ S @ A + B @ S @ V) @ M
    by_B = change @ transpose(A) @ S + G @ transpose(V) @ S
    return join(by_B, S @ transpose(U) @ G + S @ transpose(B) @ change)


def hessians(C: Numbers, M: Numbers, B: Numbers, A: Numbers, S: Numbers) -> Numbers:
    """The Hessians themselves, (..., w, w) with w = r (m + n), for stacks with equal axes."""
    m, r, n = *B.shape[-2:], A.shape[-1]
    unit = np.eye(r * (m + n), dtype=int).reshape(-1, r, m + n)
    U, V = transpose(unit[..., :m]), unit[..., m:]
    parts = [array[..., None, :, :] for array in (C, M, B, A, S)]
    return hessian_action(parts[0], parts[1], parts[2], parts[3], parts[4], U, V)


def length(B: Numbers, A: Numbers) -> Numbers:
    """||X||, of [B; A]."""
    return np.asarray(np.sqrt(squares(B) + squares(A)))


# Assumption 4.1.


def far(devices: Devices, L: Numbers) -> Devices:
    """The first device's modules times the t beyond which no L is large enough.

    t^2 = (L ||X||^2 / 2 - <C, BA>) / ||BA x||^2, and at least one.
    """
    B, A = devices.B, devices.A
    P = B @ A
    curved = (P @ devices.M[:, 0] * P).sum(axis=(-2, -1))
    slant = (devices.C[:, 0] * P).sum(axis=(-2, -1))
    t = ((L / 2) * (squares(B) + squares(A)) - slant) / curved
    t = np.sqrt(np.maximum(t, 1 + 0 * t))[:, None, None]
    return Devices(x=devices.x[:, :1], d=devices.d[:, :1], B=t * B, A=t * A, k=devices.k[:, :1])


def ball_constant(C: Numbers, M: Numbers, radius: Numbers) -> Numbers:
    """(3/2) radius^2 ||M|| + ||C||, the largest Hessian norm in the ball around 0 if M = mu I."""
    return np.asarray(3 * radius**2 * operator_norm(M) / 2 + spectral(C))


# Assumption 4.2.


def sketch_variance(devices: Devices) -> Numbers:
    """E||grad f~_i(X; S) - grad f_i^S(X)||^2, (B', N)."""
    apart = devices.each_gradient - devices.sketched_gradients[:, :, None]
    return devices.mean((apart * apart).sum(axis=-1))

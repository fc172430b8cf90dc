"""FSLoRA, Assumptions 4.1 and 4.2 and Proposition D.4: what is smooth, where, and how much.

The Hessian of f~(.; S) at X = (B, A) takes (U, V) to

    ((USA + BSV) M A'S + G V'S,  S U'G + S B'(USA + BSV) M),    G = C + BSA M,

for least squares with slope C at W0 and second moment M. It grows as ||X||^2. As f depends on BA
alone, f~(B, A; S) = f(B S^{1/2}, S^{1/2} A): with T = S^{1/2} on both factors its Hessian is
T' H T at T X, where E T'T = I.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from experiments.fslora.theory.bias import square
from experiments.fslora.theory.sketching import Devices, gradient, join, slope, squares
from linsys.linalg import Numbers, norm, operator_norm, transpose

Sides = tuple[Numbers, Numbers]


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


def a41(devices: Devices, L: Numbers) -> Sides:
    """||grad f_i(X) - grad f_i(0)|| <= L ||X||."""
    return norm(devices.gradients), (L * length(devices.B, devices.A))[:, None]


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


def logistic_slope(x: Numbers, d: Numbers, W: Numbers) -> Numbers:
    """The gradient of the mean of log(1 + exp(z)) over samples, summed over z = W x + d."""
    weights = 1 / (1 + np.exp(-(x @ transpose(W) + d)))
    return np.asarray(transpose(weights) @ x / x.shape[-2])


def a41_any(x: Numbers, d: Numbers, B: Numbers, A: Numbers, change: Numbers, s: Numbers) -> Sides:
    """||grad f(X) - grad f(Y)|| >= s^2 (||B'(G - G')|| / ||E||) ||X - Y|| for any loss.

    X = (sB, A/s) and Y = (sB, (A + E)/s); G and G' are the loss's slopes at BA and B (A + E), here
    of least squares and of the logistic loss.
    """
    s = s[:, None, None]
    eye = np.eye(A.shape[-2], dtype=int)
    left, right = [], []
    for at in (slope, logistic_slope):
        one, two = at(x, d, B @ A), at(x, d, B @ (A + change))
        apart = join(*gradient(one, s * B, A / s, eye)) - join(
            *gradient(two, s * B, (A + change) / s, eye)
        )
        left.append(norm(apart))
        right.append(s[:, 0, 0] * np.sqrt(squares(transpose(B) @ (one - two))))
    return np.stack(left, axis=1), np.stack(right, axis=1)


def a41_affine(C: Numbers, U: Numbers, V: Numbers) -> Sides:
    """||grad f(X) - grad f(Y)|| <= ||C|| ||X - Y|| for f = <C, BA> and X - Y = (U, V)."""
    return norm(join(C @ transpose(V), transpose(U) @ C)), spectral(C) * length(U, V)


def a41_point(devices: Devices, U: Numbers, V: Numbers) -> Sides:
    """||H (U, V)|| <= (||M|| (||A||^2 + ||B||^2) + ||C + BA M||) ||(U, V)||, operator norms."""
    B, A, C, M = devices.B[:, None], devices.A[:, None], devices.C, devices.M
    eye = np.eye(devices.r, dtype=int)
    found = hessian_action(C, M, B, A, eye, U[:, None], V[:, None])
    top = operator_norm(M) * (spectral(B) ** 2 + spectral(A) ** 2) + spectral(C + B @ A @ M)
    return norm(found), top * length(U, V)[:, None]


def ball_constant(C: Numbers, M: Numbers, radius: Numbers) -> Numbers:
    """(3/2) radius^2 ||M|| + ||C||, the largest Hessian norm in the ball around 0 if M = mu I."""
    return np.asarray(3 * radius**2 * operator_norm(M) / 2 + spectral(C))


def a41_ball(devices: Devices, U: Numbers, V: Numbers) -> Sides:
    """||H (U, V)|| <= ((3/2) ||X||^2 ||M|| + ||C||) ||(U, V)||."""
    radius = length(devices.B, devices.A)[:, None]
    top = ball_constant(devices.C, devices.M, radius)
    return a41_point(devices, U, V)[0], top * length(U, V)[:, None]


def a41_ball_centre(devices: Devices, P: Numbers, Q: Numbers, U: Numbers, V: Numbers) -> Sides:
    """||H (U, V)|| at X^0 + (P, Q) <= ((3/2) s^2 ||M|| + ||C||) ||(U, V)||, (B, A) being X^0.

    s = sqrt(||A^0||^2 + ||B^0||^2) + ||(P, Q)||, with operator norms.
    """
    there = replace(devices, B=devices.B + P, A=devices.A + Q)
    centre = np.sqrt(spectral(devices.B) ** 2 + spectral(devices.A) ** 2)
    top = ball_constant(devices.C, devices.M, (centre + length(P, Q))[:, None])
    return a41_point(there, U, V)[0], top * length(U, V)[:, None]


# Assumption 4.2.


def sketch_variance(devices: Devices) -> Numbers:
    """E||grad f~_i(X; S) - grad f_i^S(X)||^2, (B', N)."""
    apart = devices.each_gradient - devices.sketched_gradients[:, :, None]
    return devices.mean((apart * apart).sum(axis=-1))


def data_variance(devices: Devices) -> Numbers:
    """The largest E||grad l~(X, xi; S) - grad f~_i(X; S)||^2 over S, (B', N)."""
    x, d = (part[:, :, None, :, None, :] for part in (devices.x, devices.d))
    G = slope(x, d, devices.products[:, :, :, None])
    B, A = (part[:, None, None, None] for part in (devices.B, devices.A))
    each = join(*gradient(G, B, A, devices.dense[:, :, :, None]))
    apart = each - devices.each_gradient[:, :, :, None]
    found = (apart * apart).sum(axis=(-2, -1)) / devices.x.shape[-2]
    return np.asarray(np.where(devices.chance > 0, found, 0 * found).max(axis=-1))


def a42(devices: Devices, sigma_s: Numbers, sigma_g: Numbers) -> Sides:
    """Both variances at X against sigma_s^2 and sigma_g^2."""
    found = np.stack([sketch_variance(devices), data_variance(devices)], axis=1)
    return found, np.stack([sigma_s**2, sigma_g**2], axis=1)[..., None]


def a42_one(devices: Devices) -> Sides:
    """sigma_s^2 = (r/k - 1) ||grad l at r/k||^2 where one component alone is not zero."""
    B, A = devices.B[:, None], devices.A[:, None]
    G = devices.C + devices.kappa[..., None, None] * (B @ A) @ devices.M
    size = squares(G @ transpose(A)) + squares(transpose(B) @ G)
    return sketch_variance(devices), (devices.kappa - 1) * size


def a42_far(devices: Devices, sigma: Numbers) -> Sides:
    """sigma_s^2 at t X is at least sigma^2 for the t stated here; one component, k < r.

    t is at least sqrt(2 |<C, BA>| / (kappa q)) and the cube root of sigma ||X|| / (sqrt(kappa - 1)
    kappa q), q = ||BA x||^2.
    """
    B, A, kappa = devices.B, devices.A, devices.kappa[:, 0]
    P = B @ A
    q = (P @ devices.M[:, 0] * P).sum(axis=(-2, -1))
    slant = np.abs((devices.C[:, 0] * P).sum(axis=(-2, -1)))
    root = sigma * length(B, A) / (np.sqrt(kappa - 1) * kappa * q)
    t = np.maximum(np.sqrt(2 * slant / (kappa * q)), np.exp(np.log(root) / 3))[:, None, None]
    there = Devices(x=devices.x, d=devices.d, B=t * B, A=t * A, k=devices.k)
    return sketch_variance(there)[:, 0], sigma**2


def a42_ball(devices: Devices) -> Sides:
    """sigma_s^2 <= kappa ||X||^2 (||C|| + kappa ||X||^2 ||M|| / 2)^2, kappa = r/k."""
    reach = devices.kappa * (squares(devices.B) + squares(devices.A))[:, None]
    g = spectral(devices.C) + reach * operator_norm(devices.M) / 2
    return sketch_variance(devices), reach * g * g


def a42_ball_data(devices: Devices) -> Sides:
    """sigma_g^2 <= kappa^2 ||X||^2 mean_s |x|^2 (|d| + kappa ||X||^2 |x| / 2)^2."""
    reach = devices.kappa * (squares(devices.B) + squares(devices.A))[:, None]
    x, d = norm(devices.x), norm(devices.d)
    each = x * x * (d + reach[..., None] * x / 2) ** 2
    return data_variance(devices), devices.kappa * reach * each.sum(axis=-1) / x.shape[-1]

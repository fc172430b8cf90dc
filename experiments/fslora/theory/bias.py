"""FSLoRA, Section 3.1: what the loss of a sketch is on average, and where f^S is smallest.

With S = I + D, E D = 0, the expected loss of W0 + B S A exceeds that of W0 + B A by a penalty for
every strictly convex loss. For least squares it is E||B D A x||^2 / 2, and a minimisation over all
factors of one product leaves a multiple of the squared nuclear norm less the squared length.
"""

from __future__ import annotations

import numpy as np

from experiments.fslora.theory.sketching import Devices, sketches, squares
from experiments.fslora.theory.steps import covariances
from linsys.linalg import Numbers, norm, operator_norm, stretch, transpose

Sides = tuple[Numbers, Numbers]


def square(P: Numbers) -> Numbers:
    """P (..., p, q) with rows or columns of zeros up to a square, which changes no norm."""
    p, q = P.shape[-2:]
    rows = [0 * P[..., :1, :]] * max(q - p, 0)
    columns = [0 * P[..., :1]] * max(p - q, 0)
    return np.concatenate([P, *rows], axis=-2) if rows else np.concatenate([P, *columns], axis=-1)


def nuclear(P: Numbers) -> Numbers:
    """The sum of the singular values of each matrix (..., p, q)."""
    return np.asarray(np.trace(stretch(square(P)), axis1=-2, axis2=-1))


def coupling(k: Numbers, r: int) -> Numbers:
    """c = (r/k - 1) / (r - 1) in [0, 1]: minus the covariance of two different S_jj."""
    return np.asarray((r / k - 1) / max(r - 1, 1))


def loss_bias(devices: Devices) -> Sides:
    """E l(W0 + BSA) and l(W0 + BA)."""
    return devices.sketched_losses, devices.losses


def penalties(devices: Devices) -> Numbers:
    """(1/2) sum_jl Cov(S_jj, S_ll) (B'B)_jl (A M_i A')_jl, shape (B', N)."""
    B, A = devices.B[:, None], devices.A[:, None]
    outer, inner = transpose(B) @ B, A @ devices.M @ transpose(A)
    return np.asarray((covariances(devices.k, devices.r) * outer * inner).sum(axis=(-2, -1)) / 2)


def loss_bias_corrected(devices: Devices) -> Sides:
    """f_i^S = f_i + penalty."""
    return devices.sketched_losses, devices.losses + penalties(devices)


def gradient_bias(devices: Devices) -> Sides:
    """||grad f_i^S - grad f_i|| <= c r ||M_i|| sqrt(||B||^2 a^4 + ||A||^2 b^4).

    c is :func:`coupling`; a and b are the largest lengths of a row of A and of a column of B.
    """
    B, A = devices.B, devices.A
    a, b = norm(A).max(axis=-1), norm(transpose(B)).max(axis=-1)
    reach = np.sqrt(squares(B) * a**4 + squares(A) * b**4)[:, None]
    factor = coupling(devices.k, devices.r) * devices.r * operator_norm(devices.M)
    return norm(devices.sketched_gradients - devices.gradients), factor * reach


def product_variance(B: Numbers, A: Numbers, k: Numbers) -> Numbers:
    """V = E||B(S - I)A||^2, shape (B',)."""
    weights = covariances(k, A.shape[-2])
    return np.asarray((weights * (transpose(B) @ B) * (A @ transpose(A))).sum(axis=(-2, -1)))


def _gap_and_variance(
    B: Numbers, A: Numbers, k: Numbers, o: Numbers, L: Numbers, share: Numbers
) -> tuple[Numbers, Numbers]:
    """f^S - f for :func:`kinked` losses, and :func:`product_variance`, both (B',)."""
    S, chance = sketches(k, A.shape[-2])
    sketched = (chance * kinked(B[:, None], S, A[:, None], o[:, None], L, share)).sum(axis=-1)
    plain = kinked(B[:, None], 1 + 0 * S[:, :1], A[:, None], o[:, None], L, share)[:, 0]
    return sketched - plain, product_variance(B, A, k)


def loss_bias_smooth(
    B: Numbers, A: Numbers, k: Numbers, o: Numbers, L: Numbers, share: Numbers
) -> Sides:
    """f^S - f <= L V / 2 for an L-smooth loss of W; arguments as in :func:`kinked`."""
    gap, V = _gap_and_variance(B, A, k, o, L, share)
    return gap, L * V / 2


def loss_bias_strong(
    B: Numbers, A: Numbers, k: Numbers, o: Numbers, L: Numbers, share: Numbers
) -> Sides:
    """f^S - f >= mu V / 2 for a mu-strongly convex loss of W."""
    gap, V = _gap_and_variance(B, A, k, o, L, share)
    return gap, share * L * V / 2


def kinked(B: Numbers, S: Numbers, A: Numbers, o: Numbers, L: Numbers, share: Numbers) -> Numbers:
    """A mu-strongly convex, L-smooth loss at W = B S A, S (B', K, r): shape (B', K).

    It is the sum over the entries w of W of (a/2) (w - o)^2, a = L above o and mu = share L below.
    """
    apart = B @ (S[..., None] * A) - o
    slant = np.where(apart > 0, apart * apart, share[:, None, None, None] * apart * apart)
    return np.asarray(L[:, None] * slant.sum(axis=(-2, -1)) / 2)


def k_monotone_loss(
    B: Numbers, A: Numbers, k: Numbers, o: Numbers, L: Numbers, share: Numbers
) -> Sides:
    """f^S of rank k + 1 and of rank k, for the same convex losses; k < r."""
    sides = []
    for rank in (k + 1, k):
        S, chance = sketches(rank, A.shape[-2])
        each = kinked(B[:, None], S, A[:, None], o[:, None], L, share)
        sides.append((chance * each).sum(axis=-1))
    return sides[0], sides[1]


def nuclear_bound(devices: Devices) -> Sides:
    """f_i^S - f_i >= (c_i / 2s) (||BA x'||_*^2 - ||BA x'||^2), x' (n, s) the inputs."""
    seen = (devices.B @ devices.A)[:, None] @ transpose(devices.x)
    bound = coupling(devices.k, devices.r) * (nuclear(seen) ** 2 - squares(seen))
    return devices.sketched_losses - devices.losses, bound / (2 * devices.x.shape[-2])


def least(first: Numbers, second: Numbers, c: Numbers) -> tuple[Numbers, Numbers]:
    """The singular values of the best product where the target's are first >= second >= 0.

    They minimise (1/2) sum (sigma - target)^2 + (c/2) ((sum sigma)^2 - sum sigma^2).
    """
    both = (second > c * first) & (c < 1)
    safe = np.where(both, 1 - c, 1 + 0 * c)
    total = (first + second) / (1 + c)
    return (
        np.where(both, (first - c * total) / safe, first),
        np.where(both, (second - c * total) / safe, 0 * first),
    )


def minimum(devices: Devices) -> Sides:
    """f_i^S at any (B, A) is at least the minimum for singular values of d alone, for m <= 2.

    The singular values of d (s, m) are t_1 >= t_2, and the bound is
    (t_1^2 + t_2^2 - t_1 sigma_1 - t_2 sigma_2) / 2s.
    """
    d = devices.d
    first = operator_norm(square(d))
    rest = squares(d) - first**2
    second = np.sqrt(np.maximum(rest, 0 * rest))
    one, two = least(first, second, coupling(devices.k, devices.r))
    bound = (squares(d) - first * one - second * two) / (2 * d.shape[-2])
    return devices.sketched_losses, bound


#: Two rows of a matrix with orthonormal rows whose columns have equal lengths.
_EVEN = np.array([[1, 1, 1, 1], [1, -1, 1, -1]])


def minimiser(first: Numbers, second: Numbers, k: Numbers) -> Devices:
    """A minimiser of f^S of rank 4 for one device with W0 - W* = -diag(first, second), M = I.

    The factors are balanced, and each of the four components has the same length.
    """
    one, two = least(first, second, coupling(k, 4))
    roots = np.sqrt(np.stack([one, two], axis=-1))
    B = roots[..., None] * _EVEN / 2
    unit = np.sqrt(2 + 0 * first)[:, None, None] * np.eye(2, dtype=int)
    target = np.stack([first, second], axis=-1)[..., None] * np.eye(2, dtype=int)
    return Devices(
        x=unit[:, None], d=-unit[:, None] * target[:, None], B=B, A=transpose(B), k=k[:, None]
    )


def minimum_attained(first: Numbers, second: Numbers, k: Numbers) -> Sides:
    """f^S at :func:`minimiser` and the bound of :func:`minimum`."""
    return minimum(minimiser(first, second, k))


def stationary(first: Numbers, second: Numbers, k: Numbers) -> Sides:
    """||grad f||^2 = 2 c^2 sigma_1 sigma_2 (sigma_1 + sigma_2) at that minimiser of f^S.

    The second pair says that grad f^S is zero there: grad f, and grad f - grad f^S.
    """
    devices = minimiser(first, second, k)
    c = coupling(k, 4)
    one, two = least(first, second, c)
    plain, sketched = devices.gradients[:, 0], devices.sketched_gradients[:, 0]
    size = norm(plain)[:, None]
    expected = np.sqrt(2 * c**2 * one * two * (one + two))[:, None]
    return (
        np.concatenate([size, plain], axis=1),
        np.concatenate([expected, plain - sketched], axis=1),
    )

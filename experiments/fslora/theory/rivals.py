"""FSLoRA, Section 2.2: what a server makes of modules with different ranks."""

from __future__ import annotations

import numpy as np

from experiments.fslora.theory.sketching import squares
from experiments.fslora.theory.smoothness import spectral
from linsys.linalg import Numbers, transpose

Sides = tuple[Numbers, Numbers]


def held(k: Numbers, r: int) -> Numbers:
    """Which components a device of rank k_i has, the first k_i: ones and zeros, (B', N, r)."""
    return np.where(np.arange(r) < k[..., None], 1, 0)


def padded(B: Numbers, A: Numbers, k: Numbers) -> tuple[Numbers, Numbers]:
    """Modules (B', N, m, r) and (B', N, r, n) with zeros in the components beyond k_i."""
    mask = held(k, A.shape[-2])
    return B * mask[..., None, :], A * mask[..., None]


def heterolora(B: Numbers, A: Numbers, k: Numbers) -> Sides:
    """The average of padded modules is, by component, the holders' sum over N; both modules."""
    count, r = k.shape[1], A.shape[-2]
    rows = np.concatenate([transpose(B), A], axis=-1)
    left = sum(np.concatenate([transpose(b), a], axis=-1) for b, a in _each(*padded(B, A, k)))
    right = []
    for j in range(r):
        mask = (k > j)[..., None]
        right.append(np.where(mask, rows[:, :, j], 0 * rows[:, :, j]).sum(axis=1) / count)
    return left / count, np.stack(right, axis=1)


def heterolora_idle(B: Numbers, A: Numbers, k: Numbers) -> Sides:
    """Devices that do not move leave component j of BA times (share of devices with k_i > j)^2."""
    count, r = k.shape[1], A.shape[-2]
    one = 0 * k[..., None, None] + 1
    B_i, A_i = padded(B[:, None] * one, A[:, None] * one, k)
    left = (B_i.sum(axis=1) / count) @ (A_i.sum(axis=1) / count)
    share = held(k, r).sum(axis=1) * (1 + 0 * k[:, :1]) / count
    return left, (B * (share * share)[:, None]) @ A


def mean_product(B: Numbers, A: Numbers, k: Numbers) -> Numbers:
    """(1/N) sum_i B_i A_i of padded modules."""
    B_i, A_i = padded(B, A, k)
    return np.asarray((B_i @ A_i).sum(axis=1) / k.shape[1])


def separate(B: Numbers, A: Numbers, k: Numbers) -> Sides:
    """The product of the averages against the average of the products."""
    B_i, A_i = padded(B, A, k)
    count = k.shape[1]
    return (B_i.sum(axis=1) / count) @ (A_i.sum(axis=1) / count), mean_product(B, A, k)


def flexlora(B: Numbers, A: Numbers, k: Numbers, b: Numbers, a: Numbers) -> Sides:
    """||P - ba'||^2 + sigma_1^2 >= ||P||^2 for the mean product P and any b (B', m), a (B', n)."""
    P = mean_product(B, A, k)
    apart = P - b[:, :, None] * a[:, None]
    return squares(apart) + spectral(P) ** 2, squares(P)


def flexlora_truncation(B: Numbers, A: Numbers, k: Numbers) -> Sides:
    """The truncated P v v', v the first right singular vector, attains that; n = 2."""
    P = mean_product(B, A, k)
    gram = transpose(P) @ P
    top, cross = spectral(P) ** 2, gram[:, 0, 1]
    # both rows of gram - top I are orthogonal to v; the longer one is surely not rounding
    low, high = top - gram[:, 1, 1], top - gram[:, 0, 0]
    v = np.where(
        (low > high)[:, None], np.stack([low, cross], axis=1), np.stack([cross, high], axis=1)
    )
    size = (v * v).sum(axis=-1)
    first = np.stack([1 + 0 * size, 0 * size], axis=1)
    v = np.where((size > 0)[:, None], v, first)
    length = (v * v).sum(axis=-1)[:, None, None]
    cut = P @ (v[:, :, None] * v[:, None]) / length
    return squares(P - cut) + top, squares(P)


def stack(B: Numbers, A: Numbers, k: Numbers) -> Sides:
    """[B_1, .., B_N] [A_1; ..; A_N] / N = (1/N) sum B_i A_i."""
    left = np.concatenate(list(np.moveaxis(B * held(k, A.shape[-2])[..., None, :], 1, 0)), axis=-1)
    right = np.concatenate(list(np.moveaxis(A, 1, 0)), axis=-2)
    return left @ right / k.shape[1], mean_product(B, A, k)


def _each(B: Numbers, A: Numbers) -> list[tuple[Numbers, Numbers]]:
    return [(B[:, i], A[:, i]) for i in range(B.shape[1])]

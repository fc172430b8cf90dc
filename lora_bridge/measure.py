"""What the theory assumes of agents and adapters, measured on a model.

*Affinity*: how far environments and objectives are apart, AffPCL's delta_env and delta_obj, and how
much the agents' gradients agree. *Noise*: the variance of a single sample's gradient. *Subspaces*:
how far the adapters' factors are apart, P-ShareLoRA's distance. Curvatures, which FSLoRA speaks of,
are in :mod:`lora_bridge.curvature`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from linsys.sketching.adapters import Modules
from linsys.validate import Array, InputError, check_choice, check_instance
from lora_bridge._checks import finite, floats, probabilities
from lora_bridge.tasks import Task, stacked

__all__ = [
    "Estimate",
    "Gradients",
    "adapter_distances",
    "adapter_spread",
    "environment_distances",
    "gradients_of",
    "objective_distances",
    "share_distances",
]

#: Samples whose gradients are held at a time.
_AT_ONCE = 16
#: Singular values below this share of the largest one are rounding.
_RANK_TOLERANCE = 1e-5


@dataclass(frozen=True, eq=False)
class Estimate:
    """Numbers (n, n) and their standard errors."""

    value: Tensor
    error: Tensor


def share_distances(shares: Tensor) -> Tensor:
    """Total variation between agents that differ in their shares (n, D) of domains only: (n, n).

    >>> share_distances(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    tensor([[0.0000, 0.5000],
            [0.5000, 0.0000]])
    """
    probabilities("shares", shares, "n", "D")
    return (shares[:, None] - shares[None]).abs().sum(-1) / 2


def environment_distances(log_ratio: Sequence[Tensor]) -> Estimate:
    """How much of the total variation between the agents' texts a classifier shows, (n, n).

    With E the texts that it calls likelier for i than for j, mu^i(E) - mu^j(E) is at most the total
    variation, whatever the classifier; the shares of both agents' texts in E estimate it without
    bias, if the classifier has not seen these texts. So the estimate is of a lower bound, near 0
    (of either sign) for equal agents. Ties count half.

    Args:
        log_ratio: of every agent's texts, (m_i, n): see :class:`lora_bridge.ratios.Ratios`.

    Raises:
        InputError: ratios of another number of agents, or NaN; an agent without texts.
    """
    n = len(log_ratio)
    for part in log_ratio:  # a ratio may be 0; NaN would look like ties
        if not len(finite("exp(log_ratio)", floats("log_ratio", part, "texts", n).exp())):
            raise InputError("`log_ratio` must hold a text or more of every agent; found none")
    value, variance = torch.zeros(n, n), torch.zeros(n, n)
    for i in range(n):
        for j in range(i):
            signs = [(1 + torch.sign(log_ratio[a][:, i] - log_ratio[a][:, j])) / 2 for a in (i, j)]
            own, other = (float(s.mean()) for s in signs)
            value[i, j] = value[j, i] = own - other
            variance[i, j] = variance[j, i] = sum(
                share * (1 - share) / len(s) for share, s in zip((own, other), signs, strict=True)
            )
    return Estimate(value, variance.sqrt())


def objective_distances(wanted: Tensor) -> Tensor:
    """Mean total variation between what agents want for the same texts, (n, m, C) -> (n, n)."""
    probabilities("wanted", wanted, "n", "m", "C")
    apart = (wanted[:, None] - wanted[None]).abs().sum(-1)
    return torch.mean(apart, -1) / 2


@dataclass(frozen=True, eq=False)
class Gradients:
    """Of all agents' losses over all their samples, each at its own point.

    Attributes:
        mean: (n, d).
        noise: E||g(s) - mean||^2 of a single sample, unbiased, (n,).
        samples: (n,).
    """

    mean: Tensor
    noise: Tensor
    samples: Tensor

    def alignment(self) -> Tensor:
        """Cosines between the agents' gradients, (n, n)."""
        unit: Tensor = self.mean / torch.linalg.vector_norm(self.mean, dim=1, keepdim=True)
        return unit @ unit.mT

    def distances(self) -> Tensor:
        """||E g^i - E g^j||^2 of the agents' *environments*, without the noise of their samples.

        The squared distance of the sample means is larger by noise_i / m_i + noise_j / m_j in
        expectation, which is taken off; near 0 it can be negative. Shape (n, n).
        """
        square = ((self.mean[:, None] - self.mean[None]) ** 2).sum(-1)
        extra = self.noise / self.samples
        off = extra[:, None] + extra[None]
        return square - off * (1 - torch.eye(len(extra), dtype=off.dtype, device=off.device))


def gradients_of(task: Task, X: Tensor) -> Gradients:
    """Mean and variance of the gradients of all clients of a task at X (n, r, w).

    At a common X they say how near the agents' objectives are.

    Raises:
        InputError: adapters of another number of clients; a client with one sample, which shows no
            variance.
    """
    check_instance("task", task, Task, "a Task of the clients")
    floats("X", X, task.clients, "r", task.bank.width)
    sizes = [task.size(i) for i in range(task.clients)]
    if min(sizes) < 2:
        raise InputError(f"every client must have 2 samples or more; found {sizes}")
    means, noises = [], []
    for i, m in enumerate(sizes):
        total, squares = torch.zeros_like(X[i]), 0.0
        for start in range(0, m, _AT_ONCE):
            shard = task.shards[i]
            part = {name: value[start : start + _AT_ONCE] for name, value in shard.items()}
            batch = stacked([part], task.bank.device)
            gradients = task.bank.per_sample(X[i][None], batch, task.loss)[1][0]
            total += gradients.sum(0)
            squares += float((gradients**2).sum())
        mean = total / m
        means.append(mean.flatten())
        noises.append((squares - m * float((mean**2).sum())) / (m - 1))
    like = means[0]
    return Gradients(torch.stack(means), like.new_tensor(noises), like.new_tensor(sizes))


def adapter_distances(modules: Modules, X: Tensor, factor: str = "up") -> Array:
    """Distances between the clients' subspaces, (modules, N, N), of adapters X (N, r, w).

    ||P_i - P_j||_F / sqrt(2) for the projectors P onto what the factors span, Definition A.1 of
    P-ShareLoRA: see :func:`linsys.preference.subspace.distance`. With k_i and k_j dimensions and
    principal angles theta its square is sum sin^2 theta + |k_i - k_j| / 2. A factor of less than
    full rank spans less; one that is zero, as B is where training starts, spans nothing, which is 0
    from nothing and sqrt(k / 2) from k dimensions.

    Args:
        modules: of the bank.
        X: adapters.
        factor: "up" for the columns of B, "down" for the rows of A.
    """
    distances = [
        [[_distance(one, other) for other in bases] for one in bases]
        for bases in _bases(modules, X, factor)
    ]
    return np.array(distances)


def adapter_spread(modules: Modules, X: Tensor, factor: str = "up") -> Array:
    """How far the clients' subspaces are apart, over what unrelated ones would be, (modules,).

    The squared distances of all pairs of clients, over their expectation for random subspaces of
    the same dimensions, (k_i + k_j) / 2 - k_i k_j / m in m dimensions: 0 for the same subspace, 1
    for unrelated ones. NaN where no two subspaces could differ, as with zero factors or m = 1.

    Raises:
        InputError: fewer than two clients.
    """
    if len(floats("X", X, "clients", "r", modules.width)) < 2:
        raise InputError(f"`X` must hold at least 2 clients; found {len(X)}")
    i, j = np.triu_indices(len(X), 1)
    spreads = []
    for bases in _bases(modules, X, factor):
        m, k = len(bases[0]), np.array([basis.shape[1] for basis in bases])
        expected = float(((k[i] + k[j]) / 2 - k[i] * k[j] / m).sum())
        square = sum(_distance(bases[a], bases[b]) ** 2 for a, b in zip(i, j, strict=True))
        spreads.append(square / expected if expected > 0 else np.nan)
    return np.array(spreads)


def _bases(modules: Modules, X: Tensor, factor: str) -> list[list[Array]]:
    """Orthonormal columns (m, k_i) that span every client's factor of every module."""
    check_instance("modules", modules, Modules, "the `modules` of a bank")
    finite("X", X, "clients", "r", modules.width)
    check_choice("factor", factor, ("up", "down"))
    return [
        [_basis(part) for part in (B if factor == "up" else A.mT)]
        for B, A in modules.split(X.detach().double().cpu().numpy())
    ]


def _basis(factor: Array) -> Array:
    U, sizes, _ = np.linalg.svd(factor, full_matrices=False)
    return np.asarray(U[:, sizes > _RANK_TOLERANCE * sizes[0]])


def _distance(U: Array, V: Array) -> float:
    """||U U' - V V'||_F / sqrt 2, without cancellation and without matrices (m, m)."""
    left = [one - other @ (other.T @ one) for one, other in ((U, V), (V, U))]
    return float(np.sqrt(sum((part**2).sum() for part in left) / 2))

"""What ``bridge/smoothness`` measures at a point: curvatures and variances under sketches.

f is the mean over devices of their losses on a few samples each; f~(.; S) is f at W0 + B S A, and
f^S its mean over the sketches at hand, which are whole partitions of the components.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from linsys import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from lora_bridge.curvature import Precision, Product
    from lora_bridge.tasks import Task


def partitions(
    r: int, factor: int, draws: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Sketches of r / factor components each, ``draws`` of them or a few more.

    They are random partitions of the r components, one after the other, so that every component is
    in equally many. Where there is one partition only, at k = 1 and k = r, they are that one.

    Raises:
        InputError: a factor that does not divide r.

    >>> [chosen.tolist() for chosen in partitions(4, 2, 2, np.random.default_rng(0))]
    [[0, 2], [1, 3]]
    """
    if r % factor:
        raise InputError(f"`factor` must divide r = {r}; found {factor}")
    count = 1 if factor in (1, r) else -(-draws // factor)
    return [
        np.sort(chosen) for _ in range(count) for chosen in rng.permutation(r).reshape(factor, -1)
    ]


@dataclass(frozen=True, eq=False)
class Objective:
    """f of the rows X (k, w), all samples of a task's clients being its data."""

    task: Task

    def value(self, X: Tensor) -> float:
        """f(X)."""
        return float(np.mean([self.task.evaluate(i, X) for i in range(self.task.clients)]))

    def product(self, X: Tensor, V: Tensor, scale: float = 1.0) -> Tensor:
        """The Hessian of f(.) with a further factor of B A at X, times V."""
        from lora_bridge.tasks import stacked

        task, N = self.task, self.task.clients
        batch = stacked(task.shards, task.bank.device)
        points, directions = (part.expand(N, -1, -1) for part in (X, V))
        return task.bank.hvp(points, batch, task.loss, directions, scale).mean(0)


#: What :func:`measure` says.
MEASURED = (
    *("curvature", "steepest", "relaxed", "identity", "residual", "noise", "spread", "size"),
    *("apart", "slope", "loss"),
)


def measure(
    task: Task,
    X: Tensor,
    factor: int,
    draws: int,
    precision: Precision,
    rng: np.random.Generator,
) -> dict[str, float]:
    """All numbers of one point X (r, w) and one r / k = ``factor``.

    Returns:
        ``curvature`` and ``steepest``, mean and largest over sketches, of f~; ``relaxed``, that of
        f^S; ``identity``, v' H~ v / ((r/k) v' H(T X) v) for the steepest direction v of f~, the one
        farthest from 1; ``residual``, the largest of an eigenvalue; ``noise``, sigma_g^2 of single
        samples, and ``spread``, sigma_s^2, means over devices; ``size``, the mean of ||grad
        f_i^S||^2; ``apart``, the largest of ||grad f_i^S - grad f^S||^2; ``slope``, ||grad f^S||^2;
        ``loss``, f^S.
    """
    import torch

    from lora_bridge.curvature import largest
    from lora_bridge.measure import gradients_of

    f, N, root = Objective(task), task.clients, factor**0.5
    drawn = partitions(len(X), factor, draws, rng)
    sketches = [torch.from_numpy(rows).to(X.device) for rows in drawn]
    eigenpairs, identities, losses, noise = [], [], [], []
    total, squares = X.new_zeros(N, *X.shape), X.new_zeros(N)
    for rows in sketches:
        kept, there = X[rows], root * X[rows]  # T X
        steepest = largest(_along(f, kept, factor), _normal(kept, rng), precision)
        eigenpairs.append(steepest)
        v = steepest.vector
        both = [(v * f.product(*at)).sum() for at in ((kept, v, factor), (there, v))]
        identities.append(float(both[0] / (factor * both[1])))
        slopes = gradients_of(task, there.expand(N, -1, -1))
        gradients = root * slopes.mean.reshape(N, *there.shape)
        total[:, rows] += gradients / len(sketches)
        squares += (gradients**2).sum((1, 2)) / len(sketches)
        noise.append(factor * float(slopes.noise.mean()))
        losses.append(f.value(there))

    def averaged(V: Tensor) -> Tensor:
        result = torch.zeros_like(V)
        for rows in sketches:
            result[rows] += f.product(X[rows], V[rows], factor) / len(sketches)
        return result

    relaxed = largest(averaged, _normal(X, rng), precision) if factor > 1 else eigenpairs[0]
    sizes, middle = (total**2).sum((1, 2)), total.mean(0)
    return {
        "curvature": float(np.mean([one.size for one in eigenpairs])),
        "steepest": max(one.size for one in eigenpairs),
        "relaxed": relaxed.size,
        "identity": max(identities, key=lambda ratio: abs(ratio - 1.0)),
        "residual": max(one.residual for one in (*eigenpairs, relaxed)),
        "noise": float(np.mean(noise)),
        "spread": float((squares - sizes).mean()),
        "size": float(sizes.mean()),
        "apart": float(((total - middle) ** 2).sum((1, 2)).max()),
        "slope": float((middle**2).sum()),
        "loss": float(np.mean(losses)),
    }


def _along(f: Objective, X: Tensor, scale: float) -> Product:
    return lambda V: f.product(X, V, scale)


def _normal(like: Tensor, rng: np.random.Generator) -> Tensor:
    drawn: Any = rng.normal(size=tuple(like.shape))
    return like.new_tensor(drawn)

"""What the analysis of FSLoRA is about, exactly: f^S, its gradient, sigma_s, sigma_g, sigma_h, c_h.

Expectations over sketches are means over all supports; for least squares they have a closed form at
any rank. With S = I + D, where D has mean zero and the covariance of
:func:`linsys.sketching.sketch.covariance`, the loss is quadratic in D and

    f_i^S(B, A) - f_i(B, A) = (1/2) sum_{j, l} Cov(S_jj, S_ll) (B'B)_{jl} (A M_i A')_{jl},

M_i the second moment of device i's inputs. So E[S] = I makes W0 + B S A unbiased, not its loss: the
difference is a penalty, (1/2) E||B D A x||^2, positive unless all B S A agree on the inputs.

The same holds for the gradient and for its variance. Every value here is exact, and of a point X;
on balls see :mod:`linsys.sketching.variances`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from linsys.sketching._derivatives import check_least_squares, moment_and_slope
from linsys.sketching.sketch import covariance, every_support
from linsys.sketching.systems import LeastSquares, MatrixSystem
from linsys.validate import Array, InputError, check_integer

__all__ = [
    "data_variance",
    "dissimilarity",
    "global_gradient",
    "global_loss",
    "penalty",
    "sketch_variance",
    "sketched_gradient",
    "sketched_gradients",
    "sketched_loss",
]

Value = TypeVar("Value")


def sketched_loss(system: MatrixSystem, device: int, X: Array, k: int) -> float:
    """f_i^S(B, A) = E f_i(B S, A) of (2), for a random-k sketch."""
    if isinstance(system, LeastSquares):
        return system.loss(device, X) + penalty(system, device, X, k)[0]
    r = _rank(X, k)
    return float(np.mean([system.loss(device, X[chosen], r / k) for chosen in every_support(r, k)]))


def sketched_gradient(system: MatrixSystem, device: int, X: Array, k: int) -> Array:
    """grad f_i^S, shape (r, w)."""
    if isinstance(system, LeastSquares):
        return system.gradient(device, X) + penalty(system, device, X, k)[1]
    return np.asarray(sketched_gradients(system, device, X, k).mean(axis=0))


def sketched_gradients(system: MatrixSystem, device: int, X: Array, k: int) -> Array:
    """grad f_i(.; S) for every support, shape (r over k, r, w)."""
    r = _rank(X, k)
    chosen = every_support(r, k)
    gradients = np.zeros((len(chosen), *X.shape))
    for gradient, rows in zip(gradients, chosen, strict=True):
        gradient[rows] = system.gradient(device, X[rows], r / k)
    return gradients


def penalty(system: LeastSquares, device: int, X: Array, k: int) -> tuple[float, Array]:
    """f_i^S - f_i in closed form, and its gradient (r, w).

    >>> system = LeastSquares([[0.0]], inputs=([[1.0]],), targets=([[1.0]],))
    >>> X = np.array([[1.0, 1.0], [0.0, 0.0]])  # all in the first of two components
    >>> float(penalty(system, 0, X, k=1)[0])  # W is 2 or 0 with equal chances: 1/2 in place of 0
    0.5
    """
    check_least_squares(system)
    C = covariance(_rank(X, k), k)
    x = system.inputs[device]
    [(B, A)] = system.modules.split(X)
    hidden = x @ A.T
    second = hidden.T @ hidden / len(x)
    by_B, by_A = B @ (C * second), (C * (B.T @ B)) @ (hidden.T @ x) / len(x)
    return float(0.5 * (C * (B.T @ B) * second).sum()), system.modules.join([(by_B, by_A)])


def global_loss(system: MatrixSystem, X: Array, ranks: Sequence[int]) -> float:
    """f^S(B, A), the mean over devices of ranks k_i."""
    return float(np.mean(_each(sketched_loss, system, X, ranks)))


def global_gradient(system: MatrixSystem, X: Array, ranks: Sequence[int]) -> Array:
    """grad f^S, shape (r, w)."""
    return np.asarray(np.mean(_each(sketched_gradient, system, X, ranks), axis=0))


def sketch_variance(system: MatrixSystem, device: int, X: Array, k: int) -> float:
    """E||grad f_i(X; S) - grad f_i^S(X)||^2: the least sigma_s^2 of Assumption 4.2 at this X.

    For least squares at any rank: row j of the gradient is (r/k) s_j (u_j + the sum over l other
    than j of s_l v_lj), s_j one if j is in the sketch and else zero, with vectors u and v of X and
    the data. Its variance needs the chances that one, two or three given components are chosen.

    >>> system = LeastSquares([[0.0]], inputs=([[1.0]],), targets=([[1.0]],))
    >>> X = np.array([[1.0, 1.0], [0.0, 0.0]])  # the gradient is 2 (1, 1) or 0 with equal chances
    >>> sketch_variance(system, 0, X, k=1)
    2.0
    """
    if not isinstance(system, LeastSquares):
        gradients = sketched_gradients(system, device, X, k)
        return float(((gradients - gradients.mean(axis=0)) ** 2).sum(axis=(1, 2)).mean())
    r = _rank(X, k)
    M, C = moment_and_slope(system, device)
    [(B, A)] = system.modules.split(X)
    MA, P, Q = M @ A.T, A @ M @ A.T, B.T @ B
    scale, others = r / k, 1.0 - np.eye(r)
    one = k / r
    two = one * (k - 1) / max(r - 1, 1)
    three = two * (k - 2) / (r - 2) if r > 2 else two
    # u (m + n, r), the sum of v_lj over l, and that of |v_lj|^2
    u = np.concatenate([C @ A.T + scale * B * P.diagonal(), C.T @ B + scale * MA * Q.diagonal()])
    v = scale * np.concatenate([B @ (others * P), MA @ (others * Q)])
    squares = scale**2 * (Q.diagonal() @ (others * P**2) + (MA**2).sum(axis=0) @ (others * Q**2))
    each = one * (1 - one) * (u**2).sum(axis=0) + 2 * two * (1 - one) * (u * v).sum(axis=0)
    each += (three - two**2) * (v**2).sum(axis=0) + (two - three) * squares
    return float(scale**2 * each.sum())


def data_variance(system: MatrixSystem, device: int, X: Array, scale: float = 1.0) -> float:
    """E||grad l(X, xi) - grad f_i(X)||^2 for the rows X (k, w) of a device: sigma_g^2 there.

    xi is the mean over the system's batch, drawn without replacement from s samples, whose variance
    is (s - b) / (s - 1) / b times one sample's; zero when a batch is all samples.
    """
    size = len(system.inputs[device])
    batch = size if system.batch is None else min(system.batch, size)
    if batch == size:
        return 0.0
    each = np.array(
        [system.gradient(device, X, scale, np.array([sample])) for sample in range(size)]
    )
    one = float(((each - each.mean(axis=0)) ** 2).sum(axis=(1, 2)).mean())
    return one * (size - batch) / (size - 1) / batch


def dissimilarity(system: MatrixSystem, X: Array, ranks: Sequence[int]) -> tuple[float, float]:
    """max_i ||grad f_i^S - grad f^S||^2 and ||grad f^S||^2, which Assumption 4.3 compares.

    Its constants at this X are any c_h, sigma_h with first <= c_h second + sigma_h^2.
    """
    each = np.array(_each(sketched_gradient, system, X, ranks))
    mean = each.mean(axis=0)
    return float(((each - mean) ** 2).sum(axis=(1, 2)).max()), float((mean**2).sum())


def _each(
    function: Callable[[MatrixSystem, int, Array, int], Value],
    system: MatrixSystem,
    X: Array,
    ranks: Sequence[int],
) -> list[Value]:
    if len(ranks) != system.devices:
        raise InputError(
            f"`ranks` must be {system.devices}, one for each device; found {len(ranks)}"
        )
    return [function(system, i, X, k) for i, k in enumerate(ranks)]


def _rank(X: Array, k: int) -> int:
    r = int(X.shape[0])
    check_integer("k", k, low=1, high=r)
    return r

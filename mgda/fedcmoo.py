"""FedCMOO: the server resolves the conflict of objectives for all clients (Askin et al., 2024).

*Problem.* That of :mod:`mgda.firm`.

*Algorithm.* At the start of a round every client sends its M gradients, the server averages them,
finds one lambda for the averages and broadcasts it; all clients use it in K local steps and send
their parameters. FIRM's experiments compare with this without compression, as FedCMOO-A. With one
lambda there is no disagreement drift, but a round carries M more vectors up, lambda is old after
the first of the K steps, and M-by-M Gram matrices of the clients would not do in the place of
gradients: inner products of different clients' gradients enter the Gram matrix of the mean.

*Compression.* Client c may send the factors of a randomised low-rank approximation Q (Q'A) of its
d-by-M gradients A, with Q an orthonormal basis of A Omega for Gaussian Omega of ``rank`` columns
(Algorithm 4.1 of Halko, Martinsson and Tropp, 2011). lambda is found from these; the local steps
use the gradients themselves.

*Guarantee.* Askin et al. show convergence to Pareto-stationary points of smooth losses, the
compression leaving a term of order q M (as FIRM quotes it). The gradients that give lambda are here
those of the first local step, not drawn apart, so that all methods use the same number of samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace

from linsys.validate import Array, check_choice, check_integer, check_number
from mgda.federated import MinNorm, State, Traffic, apart, finite_rows, joined, like
from mgda.simplex import gram, regulariser, trace_normalised

__all__ = ["FedCMOO", "low_rank", "project_simplex"]


@dataclass(frozen=True, kw_only=True)
class FedCMOO(MinNorm):
    """One lambda for all clients, found by the server.

    Args:
        alpha: step size.
        K: local steps between aggregations.
        restart, optimizer, moments: see :class:`mgda.federated.Federated`.
        beta, preference, normalise: of the server's problem, as for FIRM; plain MGDA without them.
        lambda_rule: "exact" solves the server's problem, "projected" takes one projected gradient
            step on half its objective from the last lambda.
        lambda_step: size of that step.
        refresh: "round", lambda is fixed during the K local steps, or "step": found at each.
        rank: of the compressed gradients, None for no compression.
        seed: of the compression; replicates and clients draw independently.

    >>> server = FedCMOO(alpha=0.5)
    >>> gradients = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 4.0]]])
    >>> state = server.step(server.init(np.zeros((2, 2))), gradients)
    >>> state.weights  # of the averages e_1 / 2 and 2 e_2: proportional to 4 and 1/4
    array([[0.94117647, 0.05882353],
           [0.94117647, 0.05882353]])
    >>> server.bytes_per_round(clients=8, d=1000, M=2)  # 2 + 1 vectors up, one and lambda down
    Traffic(up=96000, down=32064)
    """

    weighs_on_server: ClassVar[bool] = True

    lambda_rule: str = "exact"
    lambda_step: float = 0.1
    refresh: str = "round"
    rank: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("lambda_rule", self.lambda_rule, ("exact", "projected"))
        check_choice("refresh", self.refresh, ("round", "step"))
        check_number("lambda_step", self.lambda_step, low=0.0, low_open=True)
        check_integer("seed", self.seed)
        if self.rank is not None:
            check_integer("rank", self.rank, low=1)

    def weigh(self, state: State, gradients: Any) -> Array:
        """The server's lambda for every client, shape (..., C, M)."""
        if self.refresh == "round" and state.t % self.K > 0 and state.weights is not None:
            return state.weights
        return self.resolve(state, self.restore(self.compress(gradients, state.t)))

    def compress(
        self, gradients: Any, t: int, *, client: int = 0, clients: int | None = None
    ) -> tuple[Any, ...]:
        """What clients send of their gradients (..., C, d, M) in step t: them, or two factors.

        Args:
            gradients: of some neighbouring clients, or all.
            t: the step.
            client: number of the first of them.
            clients: how many there are in all; those of ``gradients`` without it.
        """
        if self.rank is None:
            return (gradients,)
        *lead, C, _, M = gradients.shape
        rng = np.random.default_rng([self.seed, t])
        omega = rng.standard_normal((*lead, C if clients is None else clients, M, self.rank))
        common = like(gradients, omega[..., client : client + C, :, :])
        parts = [_factors(g, o) for g, o in zip(apart(gradients), apart(common), strict=True)]
        basis, core = zip(*parts, strict=True)
        return joined(basis, -3), joined(core, -3)

    def restore(self, sent: tuple[Any, ...]) -> Any:
        """The gradients that the server makes of what :meth:`compress` gives."""
        if len(sent) == 1:
            return sent[0]
        return joined([Q @ R for Q, R in zip(*map(apart, sent), strict=True)], -3)

    def resolve(self, state: State, sent: Any) -> Array:
        """The server's lambda from gradients (..., C, d, M), for every client: (..., C, M)."""
        average = array_namespace(sent).mean(sent, axis=-3)
        M = average.shape[-1]
        if self.lambda_rule == "exact":
            weights = self.solve(average)
        else:
            G = gram(average)
            Q = (trace_normalised(G) if self.normalise else G) + regulariser(
                M, self.beta, self.preference
            )
            # the clients' weights are the server's own; equal ones before the first step
            last = np.full(M, 1.0 / M) if state.weights is None else state.weights.mean(axis=-2)
            weights = project_simplex(last - self.lambda_step * (Q @ last[..., None])[..., 0])
        return np.repeat(weights[..., None, :], sent.shape[-3], axis=-2)

    def bytes_per_round(self, clients: int, d: int, M: int, *, itemsize: int = 4) -> Traffic:
        """Bytes of one round: parameters both ways, gradients up and lambda down as often as used.

        Compressed gradients are two factors, rank (d + M) numbers.
        """
        model = super().bytes_per_round(clients, d, M, itemsize=itemsize)
        gradients = d * M if self.rank is None else min(self.rank, d) * (d + M)
        times = (1 if self.refresh == "round" else self.K) * clients * itemsize
        return Traffic(model.up + times * gradients, model.down + times * M)


def low_rank(gradients: Any, rank: int, rng: np.random.Generator) -> Any:
    """Randomised approximation of matrices (..., d, M) of rank ``rank`` at most.

    Exact for matrices of no higher rank. The error is at most the matrix itself, Q Q' being a
    projection.

    >>> A = np.outer([1.0, 2.0, 3.0], [1.0, -1.0])
    >>> bool(np.allclose(low_rank(A, 1, np.random.default_rng(0)), A))
    True
    """
    omega = rng.standard_normal((*gradients.shape[:-2], gradients.shape[-1], rank))
    basis, core = _factors(gradients, like(gradients, omega))
    return basis @ core


def _factors(gradients: Any, omega: Any) -> tuple[Any, Any]:
    """Q and Q' A of A (..., d, M), with Q an orthonormal basis of A omega."""
    xp = array_namespace(gradients)
    basis = xp.linalg.qr(gradients @ omega, mode="reduced")[0]
    return basis, xp.matrix_transpose(basis) @ gradients


def project_simplex(points: Array) -> Array:
    """The nearest points of the simplex to (..., M): max(x - tau, 0) with the right tau.

    By sorting, as in Held, Wolfe and Crowder (1974).

    >>> project_simplex(np.array([0.9, 0.5, -1.0]))
    array([0.7, 0.3, 0. ])
    """
    points = finite_rows("points", points, "(..., M)")
    points = points - points.max(axis=-1, keepdims=True)  # moves tau alone, and keeps the 1 below
    descending = -np.sort(-points, axis=-1)
    sums = np.cumsum(descending, axis=-1) - 1.0
    counts = np.arange(1, points.shape[-1] + 1)
    kept = np.count_nonzero(descending * counts > sums, axis=-1, keepdims=True)
    tau = np.take_along_axis(sums, kept - 1, axis=-1) / kept
    return np.asarray(np.maximum(points - tau, 0.0))

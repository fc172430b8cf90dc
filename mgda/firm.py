"""FIRM and T-FIRM: every client resolves its own conflict of objectives (Algorithms 1 and 2).

*Problem.* C clients hold the same parameters theta and see M objectives J^j, to be maximised,
through stochastic gradients. Wanted is a Pareto-stationary theta: min_lambda ||grad J lambda||^2
small over the simplex (Definition 3).

*Algorithm.* Client c solves the regularised minimum-norm problem (1) for its own M gradients,

    lambda^{*,c} = argmin ||sum_j lambda_j g^{j,c}||^2 + (beta / 2) ||lambda||^2,

smooths the solution, lambda^c_t = (1 - eta_t) lambda^c_{t-1} + eta_t lambda^{*,c}_t (11), steps
along sum_j lambda^{j,c} g^{j,c}, and after K steps sends its parameters: d numbers, where a server
that resolves the conflict needs M d. The price is that the clients' weights differ,
:func:`mgda.drift.disagreement`; beta bounds by how much (Lemma 1).

*Guarantee.* Theorem 1, for identical clients under Assumptions 1 to 3, as stated: T-FIRM's mean
over t <= T of E||grad J(theta_t) lambda_t||^2 is of order log T / (alpha T) + 1 / (C B) plus the
disagreement drift, of order M^{3/4} alpha K / (beta sqrt(B)); Remark 1 has M^{3/2} there. Both
leave out the errors of the critic.

=====================  =====================================  ==================================
switch                 experiments (the defaults)             theory, :meth:`FIRM.theory`
=====================  =====================================  ==================================
``normalise``          True: Gram matrix over its mean trace  False: as it is
``eta``                1.0: no smoothing                      "1/t": mean of all solutions so far
``beta``               0.01                                   any positive
=====================  =====================================  ==================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linsys.validate import Array, check_choice, check_number
from mgda.federated import MinNorm, State, apart, joined

__all__ = ["FIRM"]


@dataclass(frozen=True, kw_only=True)
class FIRM(MinNorm):
    """FIRM over gradients of any kind; with those of :class:`mgda.actor_critic.ActorCritic` T-FIRM.

    Args:
        alpha: step size.
        K: local steps between aggregations.
        restart, optimizer, moments: see :class:`mgda.federated.Federated`.
        beta: regularisation; 0 is plain MGDA at every client.
        preference: p > 0, shape (M,), with Diag(1 / p) in the place of (beta / 2) I: equation (3).
            It asks for ``beta=0``.
        normalise: divide every client's Gram matrix by its mean trace first, equation (9).
        eta: smoothing in [0, 1], constant, or "1/t" for eta_t = 1/t in step t = 1, 2, ..

    Raises:
        InputError: a negative beta, a p that is not positive, both, eta outside [0, 1], K < 1.

    >>> firm = FIRM(alpha=0.5, beta=2.0, normalise=False)
    >>> gradients = np.array([[[1.0, 0.0], [0.0, 2.0]]])  # one client, e_1 and 2 e_2
    >>> state = firm.step(firm.init(np.zeros((1, 2))), gradients)
    >>> state.weights.tolist()  # proportional to 1 / (1 + 1) and 1 / (4 + 1)
    [[0.714285714286, 0.285714285714]]
    >>> state.theta.tolist()
    [[0.357142857143, 0.285714285714]]
    >>> firm.bytes_per_round(clients=8, d=1000, M=2)
    Traffic(up=32000, down=32000)
    """

    beta: float = 0.01
    normalise: bool = True
    eta: float | str = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.eta, str):
            check_choice("eta", self.eta, ("1/t",))
        else:
            check_number("eta", self.eta, low=0.0, high=1.0)

    @classmethod
    def theory(cls, *, alpha: float, beta: float, K: int = 1) -> FIRM:
        """What the proof of Theorem 1 is about: the raw Gram matrix, and eta_t = 1/t.

        >>> FIRM.theory(alpha=0.1, beta=0.5, K=4).eta
        '1/t'
        """
        return cls(alpha=alpha, beta=beta, K=K, normalise=False, eta="1/t")

    def weigh(self, state: State, gradients: Any) -> Array:
        """lambda^c_t of equation (11), shape (..., C, M)."""
        optimal = joined([self.solve(own) for own in apart(gradients)], -2)
        eta = 1.0 / (state.t + 1) if isinstance(self.eta, str) else self.eta
        before = np.full(optimal.shape[-1], 1.0 / optimal.shape[-1])
        if state.weights is not None:
            before = state.weights
        return np.asarray((1.0 - eta) * before + eta * optimal)

"""Constants of Assumptions 1 to 3 and of Lemma 2 of FIRM for a given process: exact, or bounds.

A name with ``_at`` is the exact value at one policy, a name with ``_everywhere`` a bound for all
softmax policies of the process. D below is the diameter of the policy's features,
D = max_{s, a, b} |x(s, a) - x(s, b)|, sqrt(2) for one logit per pair.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from linsys.linalg import operator_norm
from linsys.validate import Array, InputError, check_integer, check_number
from mgda.momdp import MOMDP, SoftmaxPolicy

__all__ = [
    "Mixing",
    "gradient_bound",
    "mixing_at",
    "mixing_distances",
    "mixing_everywhere",
    "policy_lipschitz",
    "score_bound",
    "score_lipschitz",
    "smoothness_at",
    "smoothness_everywhere",
]

#: Lemma 2 asks for rho > 0; chains that forget at once get this.
_SMALLEST_RHO = 1e-6
#: Powers of the chain are tried until all rows are this close.
_CLOSE = 1e-6
#: Powers that are tried at most; from ``_EACH`` on only some are judged, see :func:`mixing_at`.
_LONGEST, _EACH = 100_000, 1_000


class Mixing(NamedTuple):
    """sup_s ||P(s_t = . | s_0 = s) - d||_TV <= kappa rho^t for all t >= 0, Lemma 2."""

    kappa: float
    rho: float

    @property
    def variance_factor(self) -> float:
        """(1 - rho + 4 kappa rho) / (1 - rho), by which Lemma 6 multiplies a variance."""
        if not self.rho < 1.0:
            raise InputError(f"`rho` must be below 1; found {self.rho}")
        return (1.0 - self.rho + 4.0 * self.kappa * self.rho) / (1.0 - self.rho)


def mixing_distances(policy: SoftmaxPolicy, last: int) -> Array:
    """max_s ||P_pi^t(s, .) - d_pi||_TV for t = 0 .. last, total variation being half the l1 norm.

    >>> from mgda.momdp import MOMDP
    >>> chain = MOMDP(P=[[[0.75, 0.25]], [[0.25, 0.75]]], r=np.zeros((2, 1, 1)), gamma=0.5)
    >>> mixing_distances(chain.at(np.zeros(2)), 3)
    array([0.5   , 0.25  , 0.125 , 0.0625])
    """
    deviation, distances = _deviation(policy), []
    power = np.eye(len(deviation)) - policy.stationary
    for _ in range(check_integer("last", last) + 1):
        distances.append(0.5 * np.abs(power).sum(axis=-1).max())
        power = power @ deviation
    return np.array(distances)


def _deviation(policy: SoftmaxPolicy) -> Array:
    """P_pi - 1 d', whose t-th power is P_pi^t - 1 d' for t >= 1."""
    if policy.theta.ndim != 1:
        raise InputError(f"`theta` must be one policy, shape (d,); found {policy.theta.shape}")
    return np.asarray(policy.kernel - policy.stationary)


def mixing_at(policy: SoftmaxPolicy, rho: float | None = None) -> Mixing:
    """A valid pair (kappa, rho), with the least kappa there is for this rho.

    Let D(t) be the distances and C(m) half the largest l1 distance of two rows of P^m. Signed
    measures of mass zero shrink by C(m) in m steps, so that D(t + m) <= C(m) D(t). Where C(m) <=
    rho^m, the supremum of D(t) / rho^t over all t is therefore attained at some t < m.

    Args:
        policy: one policy.
        rho: without it, of all C(m)^{1/m} the one with the least factor in Lemma 6; of every
            m up to 1,000, and from there on of some, each at most a tenth above the last.

    Raises:
        InputError: a rho below the chain's second eigenvalue, for which there is no kappa, or a
            chain that has not mixed after 100,000 steps.

    >>> from mgda.momdp import MOMDP
    >>> chain = MOMDP(P=[[[0.75, 0.25]], [[0.25, 0.75]]], r=np.zeros((2, 1, 1)), gamma=0.5)
    >>> mixing_at(chain.at(np.zeros(2)))
    Mixing(kappa=0.5, rho=0.5)
    """
    deviation = _deviation(policy)
    if rho is not None:
        check_number("rho", rho, low=0.0, high=1.0, low_open=True, high_open=True)
        second = float(np.abs(np.linalg.eigvals(deviation)).max())
        if rho <= second:
            raise InputError(f"`rho` must be above the second eigenvalue {second:.6g}; found {rho}")
    power = np.eye(len(deviation)) - policy.stationary
    distances: list[float] = []
    best, due = Mixing(math.inf, 1.0 - _SMALLEST_RHO), 1
    while len(distances) < _LONGEST:
        distances.append(float(0.5 * np.abs(power).sum(axis=-1).max()))
        power = power @ deviation
        m = len(distances)
        rows = float(0.5 * np.abs(power[:, None] - power).sum(axis=-1).max())
        if rho is None and m < due and rows > _CLOSE:
            continue
        due = m + 1 if m < _EACH else m + m // 10
        candidate = max(rows ** (1.0 / m), _SMALLEST_RHO) if rho is None else rho
        # the power of a root is off by m roundings
        if rows <= candidate**m * (1.0 + m * 1e-15) and candidate < 1.0:
            mixing = Mixing(max(D / candidate**t for t, D in enumerate(distances)), candidate)
            if rho is not None:
                return mixing
            best = min(best, mixing, key=lambda pair: pair.variance_factor)
        if rho is None and rows <= _CLOSE:
            return best
    raise InputError(
        f"`theta` must give a chain that mixes within {_LONGEST} steps; found rows of its power "
        f"{rows:.3g} apart"
    )


def mixing_everywhere(momdp: MOMDP) -> Mixing:
    """A pair for all policies: kappa = 1 and rho = max ||P(.|s, a) - P(.|s', a')||_TV.

    Rows of P_pi are averages of these rows, so that rho bounds how one step contracts.

    Raises:
        InputError: rho = 1, two pairs without a common next state: one step does not contract.
    """
    rows = momdp.P.reshape(-1, momdp.n_states)
    rho = max(float(0.5 * np.abs(row - rows).sum(axis=-1).max()) for row in rows)
    if rho >= 1.0:
        raise InputError("`P` must have overlapping rows; found two without a common next state")
    return Mixing(1.0, max(rho, _SMALLEST_RHO))


def score_bound(momdp: MOMDP) -> float:
    """C_psi = D: the score averages x(s, a) - x(s, b) over b. Not attained, but approached.

    >>> from mgda.instances import sample_momdp
    >>> round(score_bound(sample_momdp(0)) ** 2, 12)
    2.0
    """
    x = momdp.x
    return float(np.linalg.norm(x[:, :, None] - x[:, None], axis=-1).max())


def score_lipschitz(momdp: MOMDP) -> float:
    """L_psi = D^2 / 4: grad psi = -Cov_pi(x), and a variable of range D has variance <= D^2/4."""
    return score_bound(momdp) ** 2 / 4.0


def policy_lipschitz(momdp: MOMDP) -> float:
    """C_pi = D / 4: ||pi_theta(.|s) - pi_theta'(.|s)||_TV <= C_pi |theta - theta'|.

    Along a unit vector u the derivative is (1/2) E|x'u - E x'u|, and the mean absolute deviation of
    a variable of range D is at most D / 2.
    """
    return score_bound(momdp) / 4.0


def gradient_bound(momdp: MOMDP, radius: float) -> float:
    """R = C_psi (r_max + (1 + gamma) R_w), Lemma 7."""
    check_number("radius", radius, low=0.0)
    return score_bound(momdp) * (momdp.r_max + (1.0 + momdp.gamma) * radius)


def smoothness_at(policy: SoftmaxPolicy, first: int = 0) -> Array:
    """||grad^2 J^j||_op at the policy, shape (..., M): the local Lipschitz constant of grad J^j."""
    return np.asarray(operator_norm(policy.hessian(first)))


def smoothness_everywhere(momdp: MOMDP, first: int = 0) -> float:
    """L_J = gamma^first r_max D^2 / (4 (1 - gamma)^2), a Lipschitz constant of all grad J^j.

    With m_t = u'(psi_0 + .. + psi_t) along a trajectory, a martingale, and v_t the sum of the
    variances of u'x under pi at s_0 .. s_t, u' grad^2 J u = E sum_t gamma^t r_t (m_t^2 - v_t).
    Rewards are in [0, r_max], and E m_t^2 = E v_t <= (t + 1) D^2 / 4 bounds both parts.
    (The like of Lemma 4.4 of Yuan, Gower and Lazaric, 2022.)

    >>> from mgda.instances import sample_momdp
    >>> round(smoothness_everywhere(sample_momdp(0, gamma=0.5)), 12)  # 1 / (2 (1 - gamma)^2)
    2.0
    """
    shift = momdp.gamma ** check_integer("first", first, high=1)
    return shift * momdp.r_max * score_lipschitz(momdp) / (1.0 - momdp.gamma) ** 2

"""Algorithm 1 line by line, what it sends and what it computes (Section 2, Appendix C.1, Remark 1).

The algorithms are those of :mod:`linsys.algorithms`, run on samples of many systems at once, in
float64 or in high precision; against them stand the paper's formulas, evaluated on the same
samples. Iterates are attributes of the stack: ``x`` (B, n, d), ``x_c`` and ``theta_c`` (B, d).

>>> import numpy as np
>>> one = np.ones((1, 2, 1, 1))
>>> stack = FiniteStack(
...     mu=np.eye(2)[None], A=one, Phi=one, theta=np.array([[[1.0], [3.0]]]),
...     x=np.zeros((1, 2, 1)), x_c=np.zeros((1, 1)), theta_c=np.zeros((1, 1)),
... )
>>> measured, bound = algorithm_one(stack, np.array([[0, 1]]))
>>> bool((measured == bound).all())
True
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from experiments.affpcl.theory.stack import FiniteStack, apply
from linsys.algorithms import AffPCL, AffPCLState, FedAvg, StepSizes
from linsys.algorithms.baselines import Common
from linsys.linalg import Numbers
from linsys.oracle import LinearObservation

#: Step sizes of x^i, x^c, theta^c and the ratio. A round is affine in each of them, so that one
#: value, distinct and exact in binary, tests them all.
SIZES = StepSizes(0.25, 0.5, 0.125, 0.0)


def drawn(share: Numbers, S: int) -> NDArray[np.int_]:
    """States 0, .., S-1 for numbers in [0, 1], of the same shape."""
    passed = share[..., None] * S >= np.arange(1, S)
    return np.asarray(passed.astype(bool).sum(axis=-1))


def observe(stack: FiniteStack, states: NDArray[np.int_]) -> LinearObservation:
    """What B systems show of one sample per agent, states (B, n)."""
    batch = np.arange(len(states))[:, None]
    agents = np.arange(states.shape[1])
    Phi = stack.Phi if hasattr(stack, "Phi") else stack.A  # FedAvg asks for no objective features
    return LinearObservation(
        A=stack.A[batch, states],
        Phi=Phi[batch, states],
        b=stack.b[batch, agents, states],
        rho=stack.rho[batch[:, :, None], agents[:, None], states[:, None]],
    )


def federated_rounds(stack: FiniteStack, states: NDArray[np.int_]) -> rc.Sides:
    """Section 2: local updates, averaged and sent back, are (4); every round, shape (B, R, n, d).

    ``states`` (B, R, n) are the samples of R rounds; the left side is FedAvg as implemented, from
    x^i = x^c = ``x_c``, the right side x^c <- x^c - alpha ((1/n) sum A(s^i) x^c - (1/n) sum b^i).
    """
    algorithm, alpha = FedAvg(), SIZES.center
    state = Common(stack.x_c[:, None], stack.b[:, :, 0])
    point, local, central = stack.x_c, [], []
    for t in range(states.shape[1]):
        seen = observe(stack, states[:, t])
        state = algorithm.update(state, [seen], SIZES)
        point = point - alpha * (apply(seen.A.mean(axis=1), point) - seen.b.mean(axis=1))
        local.append(algorithm.personal(state))
        central.append(np.repeat(point[:, None], stack.n, axis=1))
    return np.stack(local, axis=1), np.stack(central, axis=1)


def algorithm_one(stack: FiniteStack, states: NDArray[np.int_]) -> rc.Sides:
    """Lines 10 to 12 as implemented in AffPCL against (4), (7) and (8), shape (B, n+2, d)."""
    seen = observe(stack, states)
    center, theta = stack.x_c[:, None], stack.theta_c[:, None]
    after = AffPCL().update(AffPCLState(stack.x, center, theta), [seen], SIZES)
    together = np.concatenate([after.x, after.center, after.theta], axis=1)
    return together, _formulas(stack, seen, stack.x_c[:, None])


def line_twelve_as_printed(stack: FiniteStack, states: NDArray[np.int_]) -> rc.Sides:
    """Line 12 with g^{c->i}(x^i), as printed, against (8) with g^{c->i}(x^c), shape (B, n, d)."""
    seen = observe(stack, states)
    printed = _formulas(stack, seen, stack.x)
    return printed[:, : stack.n], _formulas(stack, seen, stack.x_c[:, None])[:, : stack.n]


def _formulas(stack: FiniteStack, seen: LinearObservation, subtracted: Numbers) -> Numbers:
    """x^i of (8), x^c of (4), theta^c of (7); ``subtracted`` is where g^{c->i} is evaluated."""
    x, x_c, theta = stack.x, stack.x_c[:, None], stack.theta_c[:, None]
    estimate = apply(seen.Phi, theta)
    own = apply(seen.A, x) - seen.b
    bias = apply(seen.A, subtracted) - estimate
    # g^{c=>i} = (1/n) sum_j rho^i(s^j) g^{c->j}(x^c)
    central = (seen.rho[..., None] * (apply(seen.A, x_c) - estimate)[:, None]).mean(axis=2)
    common = (apply(seen.A, x_c) - seen.b).mean(axis=1, keepdims=True)
    objective = (estimate - seen.b).mean(axis=1, keepdims=True)
    return np.concatenate(
        [
            x - SIZES.x * (own + central - bias),
            x_c - SIZES.center * common,
            theta - SIZES.objective * objective,
        ],
        axis=1,
    )


# Remark 1: numbers sent in one round, and the work of lines 10 to 12.


def sent(
    stack: FiniteStack,
    states: NDArray[np.int_],
    *,
    state_size: int,
    shared: bool,
    weights: int = 0,
) -> int:
    """Numbers that AffPCL sends in one round, up (line 5) and down (line 8), counted on its arrays.

    Args:
        stack: B systems with iterates.
        states: samples (B, n).
        state_size: how many numbers a state s^i takes; the server needs it for rho^i(s^j).
        shared: whether x^c moves along g^{c->i}, (22-2), so that g^i(x^c) is not sent.
        weights: of a density ratio that agents estimate themselves, by Example 2: how many numbers
            eta^i takes, which go up, and psi(s^0), which goes down to each agent. The server can
            do without either, having all samples.
    """
    seen = observe(stack, states)
    n = stack.n
    center = stack.x_c[:, None] + 0 * stack.x
    theta = stack.theta_c[:, None] + 0 * stack.x
    bias = seen.central_residual(center, theta)
    kinds = [seen.objective_residual(theta), bias]
    if not shared:
        kinds.append(seen.residual(center))
    # Every agent gets the average of each kind; with (22-2) that of ``bias`` moves x^c. Beside
    # them it gets its own g^{c=>i}.
    averages = [kind.mean(axis=1) for kind in kinds if shared or kind is not bias]
    corrected = seen.rho @ bias / n
    up = sum(kind[0].size for kind in kinds) + n * (state_size + weights)
    down = sum(n * average[0].size for average in averages) + int(corrected[0].size) + n * weights
    return int(up + down)


def sent_by_federated_averaging(stack: FiniteStack, states: NDArray[np.int_]) -> int:
    """Numbers that FedAvg sends in one round: all residuals, and their average to each agent."""
    residuals = observe(stack, states).residual(stack.x_c[:, None] + 0 * stack.x)
    return int(residuals[0].size + stack.n * residuals.mean(axis=1)[0].size)


class Work:
    """Counts multiplications with additions of numbers, while it computes."""

    def __init__(self) -> None:
        self.done = 0

    def combine(self, start: Numbers, *terms: tuple[Any, Numbers]) -> Numbers:
        """start + sum_k c_k v_k: one multiplication and addition for each entry of each v_k."""
        for factor, vector in terms:
            start = start + factor * vector
            self.done += int(np.prod(vector.shape[1:]))
        return start


def counted_round(stack: FiniteStack, states: NDArray[np.int_]) -> tuple[Numbers, int, int]:
    """The round of AffPCL with what it costs beyond residuals and averages.

    Returns:
        x^i, x^c and theta^c after the round, shape (B, n+2, d); the multiplications with additions
        that all agents do in lines 10 to 12; and those of the importance correction, in line 7.
    """
    seen = observe(stack, states)
    n = stack.n
    x_c = stack.x_c[:, None] + 0 * stack.x
    theta = stack.theta_c[:, None] + 0 * stack.x
    own, bias = seen.residual(stack.x), seen.central_residual(x_c, theta)
    average = np.repeat(seen.residual(x_c).mean(axis=1, keepdims=True), n, axis=1)
    objective = np.repeat(seen.objective_residual(theta).mean(axis=1, keepdims=True), n, axis=1)
    server, agents = Work(), Work()
    terms = [(seen.rho[..., j, None] / n, np.repeat(bias[:, [j]], n, axis=1)) for j in range(n)]
    central = server.combine(0 * bias, *terms)
    center = agents.combine(x_c, (-SIZES.center, average))
    theta = agents.combine(theta, (-SIZES.objective, objective))
    x = agents.combine(stack.x, (-SIZES.x, own), (-SIZES.x, central), (SIZES.x, bias))
    return np.concatenate([x, center[:, :1], theta[:, :1]], axis=1), agents.done, server.done

"""Policies that are best under the worst reward of a confidence set, (3.5) of P-ShareLoRA.

With linear rewards and v(x) = E_x psi - E_ref psi, which is affine in the realisation plan x,

    max_x min_{Theta in R} <v(x), Theta>.

Over one ball the minimum is <v, Theta_hat> - sqrt(zeta) ||v||_F; over the common part of two balls
it is the largest sum of such terms over all v = v_1 + v_2. Either way this is a second-order cone
program over the plans of :class:`linsys.preference.mdp.DecisionTree`.

Nothing the solver says is believed. For any policy and any Theta in R, the worst value of the
policy is at most the optimum, and the best value against Theta is at least the optimum. Both are
computed apart from the solver, one in closed form and one by dynamic programming, and their
difference is the ``gap``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from linsys.preference.confidence import ConfidenceSet
from linsys.preference.mdp import DecisionTree
from linsys.validate import Array, InputError, distributions, real_array

__all__ = ["Pessimistic", "pessimistic_policy", "worst_value"]

#: Sequences of a tree that the cone program takes: seconds, or a minute if psi is large.
_MOST_TRAJECTORIES = 50_000
#: The precision that the solver is asked for, relative and absolute.
_PRECISION = 1e-10
#: Probabilities of a plan up to this are the solver's noise.
_NOISE = 1e-8


class Pessimistic(NamedTuple):
    """A policy, what it earns in the worst case, and the proof that no policy earns more.

    Attributes:
        policy: pi (I, A), see :class:`DecisionTree`.
        plan: its realisation plan (I, A).
        value: min over the set of J(policy) - E_ref: what (3.5) maximises, exact for this policy.
        worst: a Theta (d1, d2) of the set that attains ``value``.
        saddle: a Theta of the set against which no policy has more than ``upper``.
        upper: max over all policies of J - E_ref under ``saddle``; the optimum of (3.5) is between
            ``value`` and this.
    """

    policy: Array
    plan: Array
    value: float
    worst: Array
    saddle: Array
    upper: float

    @property
    def gap(self) -> float:
        """upper - value: by how much the policy may fall short of the best one; rounding if 0."""
        return self.upper - self.value


def worst_value(
    tree: DecisionTree, psi: ArrayLike, plan: ArrayLike, R: ConfidenceSet, reference: ArrayLike
) -> tuple[float, Array]:
    """min over Theta in R of J(plan; Theta) - E_ref, and the Theta that attains it.

    >>> tree = DecisionTree(np.ones((1, 2, 1)), mu=[1.0], H=1)
    >>> R = ConfidenceSet([[1.0]], zeta=0.25)
    >>> value, Theta = worst_value(tree, [[[1.0]], [[0.0]]], [[1.0, 0.0]], R, [0.5, 0.5])
    >>> value, Theta.tolist()
    (0.25, [[0.5]])
    """
    psi, reference = _checked(tree, psi, R, reference)
    v = np.tensordot(tree.probabilities(plan) - reference, psi, axes=1)
    Theta = R.worst(v)
    return float((v * Theta).sum()), Theta


def pessimistic_policy(
    tree: DecisionTree, psi: ArrayLike, R: ConfidenceSet, reference: ArrayLike
) -> Pessimistic:
    """The policy of (3.5) for one user with linear rewards <Theta, psi(tau)>_F.

    Args:
        tree: the decision process.
        psi: features of its trajectories, shape (T, d1, d2).
        R: the confidence set; with zeta = 0 the answer is the best policy under Theta_hat.
        reference: law of the reference policy's trajectory, shape (T,); any distribution.

    Raises:
        InputError: shapes that do not fit, a tree too large for the program.

    >>> tree = DecisionTree(np.ones((1, 3, 1)), mu=[1.0], H=1)  # three arms
    >>> psi = np.array([[[1.0], [0.0]], [[0.8], [0.1]], [[0.0], [0.0]]])
    >>> sure, unsure = (ConfidenceSet([[1.0], [0.0]], zeta) for zeta in (0.0, 4.0))
    >>> reference = [0.0, 0.0, 1.0]
    >>> pessimistic_policy(tree, psi, sure, reference).policy
    array([[1., 0., 0.]])
    >>> pessimistic_policy(tree, psi, unsure, reference).policy.round(6)
    array([[0., 0., 1.]])
    """
    psi, reference = _checked(tree, psi, R, reference)
    thetas = [R.inside]
    if len(R.balls) == 1 and R.balls[0][1] == 0.0:  # a single reward
        plan = tree.best(np.tensordot(psi, R.inside))
    else:
        x, dual = _solve(tree, psi, R, np.tensordot(reference, psi, axes=1))
        plan = tree.plan(tree.policy(np.maximum(x, 0.0), below=_NOISE))
        thetas.append(R.pulled(dual))
    value, worst = worst_value(tree, psi, plan, R, reference)
    thetas.append(worst)
    rewards = [np.tensordot(psi, Theta) for Theta in thetas]
    uppers = [tree.J(tree.best(r), r) - float(reference @ r) for r in rewards]
    best = int(np.argmin(uppers))
    return Pessimistic(tree.policy(plan), plan, value, worst, thetas[best], uppers[best])


def _solve(tree: DecisionTree, psi: Array, R: ConfidenceSet, v_ref: Array) -> tuple[Array, Array]:
    """Plan (I, A) and multiplier (d1, d2), the Theta of the saddle point; both up to precision."""
    count = tree.I * tree.A
    if count > _MOST_TRAJECTORIES:
        raise InputError(f"`tree` must have at most {_MOST_TRAJECTORIES} sequences; found {count}")
    # the solver's precision is absolute: rewards and features of length about one
    size = max(float(np.linalg.norm(centre)) + radius for centre, radius in R.balls)
    length = float(np.abs(psi).max()) or 1.0
    # Unknown are the plan, a part v_b for every ball and a bound t_b of its length, in this order.
    # A modelling language would take longer to write that down than the solver takes.
    from scipy.sparse import csc_array

    solver: Any = import_module("clarabel")  # which comes with cvxpy; only this function needs it
    E, e = tree.constraints
    balls, m = len(R.balls), v_ref.size
    M = (tree.chance[:, None] * psi.reshape(tree.T, -1) / length).T
    parts, ahead = np.concatenate([-c.ravel() / size for c, _ in R.balls]), count + balls * m
    cost = np.concatenate([np.zeros(count), parts, [radius / size for _, radius in R.balls]])
    plan, (at, leaf), each = E.tocoo(), np.nonzero(M), np.arange(m)
    # every unknown is bounded below: the plan by 0, and (t_b, v_b) by the cone
    bounded = [np.arange(count)]
    for b in range(balls):
        bounded += [np.array([ahead + b]), count + b * m + each]
    entries = [
        (plan.row, plan.col, plan.data),
        (tree.I + at, count - tree.T + leaf, -M[at, leaf]),
        (np.tile(tree.I + each, balls), count + np.arange(balls * m), np.ones(balls * m)),
        (tree.I + m + np.arange(len(cost)), np.concatenate(bounded), np.full(len(cost), -1.0)),
    ]
    row, column, value = map(np.concatenate, zip(*entries, strict=True))
    right = np.concatenate([e, -v_ref.ravel() / length, np.zeros(count + balls * (m + 1))])
    cones = [
        solver.ZeroConeT(tree.I + m),
        solver.NonnegativeConeT(count),
        *[solver.SecondOrderConeT(m + 1)] * balls,
    ]
    settings = solver.DefaultSettings()
    settings.verbose = False
    for name in ("tol_gap_abs", "tol_gap_rel", "tol_feas"):
        setattr(settings, name, _PRECISION)
    linear = csc_array((len(cost), len(cost)))
    left = csc_array((value, (row, column)), shape=(len(right), len(cost)))
    found = solver.DefaultSolver(linear, cost, left, right, cones, settings).solve()
    x, dual = np.array(found.x)[:count], np.array(found.z)[tree.I : tree.I + m]
    if not (np.isfinite(x).all() and np.isfinite(dual).all()):
        raise InputError(f"the cone program must have a solution; found {found.status}")
    # of precision the solver says nothing here: the gap says how good the answer is
    return x.reshape(tree.I, tree.A), size * dual.reshape(v_ref.shape)


def _checked(
    tree: DecisionTree, psi: ArrayLike, R: ConfidenceSet, reference: ArrayLike
) -> tuple[Array, Array]:
    for name, value, wanted in (("tree", tree, DecisionTree), ("R", R, ConfidenceSet)):
        if not isinstance(value, wanted):
            raise InputError(f"`{name}` must be a {wanted.__name__}; found {type(value).__name__}")
    psi = real_array("psi", psi, (tree.T, *R.Theta_hat.shape))
    return psi, distributions("reference", real_array("reference", reference, (tree.T,))[None])[0]

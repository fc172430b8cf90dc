"""The moments of AffPCL's directions against enumeration of all joint samples."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from experiments.affpcl.theory import directions as go
from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import precise, precision

#: Sums of at most 27 joint samples times ten terms.
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def random_stack(seed, B=4, n=3, S=3, d=2):
    """Systems without any assumption (moments need none), with iterates x, x_c, theta_c."""
    rng = np.random.default_rng(seed)
    return FiniteStack(
        mu=rng.dirichlet(np.ones(S), size=(B, n)),
        A=rng.standard_normal((B, S, d, d)),
        Phi=rng.standard_normal((B, S, d, d)),
        theta=rng.standard_normal((B, n, d)),
        x=rng.standard_normal((B, n, d)),
        x_c=rng.standard_normal((B, d)),
        theta_c=rng.standard_normal((B, d)),
        ratio=rng.random((B, n, S)),
    )


def joint_samples(mu):
    """Every joint sample (s^1, .., s^n) of one system with its probability."""
    n, S = mu.shape
    for states in itertools.product(range(S), repeat=n):
        yield states, float(np.prod([mu[j, s] for j, s in enumerate(states)]))


def h(stack, k, s):
    return stack.A[k, s] @ stack.x_c[k] - stack.Phi[k, s] @ stack.theta_c[k]


def g(stack, k, i, s, x):
    return stack.A[k, s] @ x - stack.Phi[k, s] @ stack.theta[k, i]


# One direction at one joint sample, written down as the paper does.
SAMPLED = {
    "averaged": lambda t, k, i, s: sum(g(t, k, j, s[j], t.x_c[k]) for j in range(t.n)) / t.n,
    "objective": lambda t, k, i, s: (
        sum(t.Phi[k, s[j]] @ (t.theta_c[k] - t.theta[k, j]) for j in range(t.n)) / t.n
    ),
    "importance": lambda t, k, i, s: (
        sum(t.mu[k, i, s[j]] / t.mu[k, :, s[j]].mean() * h(t, k, s[j]) for j in range(t.n)) / t.n
    ),
    "personal": lambda t, k, i, s: (
        g(t, k, i, s[i], t.x[k, i]) + SAMPLED["importance"](t, k, i, s) - h(t, k, s[i])
    ),
    "estimated": lambda t, k, i, s: (
        g(t, k, i, s[i], t.x[k, i])
        + sum(t.ratio[k, i, s[j]] * h(t, k, s[j]) for j in range(t.n)) / t.n
        - h(t, k, s[i])
    ),
    "bias": lambda t, k, i, s: (
        g(t, k, i, s[i], t.x[k, i])
        + SAMPLED["averaged"](t, k, i, s)
        - sum(g(t, k, j, s[i], t.x_c[k]) for j in range(t.n)) / t.n
    ),
    "own": lambda t, k, i, s: g(t, k, i, s[i], t.x[k, i]),
}


def parts(stack, name):
    """The same direction as parts, with one direction for every agent."""
    central = go.central_residual(stack, stack.x_c, stack.theta_c)
    table = {
        "averaged": lambda: go.averaged(go.local_residual(stack, stack.x_c)),
        "objective": lambda: go.averaged(go.objective_residual(stack, stack.theta_c)),
        "importance": lambda: go.importance_corrected(stack, central),
        "personal": lambda: go.personal(stack, stack.x, stack.x_c, stack.theta_c),
        "estimated": lambda: go.personal(stack, stack.x, stack.x_c, stack.theta_c, stack.ratio),
        "bias": lambda: go.bias_corrected(stack, stack.x, stack.x_c),
        "own": lambda: go.own(go.local_residual(stack, stack.x)),
    }[name]()
    if table.ndim == 4:
        table = np.repeat(table[:, None], stack.n, axis=1)
    return table


def enumerated(stack, name, other=None):
    """E Y (B, n, d) and E<Y, Z> (B, n) over all joint samples; Z is Y unless ``other`` is given."""
    B, n, d = stack.mu.shape[0], stack.n, stack.d
    first, second = np.zeros((B, n, d)), np.zeros((B, n))
    for k, i in np.ndindex(B, n):
        for states, p in joint_samples(stack.mu[k]):
            y = SAMPLED[name](stack, k, i, states)
            first[k, i] += p * y
            second[k, i] += p * (y @ SAMPLED[other or name](stack, k, i, states))
    return first, second


@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("sizes", [(3, 3, 2), (2, 3, 1), (1, 2, 2)])
def test_moments_of_a_direction(name, sizes):
    n, S, d = sizes
    stack = random_stack(len(name), n=n, S=S, d=d)
    first, second = enumerated(stack, name)
    np.testing.assert_allclose(go.mean(stack, parts(stack, name)), first, **CLOSE)
    np.testing.assert_allclose(go.second_moment(stack, parts(stack, name)), second, **CLOSE)
    spread = second - (first**2).sum(axis=-1)
    np.testing.assert_allclose(go.variance(stack, parts(stack, name)), spread, **CLOSE)


def test_covariance_of_two_directions():
    stack = random_stack(7)
    first, cross = enumerated(stack, "personal", "importance")
    other, _ = enumerated(stack, "importance")
    measured = go.covariance(stack, parts(stack, "personal"), parts(stack, "importance"))
    np.testing.assert_allclose(measured, cross - (first * other).sum(axis=-1), **CLOSE)


def test_own_sample_enters_twice():
    # Were the two terms of agent i's own sample independent, the variance would be another one.
    stack = random_stack(8)
    central = go.central_residual(stack, stack.x_c, stack.theta_c)
    separate = go.variance(stack, go.importance_corrected(stack, central)) + go.variance(
        stack, go.own(go.local_residual(stack, stack.x) - central[:, None])
    )
    joint = go.variance(stack, parts(stack, "personal"))
    assert (np.abs(separate - joint) > 1e-3 * joint).all()


def test_high_precision_gives_the_same():
    stack = random_stack(9, B=2, n=2, S=2)
    with precision(30):
        exact = FiniteStack(**{name: precise(value) for name, value in vars(stack).items()})
        measured = go.second_moment(exact, parts(exact, "personal"))
    wanted = go.second_moment(stack, parts(stack, "personal"))
    np.testing.assert_allclose(measured.astype(float), wanted, rtol=1e-13)

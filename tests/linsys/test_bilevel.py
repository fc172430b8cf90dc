from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from linsys import InputError
from linsys.bilevel import (
    Domain,
    DomainOracle,
    ExponentialPolicy,
    LinearReward,
    TanhReward,
    bradley_terry,
    meta_distribution,
    sampled_preferences,
)
from tests.linsys._asserts import assert_equal_numbers
from tests.linsys._bilevel import inner_loss, outer_loss

#: A bound may be missed by the rounding of its own evaluation.
SLACK = 1e-12


def random_policy(rng: np.random.Generator, X: int = 3, Y: int = 4, p: int = 3) -> Any:
    return ExponentialPolicy(rng.standard_normal((X, Y, p)), rng.standard_normal((X, Y)))


def in_ball(rng: np.random.Generator, size: int, R: float) -> np.ndarray:
    direction = rng.standard_normal(size)
    return R * rng.random() ** (1 / size) * direction / np.linalg.norm(direction)


def policy_usage(policy: ExponentialPolicy, R: float, rng: np.random.Generator) -> np.ndarray:
    """The largest M, L, rho, C and the smallest mu that 300 points of the ball need."""
    used = np.array([0.0, 0.0, 0.0, 0.0, np.inf])
    for _ in range(300):
        theta, other = in_ball(rng, policy.p, R), in_ball(rng, policy.p, R)
        gap, covariance = np.linalg.norm(theta - other), policy.covariance(theta)
        turn = np.linalg.norm(policy.covariance(other) - covariance, 2, axis=(1, 2)) / gap
        eigenvalues = np.linalg.eigvalsh(covariance)
        messages = [
            np.abs(policy.log_prob(theta) - policy.log_prob(other)).max() / gap,
            np.linalg.norm(policy.score(theta) - policy.score(other), axis=-1).max() / gap,
            turn.max(),
            -policy.log_prob(theta).min(),
        ]
        used[:4] = np.maximum(used[:4], messages)
        used[4] = min(used[4], eigenvalues.min())
    return used


@pytest.mark.slow
@pytest.mark.parametrize("R", [0.1, 1.0, 4.0])
def test_no_point_of_the_ball_needs_larger_constants_of_the_policy(R):
    rng = np.random.default_rng(1)
    for _ in range(5):
        policy = random_policy(rng)
        stated, used = np.array(policy.constants(R)), policy_usage(policy, R, rng)
        assert (used[:4] <= stated[:4] * (1 + SLACK)).all()
        assert stated[4] <= used[4] * (1 + SLACK)


def attained(R: float = 3.0) -> tuple[ExponentialPolicy, dict[str, Any]]:
    """Two answers a unit apart and where each constant is attained."""
    policy = ExponentialPolicy([[[0.0], [1.0]]], [[0.0, 0.0]])
    bend = np.log((3 + np.sqrt(3)) / (3 - np.sqrt(3)))  # probabilities (3 +- sqrt 3) / 6
    at = np.array([-R])
    return policy, {
        "M": np.abs(policy.score(at)).max(),
        "L": policy.covariance(np.zeros(1)).max(),
        "rho": abs(np.diff([policy.covariance(np.array([bend + e])).item() for e in (-1e-4, 1e-4)]))
        / 2e-4,
        "C": -policy.log_prob(at).min(),
    }


@pytest.mark.parametrize("name", ["M", "L", "rho", "C"])
def test_two_answers_attain_every_constant_so_that_half_of_it_would_fail(name):
    policy, constants = attained()
    stated = getattr(policy.constants(3.0), name)
    # a difference of step 1e-4 is off by the fourth cumulant's slope times 1e-8
    assert abs(constants[name] / stated - 1) < 1e-7
    assert constants[name] > stated / 2


def test_on_a_huge_ball_the_curvature_is_zero_and_not_nan():
    policy = ExponentialPolicy([[[0.0], [1.0]]], [[0.0, 0.0]])
    assert 0 < policy.constants(R=700.0).mu < 1e-300
    assert policy.constants(R=1e5).mu == 0.0


def test_mu_is_exact_at_the_centre_and_twice_it_fails():
    policy = random_policy(np.random.default_rng(3))
    smallest = np.linalg.eigvalsh(policy.covariance(np.zeros(3))).min()
    assert abs(policy.constants(0.0).mu / smallest - 1) < 1e-9
    assert 2 * policy.constants(0.0).mu > smallest


def test_the_diameter_is_the_smallest_M_of_the_whole_space():
    policy = random_policy(np.random.default_rng(2))
    x = int(policy.diameters.argmax())
    gaps = np.linalg.norm(policy.psi[x][:, None] - policy.psi[x], axis=-1)
    y, farthest = np.unravel_index(gaps.argmax(), gaps.shape)
    theta = 200.0 * (policy.psi[x, farthest] - policy.psi[x, y])
    assert abs(np.linalg.norm(policy.score(theta)[x, y]) / policy.diameters[x] - 1) < 1e-9


@pytest.mark.parametrize("R", [0.0, 0.5, 3.0])
def test_a_mean_of_covariances_is_curved_where_each_is_singular(R):
    rng = np.random.default_rng(4)
    policy, weights = random_policy(rng, X=4, Y=2, p=3), np.full(4, 0.25)
    assert policy.constants(R).mu < 1e-12
    stated = policy.curvature(R, weights)
    assert stated > 0
    for _ in range(100):
        mean = np.tensordot(weights, policy.covariance(in_ball(rng, 3, R)), axes=1)
        assert stated <= np.linalg.eigvalsh(mean).min() * (1 + 1e-9)


def rewards(rng: np.random.Generator) -> list[Any]:
    xi = rng.standard_normal((3, 4, 2))
    return [LinearReward(xi), TanhReward(xi, s=0.7)]


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("R", [0.3, 2.0])
def test_constants_of_rewards_hold_and_are_attained(kind, R):
    rng = np.random.default_rng(5)
    reward = rewards(rng)[kind]
    T, P, b, B = reward.constants(R)
    longest = reward.xi.reshape(-1, 2)[np.linalg.norm(reward.xi, axis=-1).argmax()]
    along = longest / np.linalg.norm(longest)
    points = [s * along for s in np.linspace(-R, R, 4001)]
    points += [in_ball(rng, 2, R) for _ in range(300)]
    gradients = np.array([reward.gradient(phi) for phi in points])
    values = np.array([np.exp(reward.value(phi)) for phi in points])
    moves = np.linalg.norm(np.diff(gradients[:4001], axis=0), axis=-1) / (2 * R / 4000)
    extremes = [np.linalg.norm(gradients, axis=-1).max(), moves.max(), values.min(), values.max()]
    # slopes between neighbours of a grid of 4000 miss the steepest one by a relative 1e-6 at most
    np.testing.assert_allclose(extremes, [T, P, b, B], rtol=1e-5, atol=1e-9)
    assert extremes[0] <= T * (1 + SLACK)
    assert extremes[1] <= P * (1 + SLACK) + 1e-9  # rounding of differences by their step of 1e-4
    assert b * (1 - SLACK) <= extremes[2]
    assert extremes[3] <= B * (1 + SLACK)


def test_weights_lie_between_powers_of_b_and_B_and_not_below_exp_beta():
    reward, beta = rewards(np.random.default_rng(5))[0], 4.0
    constants = reward.constants(1.0)
    weights = np.exp(reward.value(np.zeros(2)) / beta)
    assert (weights >= constants.b ** (1 / beta)).all()
    assert (weights <= constants.B ** (1 / beta)).all()
    tiny = LinearReward(0.01 * reward.xi).constants(1.0)
    assert (weights > tiny.B / np.exp(beta)).all()  # the range that the paper prints


DOMAINS = {
    kind: meta_distribution(3, reward=kind, prompts=3, answers=4, p=3, q=2, longest=9).train[1]
    for kind in ("linear", "tanh")
}
SAMPLES = {
    "exact": (None, None),
    "one": (([1], [2]), ([0], [3], [1])),
    "some": (([1, 0, 1], [2, 2, 3]), ([0, 2], [3, 0], [1, 2])),
}


@pytest.mark.parametrize("kind", ["linear", "tanh"])
@pytest.mark.parametrize("sample", list(SAMPLES))
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_the_oracle_is_automatic_differentiation(kind, sample, library):
    domain, rng = DOMAINS[kind], np.random.default_rng(6)
    oracle = DomainOracle(domain=domain, beta=0.7)
    inner, outer = (
        None if z is None else tuple(np.array(part) for part in z) for z in SAMPLES[sample]
    )
    phi, theta = (torch.tensor(rng.standard_normal(n)).requires_grad_() for n in (2, 3))
    v = torch.tensor(rng.standard_normal((2, 3)))
    loss, outer_value = inner_loss(domain, 0.7, phi, theta, inner), outer_loss(domain, theta, outer)
    [by_theta] = torch.autograd.grad(loss, theta, create_graph=True)
    expected = [loss, by_theta]
    for of in (theta, phi):
        rows = [torch.autograd.grad(by_theta @ row, of, retain_graph=True)[0] for row in v]
        expected.append(torch.stack(rows))
    expected += [outer_value, torch.zeros(2), torch.autograd.grad(outer_value, theta)[0]]

    to = (lambda a: a.detach().numpy()) if library == "numpy" else (lambda a: a.detach())
    at = (to(phi), to(theta), inner)
    gradients = [
        oracle.inner_loss(*at),
        oracle.inner_grad(*at),
        oracle.inner_hvp(*at, to(v)),
        oracle.mixed_vjp(*at, to(v)),
        oracle.outer_loss(to(theta), outer),
        *oracle.outer_grads(to(phi), to(theta), outer),
    ]
    for result, true in zip(gradients, expected, strict=True):
        assert_equal_numbers(result, true.detach().numpy(), "oracle")
    rows = [oracle.inner_hvp(*at, row) for row in to(torch.eye(3, dtype=torch.float64))]
    assert_equal_numbers(oracle.inner_hessian(*at), np.array([np.asarray(r) for r in rows]), "rows")
    assert_equal_numbers(-by_theta.detach(), -np.asarray(gradients[1]), "sign")
    with pytest.raises(AssertionError, match="flipped"):
        assert_equal_numbers(-np.asarray(gradients[1]), by_theta.detach().numpy(), "flipped")


@pytest.mark.parametrize("draw", ["inner", "outer"])
def test_the_mean_over_all_samples_is_the_expectation(draw):
    domain, rng = DOMAINS["tanh"], np.random.default_rng(7)
    oracle, phi, theta = DomainOracle(domain=domain, beta=0.7), *map(rng.standard_normal, (2, 3))
    if draw == "inner":
        each = [
            domain.law[x, y] * oracle.inner_grad(phi, theta, (np.array([x]), np.array([y])))
            for x, y in np.ndindex(domain.law.shape)
        ]
        exact = oracle.inner_grad(phi, theta, None)
    else:
        each = [
            w * oracle.outer_grads(phi, theta, tuple(np.array([i]) for i in z))[1]
            for *z, w in zip(*domain.pairs, strict=True)
        ]
        exact = oracle.outer_grads(phi, theta, None)[1]
    assert_equal_numbers(np.sum(each, axis=0), exact, draw)


def test_samples_have_the_distribution_they_are_drawn_from():
    domain, size = DOMAINS["linear"], 40_000
    x, y = domain.draw_inner(seed=1, k=2, t=3, size=size)
    counts = np.zeros(domain.law.shape)
    np.add.at(counts, (x, y), 1)
    # six standard deviations of a share; twelve shares: a failure probability below 1e-7
    assert (np.abs(counts / size - domain.law) <= 6 * np.sqrt(domain.law / size)).all()
    swapped = domain.law[::-1]
    assert not (np.abs(counts / size - swapped) <= 6 * np.sqrt(swapped / size)).all()
    drawn = domain.draw_outer(seed=1, k=2, size=size)
    shares = {
        z: w
        for *z, w in zip(*(part.tolist() for part in domain.pairs), strict=True)
        for z in [tuple(z)]
    }
    outcomes, number = np.unique(np.stack(drawn), axis=1, return_counts=True)
    for z, n in zip(outcomes.T.tolist(), number, strict=True):
        share = shares[tuple(z)]
        assert abs(n / size - share) <= 6 * np.sqrt(share / size) + 1 / size


def test_a_draw_depends_on_seed_round_and_step_alone():
    domain = DOMAINS["linear"]
    for size in (1, 4, 6):
        x, y = domain.draws_inner(seed=5, k=1, t=0, steps=7, size=size)
        for t in (6, 2, 0):
            again = domain.draw_inner(seed=5, k=1, t=t, size=size)
            assert (again[0] == x[t]).all()
            assert (again[1] == y[t]).all()
    first = [
        domain.draw_inner(s, k, t, 50) for s, k, t in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    ]
    assert len({tuple(np.concatenate(z).tolist()) for z in first}) == 4


def test_an_answer_of_weight_zero_is_never_drawn():
    mu_hat = np.array([[0.0, 0.5, 0.0, 0.5, 0.0]])
    policy = ExponentialPolicy(np.zeros((1, 5, 1)), np.zeros((1, 5)))
    domain = Domain(
        name="holes",
        policy=policy,
        reward=LinearReward(np.zeros((1, 5, 1))),
        prompts=[1.0],
        mu_hat=mu_hat,
    )
    assert set(domain.draw_inner(0, 0, 0, 500)[1].tolist()) == {1, 3}


def test_preferences_are_bradley_terry_on_the_true_reward():
    domain = DOMAINS["linear"]
    x, y, y_other, w = domain.pairs
    assert_equal_numbers(w.sum(), 1.0, "total")
    both = {
        z: weight
        for *z, weight in zip(x.tolist(), y.tolist(), y_other.tolist(), w, strict=True)
        for z in [tuple(z)]
    }
    r = domain.true_reward
    for (a, b, c), weight in both.items():
        odds = weight / both[a, c, b]
        assert abs(np.log(odds) - (r[a, b] - r[a, c])) < 1e-9
    prompts = np.bincount(x, weights=w)
    assert_equal_numbers(prompts, domain.prompts, "prompts")


def test_sampled_preferences_have_equal_weights_and_come_from_the_population():
    pairs = DOMAINS["linear"].pairs
    drawn = sampled_preferences(pairs, size=30, seed=4)
    assert drawn.weights.tolist() == [1 / 30] * 30
    population = set(zip(*(part.tolist() for part in pairs[:3]), strict=True))
    assert set(zip(*(part.tolist() for part in drawn[:3]), strict=True)) <= population


def test_without_shift_and_own_rewards_all_domains_are_one():
    same = meta_distribution(1, shift=0.0, specific=0.0)
    first = same.train[0]
    for domain in same.train + same.held_out:
        for name in ("prompts", "mu_hat", "truth"):
            assert_equal_numbers(getattr(domain, name), getattr(first, name), name)
    other = meta_distribution(1, shift=0.5, specific=0.0)
    assert np.abs(other.train[1].mu_hat - other.train[0].mu_hat).max() > 0.01


def test_without_own_rewards_the_shared_one_is_right_everywhere():
    shared = meta_distribution(1, specific=0.0)
    for domain in shared.held_out:
        assert_equal_numbers(domain.reward.value(shared.phi), domain.true_reward, "truth")
    mixed = meta_distribution(1, specific=0.5)
    assert np.abs(mixed.train[0].reward.value(mixed.phi) - mixed.train[0].true_reward).max() > 0.1


def test_a_domain_does_not_depend_on_how_many_there_are():
    few, many = meta_distribution(2, train=1, held_out=1), meta_distribution(2, train=2, held_out=3)
    assert_equal_numbers(few.held_out[0].mu_hat, many.train[1].mu_hat, "second domain")


@pytest.mark.parametrize("rare", [0.3, 1e-6, 1e-13, 1e-15])
def test_pairs_keep_the_weights_of_prompts_however_rare_the_other_answer_is(rare: float) -> None:
    mu_hat = [[1.0 - rare, rare, 0.0], [0.2, 0.5, 0.3]]
    pairs = bradley_terry([0.25, 0.75], mu_hat, [[0.0, 1.0, 2.0], [1.0, 0.0, -1.0]])
    of_prompts = np.bincount(pairs.x, weights=pairs.weights)
    np.testing.assert_allclose(of_prompts, [0.25, 0.75], rtol=1e-14)


def domain_with(**changes: Any) -> Domain:
    parts: dict[str, Any] = {
        "name": "books",
        "policy": ExponentialPolicy([[[0.0], [1.0]]], [[0.0, 0.0]]),
        "reward": LinearReward([[[1.0], [0.0]]]),
        "prompts": [1.0],
        "mu_hat": [[0.5, 0.5]],
        "preferences": ([0], [1], [0], [1.0]),
    }
    return Domain(**{**parts, **changes})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: domain_with(prompts=[0.9]), "`prompts` must sum to 1; found 0.9"),
        (lambda: domain_with(mu_hat=[[0.6, 0.5]]), "`mu_hat` must sum to 1; found 1.1"),
        (lambda: domain_with(mu_hat=[[0.5, np.nan]]), "`mu_hat` must be finite; found nan"),
        (lambda: domain_with(mu_hat=[[0.5, 0.25, 0.25]]), r"`mu_hat` must have shape \(1, 2\)"),
        (lambda: domain_with(reward=LinearReward([[[1.0]]])), "`reward` must be about 1 prompts"),
        (lambda: domain_with(preferences=([], [], [], [])), "domain `books` must have preference"),
        (lambda: domain_with(preferences=([0], [1], [1], [1.0])), "two different answers; found"),
        (lambda: domain_with(preferences=([0], [2], [0], [1.0])), "between 0 and 1; found 2"),
        (lambda: domain_with(preferences=([0], [1], [0], [0.5])), "must sum to 1; found 0.5"),
        (lambda: domain_with(preferences=([0], [1.5], [0], [1.0])), "must be 1 whole numbers"),
        (lambda: domain_with(preferences=([0], [1])), "`preferences` must be"),
        (lambda: domain_with(preferences=3), "`preferences` must be x, y, y_other .*found 3"),
        (lambda: ExponentialPolicy([[[0.0]]], [[0.0]], [[1], [1, 2]]), "`lengths` must be a rect"),
        (lambda: domain_with(preferences=None).pairs, "domain `books` must have preference pairs"),
        (lambda: domain_with().true_reward, "domain `books` must know the true reward"),
        (lambda: DomainOracle(domain=domain_with(), beta=0.0), r"`beta` must be .*found 0"),
        (lambda: DomainOracle(domain=domain_with(), beta=-1.0), r"`beta` must be .*found -1"),
        (lambda: DomainOracle(domain=domain_with(), beta=np.nan), r"`beta` must be .*found nan"),
        (lambda: DomainOracle(domain=domain_with(), beta=1.0, inner_batch=0), "`inner_batch` must"),
        (
            lambda: DomainOracle(domain=domain_with(), beta=1e-9).stable_step(np.ones(1)),
            r"`beta` must keep exp\(r / beta\) in the range",
        ),
        (
            lambda: DomainOracle(domain=domain_with(), beta=1).inner_grad(
                np.ones(1), np.ones(2), None
            ),
            r"`theta` must have shape \(1,\); found \(2,\)",
        ),
        (
            lambda: DomainOracle(domain=domain_with(), beta=1).outer_loss(np.ones(1, dtype=int)),
            "`theta` must hold floating-point numbers; found dtype int64",
        ),
        (
            lambda: DomainOracle(domain=domain_with(), beta=1).outer_loss([1.0]),
            r"`theta` must be an array of shape \(1,\); found \[1.0\]",
        ),
        (
            lambda: DomainOracle(domain=domain_with(), beta=1).inner_grad(
                np.ones(1), torch.ones(1), None
            ),
            "`phi` and `theta` must be arrays of one library; found ndarray and Tensor",
        ),
        (lambda: ExponentialPolicy([[[0.0]]], [[np.inf]]), "`log_h` must be finite; found inf"),
        (lambda: ExponentialPolicy([[[0.0]]], [[0.0]], [[0.0]]), "`lengths` must be positive"),
        (lambda: ExponentialPolicy([[0.0]], [[0.0]]), r"`psi` must have shape \(X, Y, p\)"),
        (lambda: domain_with().policy.constants(-1.0), "`R` must be a number"),
        (lambda: domain_with().reward.constants(1e4), "`R` must keep exp"),
        (lambda: TanhReward([[[1.0]]], s=0.0), "`s` must be a number"),
        (lambda: bradley_terry([1.0], [[1.0, 0.0]], [[0.0, 0.0]]), "two answers to every prompt"),
        (lambda: meta_distribution(0, answers=1), "`answers` must be a whole number of at least 2"),
        (lambda: meta_distribution(0, shift=1.5), "`shift` must be a number"),
        (lambda: meta_distribution(0, reward="cubic"), "`reward` must be one of linear, tanh"),
    ],
)
def test_bad_input_is_one_clear_line(call, message):
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from linsys import InputError
from linsys.bilevel import (
    Domain,
    DomainOracle,
    MetaTraining,
    Preferences,
    Start,
    TanhReward,
    answer_law,
    dpo,
    expected_reward,
    hpl,
    implicit,
    meta_distribution,
    meta_loss,
    meta_test,
    optimum,
    pl_accuracy,
    policy_gradient,
    policy_kl,
    ppo,
    reward_mle,
    rlhf,
    sft,
    target,
    win_rate,
)
from linsys.bilevel.reinforcement import clipped_gradient
from tests.linsys._asserts import assert_equal_numbers
from tests.linsys._bilevel import log_policy, outer_loss, reward_value, tensor, unrolled_loss

DOMAINS = meta_distribution(3, prompts=3, answers=4, p=3, q=2, longest=9)
CURVED = meta_distribution(3, prompts=3, answers=4, p=3, q=2, reward="tanh")
THETA = np.array([0.4, -0.3, 0.2])


def loop_over_answers(domain: Domain, theta: Any) -> Any:
    """(probability, prompt, answer) one by one, from the definition of the policy."""
    for x, row in enumerate(domain.policy.psi):
        weights = [np.exp(h + f @ theta) for h, f in zip(domain.policy.log_h[x], row, strict=True)]
        for y, weight in enumerate(weights):
            yield weight / sum(weights), x, y


def test_pl_accuracy_counts_pairs_by_log_probability_per_length():
    domain = DOMAINS.train[0]
    pi = {(x, y): prob for prob, x, y in loop_over_answers(domain, THETA)}
    lengths = domain.policy.lengths
    counted = plain = 0.0
    for x, y, other, weight in zip(*domain.pairs, strict=True):
        by_length = np.log(pi[x, y]) / lengths[x, y] > np.log(pi[x, other]) / lengths[x, other]
        counted += weight * by_length
        plain += weight * (pi[x, y] > pi[x, other])
    assert_equal_numbers(pl_accuracy(domain, THETA), counted, "A_PL")
    assert_equal_numbers(pl_accuracy(domain, torch.tensor(THETA)), counted, "A_PL of torch")
    assert abs(counted - plain) > 1e-3  # lengths matter here


def test_at_equal_lengths_the_loss_bounds_the_share_of_wrong_pairs():
    domain, rng = CURVED.train[0], np.random.default_rng(0)
    oracle, ratios = DomainOracle(domain=domain, beta=1.0), []
    for scale in (0.0, 0.01, 1.0):
        for _ in range(50):
            theta = scale * rng.standard_normal(3)
            ratios.append((1 - pl_accuracy(domain, theta)) * np.log(2) / oracle.outer_loss(theta))
    assert max(ratios) <= 1
    # log 2 is the least cost of a wrong pair: with a policy that is indifferent it is attained
    even = replace(domain, policy=replace(domain.policy, log_h=np.zeros((3, 4))))
    loss = DomainOracle(domain=even, beta=1.0).outer_loss(np.zeros(3))
    assert abs((1 - pl_accuracy(even, np.zeros(3))) * np.log(2) / loss - 1) < 1e-12


@pytest.mark.parametrize("judge", ["bradley_terry", "better"])
@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_win_rate_and_reward_are_sums_over_all_outcomes(judge, temperature):
    domain = DOMAINS.held_out[0]
    pi = np.zeros((3, 4))
    for prob, x, y in loop_over_answers(domain, THETA):
        pi[x, y] = prob ** (1 / temperature)
    pi /= pi.sum(axis=1, keepdims=True)
    assert_equal_numbers(answer_law(domain, THETA, temperature), pi, "law")
    r, won = domain.true_reward, 0.0
    for x, reference, _, weight in zip(*domain.pairs, strict=True):
        for y in range(4):
            gap = r[x, y] - r[x, reference]
            win = 1 / (1 + np.exp(-gap)) if judge == "bradley_terry" else 0.5 * (np.sign(gap) + 1)
            won += weight * pi[x, y] * win
    assert_equal_numbers(win_rate(domain, THETA, temperature, judge), won, "win rate")
    joint = domain.prompts[:, None] * pi
    mean = (joint * r).sum()
    std = np.sqrt((joint * r**2).sum() - mean**2)
    assert_equal_numbers(expected_reward(domain, THETA, temperature), [mean, std], "reward", 1e-10)


def test_a_policy_of_the_preferred_answers_wins_half_of_the_time():
    domain = DOMAINS.train[0]
    pairs = Preferences(np.array([1]), np.array([2]), np.array([0]), np.array([1.0]))
    certain = replace(
        domain,
        preferences=pairs,
        policy=replace(
            domain.policy, log_h=np.where(np.arange(4) == 2, 0.0, -1e4) + np.zeros((3, 1))
        ),
    )
    for judge in ("bradley_terry", "better"):
        assert win_rate(certain, np.zeros(3), judge=judge) == 0.5


def test_the_tilted_distribution_maximises_reward_less_divergence():
    domain, beta, phi = DOMAINS.train[1], 0.8, np.array([0.7, -0.2])
    r = domain.reward.value(phi)

    def objective(policy: Any) -> float:
        """Equation (8)."""
        reward = float((domain.prompts[:, None] * policy * r).sum())
        return reward - beta * policy_kl(domain, policy, domain.mu_hat)

    best = target(domain, phi, beta)
    Z = (domain.mu_hat * np.exp(r / beta)).sum(axis=1)
    assert_equal_numbers(objective(best), beta * domain.prompts @ np.log(Z), "value")
    rng = np.random.default_rng(1)
    for scale in (1e-3, 0.1, 1.0):
        for _ in range(20):
            other = best * np.exp(scale * rng.standard_normal(best.shape))
            other /= other.sum(axis=1, keepdims=True)
            assert objective(other) < objective(best)


@pytest.mark.parametrize("beta", [1e-300, 1e-4, 1.0])
def test_the_tilted_distribution_gives_nothing_to_what_is_never_sampled(beta):
    domain, phi = DOMAINS.train[1], np.array([0.7, -0.2])
    r, rows = domain.reward.value(phi), np.arange(3)
    sampled = domain.mu_hat.copy()
    sampled[rows, r.argmax(axis=1)] = 0.0
    sampled /= sampled.sum(axis=1, keepdims=True)
    objective = target(replace(domain, mu_hat=sampled), phi, beta)
    np.testing.assert_allclose(objective.sum(axis=1), 1.0, rtol=1e-14)
    assert (objective[sampled == 0.0] == 0.0).all()
    second = np.where(sampled > 0.0, r, -np.inf).argmax(axis=1)
    if beta < 1.0:
        np.testing.assert_allclose(objective[rows, second], 1.0, rtol=1e-14)


def test_divergence_is_infinite_where_the_second_is_zero_and_refused():
    domain = DOMAINS.train[0]
    first, second = np.eye(4)[[0, 1, 2]], np.eye(4)[[0, 1, 3]]
    assert policy_kl(domain, first, np.full((3, 4), 0.25)) == pytest.approx(np.log(4), rel=1e-15)
    with pytest.raises(
        InputError, match=r"`q` must be positive where `p` is; found 0 at index \(2"
    ):
        policy_kl(domain, first, second)


@pytest.mark.parametrize("domains", [DOMAINS, CURVED])
def test_the_gradient_of_the_meta_loss_is_its_derivative(domains):
    oracles = [DomainOracle(domain=domain, beta=2.0) for domain in domains.train]
    phi, h = np.array([0.6, -0.4]), 1e-5
    loss = meta_loss(oracles, phi)
    for j, e in enumerate(h * np.eye(2)):
        up, down = meta_loss(oracles, phi + e).value, meta_loss(oracles, phi - e).value
        # h^2 of third derivatives and rounding 1e-16 / h
        assert abs(loss.gradient[j] - (up - down) / (2 * h)) < 1e-8
    with pytest.raises(AssertionError):
        assert_equal_numbers(-loss.gradient, loss.gradient, "sign")


def training(**options: Any) -> MetaTraining:
    given: dict[str, Any] = {"alpha": 0.1, "beta": 2.0, "D": 15, "eta": 0.3, "K": 6, "seed": 4}
    return MetaTraining(**{**given, **options})


def trained(algorithm: MetaTraining, domains: Any, phi_0: Any, theta_0: Any) -> list[Any]:
    """The states of a whole run."""
    oracles = algorithm.oracles(domains)
    return algorithm.run(algorithm.init(Start(phi_0, theta_0), oracles), oracles)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [None, 1, 3])
@pytest.mark.parametrize("every_task", [False, True])
def test_a_round_is_a_step_against_the_derivative_through_the_loop(batch, every_task):
    algorithm = training(inner_batch=batch, outer_batch=batch, every_task=every_task)
    oracles = algorithm.oracles(CURVED.train)
    state = algorithm.init(Start(np.array([0.3, 0.1]), THETA), oracles)
    state, _ = algorithm.round(state, oracles)
    after, report = algorithm.round(state, oracles)
    assert len(report.tasks) == (len(CURVED.train) if every_task else 1)
    gradients = []
    for task in report.tasks:
        oracle = oracles[task]
        samples = [oracle.draw_inner(state.t, t) for t in range(15)]
        phi = torch.tensor(state.phi, requires_grad=True)
        begin = torch.tensor(THETA, requires_grad=True)
        z = oracle.draw_outer(state.t)
        loss = unrolled_loss(oracle.domain, 2.0, phi, begin, 0.1, samples, z)
        gradients.append(torch.autograd.grad(loss, phi)[0].numpy())
    assert_equal_numbers(after.phi, state.phi - 0.3 * np.mean(gradients, axis=0), "phi")
    assert np.abs(after.phi - state.phi).max() > 1e-4


@pytest.mark.parametrize("way", ["adjoint", "unrolled", "first_order", "implicit"])
def test_torch_and_numpy_train_alike_in_every_way(way):
    algorithm = training(way=way, phi_radius=0.5, theta_radius=2.0)
    start = np.array([0.3, 0.1])
    plain = trained(algorithm, DOMAINS.train, start, THETA)
    other = trained(algorithm, DOMAINS.train, torch.tensor(start), torch.tensor(THETA))
    assert len(plain) == 7
    for a, b in zip(plain, other, strict=True):
        assert isinstance(b.phi, torch.Tensor)
        assert_equal_numbers(b.phi, a.phi, way, 1e-11)
    assert max(np.linalg.norm(state.phi) for state in plain) <= 0.5 * (1 + 1e-15)


def test_both_ways_of_the_same_derivative_train_alike_and_the_others_do_not():
    ends = {}
    for way in ("adjoint", "unrolled", "first_order", "implicit"):
        algorithm = training(way=way, inner_batch=None, outer_batch=None)
        ends[way] = trained(algorithm, DOMAINS.train, np.zeros(2), THETA)[-1].phi
    assert_equal_numbers(ends["unrolled"], ends["adjoint"], "phi")
    for way in ("first_order", "implicit"):
        assert np.abs(ends[way] - ends["adjoint"]).max() > 1e-3


def test_training_resumes_anywhere_and_depends_on_the_seed():
    algorithm = training()
    whole = trained(algorithm, DOMAINS.train, np.zeros(2), THETA)
    resumed = replace(algorithm, K=4).run(whole[2], algorithm.oracles(DOMAINS.train))
    assert (resumed[-1].phi == whole[-1].phi).all()
    other = replace(algorithm, seed=5)
    assert (trained(other, DOMAINS.train, np.zeros(2), THETA)[-1].phi != whole[-1].phi).all()


def test_tasks_are_drawn_evenly():
    algorithm = training()
    state = algorithm.init(Start(np.zeros(2), THETA), algorithm.oracles(DOMAINS.train))
    counts = np.zeros(4)
    for k in range(4000):
        [task] = algorithm.tasks(state._replace(t=k), 4)
        counts[task] += 1
    # six standard deviations of a share of one quarter
    assert (np.abs(counts / 4000 - 0.25) < 6 * np.sqrt(0.25 * 0.75 / 4000)).all()


@pytest.mark.slow
def test_exact_training_with_long_loops_reaches_a_stationary_point():
    algorithm = training(
        alpha=0.15, D=800, eta=2.0, K=300, inner_batch=None, outer_batch=None, every_task=True
    )
    oracles = algorithm.oracles(CURVED.train)
    states = trained(algorithm, CURVED.train, np.zeros(2), np.zeros(3))
    losses = [meta_loss(oracles, state.phi) for state in states[:: len(states) // 3]]
    assert all(a.value > b.value for a, b in pairwise(losses))
    sizes = [np.linalg.norm(loss.gradient) for loss in losses]
    assert sizes[-1] < 1e-3 * sizes[0]
    # short loops end where their own derivative vanishes, which is another point
    short = replace(algorithm, D=50)
    biased = meta_loss(oracles, short.run(states[0], oracles)[-1].phi)
    assert np.linalg.norm(biased.gradient) > 10 * sizes[-1]


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_meta_test_converges_to_the_optimum(library):
    oracle, to = DomainOracle(domain=DOMAINS.held_out[0], beta=2.0), np.asarray
    if library == "torch":
        to = torch.tensor
    phi = np.array([0.5, 0.1])
    adapted = meta_test(oracle, to(phi), to(THETA), alpha=0.2, tolerance=1e-12)
    assert adapted.gradient_norm <= 1e-12
    # ||theta - theta_*|| <= ||gradient|| / mu with mu of the mean loss around the optimum
    best = optimum(oracle, phi)
    mu = np.linalg.eigvalsh(oracle.inner_hessian(phi, best))[0]
    assert np.abs(np.asarray(adapted.theta) - best).max() <= 2 * 1e-12 / mu
    short = meta_test(oracle, to(phi), to(THETA), alpha=0.2, steps=130)
    assert short.steps == 130
    assert short.gradient_norm > 1e-12


def test_stochastic_meta_test_makes_all_its_steps():
    oracle = DomainOracle(domain=DOMAINS.held_out[0], beta=2.0, inner_batch=2)
    adapted = meta_test(oracle, np.zeros(2), THETA, alpha=0.01, steps=250)
    assert adapted.steps == 250
    before = np.linalg.norm(oracle.inner_grad(np.zeros(2), THETA, None))
    assert adapted.gradient_norm < before


def slope(loss: Any, at: Any) -> float:
    leaf = torch.tensor(at, requires_grad=True)
    return float(torch.autograd.grad(loss(leaf), leaf)[0].abs().max())


def mean_over(domains: Any, each: Any) -> Any:
    return sum(each(domain) for domain in domains) / len(domains)


def dpo_loss(domain: Domain, theta: Any, reference: Any, beta: float) -> Any:
    gain = beta * (log_policy(domain, theta) - log_policy(domain, tensor(reference)))
    x, y, other, w = domain.pairs
    return -(tensor(w) * torch.nn.functional.logsigmoid(gain[x, y] - gain[x, other])).sum()


def reward_loss(domain: Domain, phi: Any) -> Any:
    r = reward_value(domain, phi)
    x, y, other, w = domain.pairs
    return -(tensor(w) * torch.nn.functional.logsigmoid(r[x, y] - r[x, other])).sum()


def sft_loss(domain: Domain, theta: Any) -> Any:
    law = tensor(domain.prompts)[:, None] * tensor(domain.mu_hat)
    return -(law * log_policy(domain, theta)).sum()


REFERENCE = np.array([0.1, 0.2, -0.3])


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_convex_rivals_are_minima_of_their_losses(ridge):
    train = DOMAINS.train

    def penalty(point: Any, centre: Any = 0.0, scale: float = 1.0) -> Any:
        return ridge / 2 * ((scale * (point - tensor(centre))) ** 2).sum()

    cases = [
        (
            sft(train, ridge=ridge),
            lambda t: mean_over(train, lambda d: sft_loss(d, t)) + penalty(t),
        ),
        (
            hpl(train, ridge=ridge),
            lambda t: mean_over(train, lambda d: outer_loss(d, t, None)) + penalty(t),
        ),
        (
            dpo(train, REFERENCE, beta=0.3, ridge=ridge),
            lambda t: (
                mean_over(train, lambda d: dpo_loss(d, t, REFERENCE, 0.3))
                + penalty(t, REFERENCE, 0.3)
            ),
        ),
        (
            reward_mle(train, ridge=ridge),
            lambda t: mean_over(train, lambda d: reward_loss(d, t)) + penalty(t),
        ),
    ]
    for estimate, loss in cases:
        assert slope(loss, estimate) < 1e-13
        assert slope(loss, estimate + 0.01) > 1e-4


def test_a_curved_reward_is_fitted_to_a_stationary_point():
    estimate = reward_mle(CURVED.train)
    loss = lambda phi: mean_over(CURVED.train, lambda d: reward_loss(d, phi))  # noqa: E731
    assert slope(loss, estimate) <= 1e-6  # what the docstring's BFGS is asked for
    assert slope(loss, np.zeros(2)) > 0.01
    shared = meta_distribution(3, specific=0.0, reward="tanh")
    assert isinstance(shared.train[0].reward, TanhReward)
    assert_equal_numbers(reward_mle(shared.train), shared.phi, "the truth", 1e-4)


def rlhf_objective(domain: Domain, phi: Any, theta: Any, reference: Any, beta: float) -> Any:
    log_pi = log_policy(domain, theta)
    gain = reward_value(domain, tensor(phi)) - beta * (
        log_pi - log_policy(domain, tensor(reference))
    )
    return (tensor(domain.prompts)[:, None] * torch.exp(log_pi) * gain).sum()


def test_policy_gradient_follows_the_objective_of_equation_3():
    phi, theta = np.array([0.8, -0.5]), torch.tensor(REFERENCE)
    policy = policy_gradient(DOMAINS.train, phi, REFERENCE, beta=0.4, eta=0.2, steps=5)
    for _ in range(5):
        leaf = theta.clone().requires_grad_()
        J = mean_over(DOMAINS.train, lambda d: rlhf_objective(d, phi, leaf, REFERENCE, 0.4))  # noqa: B023
        theta = theta + 0.2 * torch.autograd.grad(J, leaf)[0]
    assert_equal_numbers(policy, theta.numpy(), "five steps")


def test_the_clipped_gradient_is_that_of_the_clipped_objective():
    domain, rng = DOMAINS.train[0], np.random.default_rng(9)
    x, y = rng.integers(3, size=40), rng.integers(4, size=40)
    advantage, log_old = rng.standard_normal(40), domain.policy.log_prob(REFERENCE, x)
    leaf = torch.tensor(THETA, requires_grad=True)
    rho = torch.exp(log_policy(domain, leaf)[x, y] - tensor(log_old[np.arange(40), y]))
    A = tensor(advantage)
    clipped = torch.minimum(rho * A, torch.clamp(rho, 0.8, 1.2) * A).mean()
    [expected] = torch.autograd.grad(clipped, leaf)
    gradient = clipped_gradient(domain.policy, THETA, (x, y), log_old, advantage, 0.2)
    assert_equal_numbers(gradient, expected.numpy(), "clipped")
    assert (rho > 1.2).any()
    free = clipped_gradient(domain.policy, THETA, (x, y), log_old, advantage, 1e9)
    assert np.abs(free - gradient).max() > 1e-3


def test_ppo_climbs_most_of_the_way_to_exact_gradients():
    phi, settings = np.array([0.8, -0.5]), {"beta": 0.4}

    def value(theta: Any) -> float:
        return float(
            mean_over(
                DOMAINS.train, lambda d: rlhf_objective(d, phi, tensor(theta), REFERENCE, 0.4)
            )
        )

    exact = policy_gradient(DOMAINS.train, phi, REFERENCE, eta=0.3, steps=400, **settings)
    sampled = ppo(DOMAINS.train, phi, REFERENCE, eta=0.05, rounds=200, seed=1, **settings)
    gain = value(exact) - value(REFERENCE)
    assert gain > 0.1
    # noise of a mean of 64 samples at steps of 0.05: a few hundredths of the gain
    assert value(sampled) - value(REFERENCE) > 0.8 * gain


def test_tuning_on_test_domains_too_changes_the_policy():
    options = {"beta": 0.5, "eta": 0.2, "steps": 30}
    on_train = rlhf(DOMAINS.train, DOMAINS.train, **options)
    on_both = rlhf(DOMAINS.train, DOMAINS.train + DOMAINS.held_out, **options)
    assert np.abs(on_train - on_both).max() > 1e-3
    again = policy_gradient(DOMAINS.train, reward_mle(DOMAINS.train), sft(DOMAINS.train), **options)
    assert_equal_numbers(on_train, again, "stages")


def test_meta_learning_beats_no_learning_on_held_out_domains():
    domains = meta_distribution(5, specific=0.1, shift=0.4)
    algorithm = training(
        D=100, eta=2.0, K=80, inner_batch=None, outer_batch=None, every_task=True, phi_radius=6.0
    )
    state = trained(algorithm, domains.train, np.zeros(4), np.zeros(4))[-1]
    for domain in domains.held_out:
        oracle = DomainOracle(domain=domain, beta=2.0)
        learned, plain = optimum(oracle, state.phi), optimum(oracle, np.zeros(4))
        assert win_rate(domain, learned) > win_rate(domain, plain) + 0.02
        assert np.isfinite(implicit(oracle, state.phi, learned)).all()


BARE = replace(DOMAINS.train[0], preferences=None)
ONE_PAIR = replace(
    DOMAINS.train[0],
    preferences=Preferences(np.array([0]), np.array([1]), np.array([2]), np.array([1.0])),
)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: training(D=0), "`D` must be a whole number of at least 1; found 0"),
        (lambda: training(K=0), "`K` must be a whole number of at least 1"),
        (lambda: training(beta=0), "`beta` must be a number in"),
        (lambda: training(eta=np.nan), "`eta` must be a number in"),
        (lambda: training(inner_batch=0), "`inner_batch` must be a whole number of at least 1"),
        (lambda: training(seed=-1), "`seed` must be a whole number of at least 0"),
        (lambda: training(way="magic"), "`way` must be one of adjoint, unrolled"),
        (lambda: training(phi_radius=-1.0), "`phi_radius` must be a number in"),
        (lambda: training().oracles([]), "`domains` must hold at least one"),
        (lambda: training().init(Start(np.zeros(2), THETA), ()), "`oracle` must hold at least one"),
        (
            lambda: trained(training(), [BARE], np.zeros(2), THETA),
            "domain `domain 0` must have preference pairs for the outer objective; found none",
        ),
        (
            lambda: trained(training(), DOMAINS.train, np.zeros(3), THETA),
            r"`phi` must have shape \(2,\); found \(3,\)",
        ),
        (
            lambda: trained(training(), DOMAINS.train, np.array([0.0, np.nan]), THETA),
            "`phi_0` must be finite",
        ),
        (
            lambda: trained(
                training(alpha=60.0, inner_batch=None), DOMAINS.train, np.zeros(2), THETA
            ),
            "the inner loop diverges: its loss .* at step 1 .*`alpha` below .* is stable; found 60",
        ),
        (
            lambda: trained(training(eta=1e5), DOMAINS.train, np.ones(2), THETA),
            r"`beta` must keep exp\(r / beta\) in the range of doubles; found r up to",
        ),
        (lambda: pl_accuracy(BARE, THETA), "domain `domain 0` must have preference pairs"),
        (lambda: win_rate(DOMAINS.train[0], THETA, judge="gpt"), "`judge` must be one of"),
        (lambda: answer_law(BARE, THETA, 0.0), "`temperature` must be a number in"),
        (
            lambda: pl_accuracy(DOMAINS.train[0], THETA * np.nan),
            "`theta` must be finite; found nan",
        ),
        (lambda: win_rate(DOMAINS.train[0], "best"), "`theta` must hold real numbers; found dtype"),
        (lambda: target(DOMAINS.train[0], np.full(2, np.inf), 1.0), "`phi` must be finite"),
        (
            lambda: policy_kl(BARE, BARE.mu_hat[:2], BARE.mu_hat),
            r"`p` must have shape \(.*\); found \(2, ",
        ),
        (lambda: policy_kl(BARE, BARE.mu_hat, 2 * BARE.mu_hat), "of `q` must sum to 1; found 2"),
        (lambda: meta_loss([], np.zeros(2)), "`oracles` must hold at least one domain"),
        (lambda: sft(DOMAINS.train[0]), "`domains` must be a list of domains; found Domain"),
        (lambda: sft([None]), "`domains` must hold domains; found None"),
        (
            lambda: hpl([DOMAINS.train[0], meta_distribution(0, p=5, q=2).train[0]]),
            r"`domains` must have p = 3 .* q = 2 of the reward; found \(5, 2\) of domain",
        ),
        (
            lambda: ppo(DOMAINS.train, np.full(2, np.nan), THETA, beta=1.0, eta=0.1, rounds=1),
            "`phi` must be finite; found nan",
        ),
        (
            lambda: ppo(DOMAINS.train, np.ones(2), THETA, beta=1.0, eta=1e308, rounds=5),
            "`eta` must keep the policy finite; found 1e",
        ),
        (lambda: sft([]), "`domains` must hold at least one domain"),
        (lambda: dpo(DOMAINS.train, THETA, beta=-1.0), "`beta` must be a number in"),
        (lambda: dpo(DOMAINS.train, THETA[:2], beta=1.0), r"`reference` must have shape \(3,\)"),
        (lambda: hpl([ONE_PAIR]), "the loss of HPL must have a unique minimum"),
        (
            lambda: reward_mle(meta_distribution(3, train=1, pairs=2, reward="tanh").train),
            r"the likelihood of the reward must have a maximum; found one that grows still where",
        ),
        (lambda: reward_mle([BARE]), "domain `domain 0` must have preference pairs"),
        (
            lambda: policy_gradient(
                DOMAINS.train, np.full(2, 0.05), THETA, beta=5.0, eta=1e3, steps=2
            ),
            "`eta` must let the objective grow; found 1000",
        ),
    ],
)
def test_bad_input_is_one_clear_line(call, message):
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_separable_pairs_are_refused_until_a_ridge_makes_them_finite():
    """One pair per direction of psi: every order can be made certain."""
    domain = DOMAINS.train[0]
    pairs = Preferences(np.zeros(3, int), np.array([1, 2, 3]), np.zeros(3, int), np.full(3, 1 / 3))
    ordered = replace(domain, preferences=pairs)
    with pytest.raises(InputError, match=r"the loss of HPL must have a minimum; .*penalty"):
        hpl([ordered])
    assert np.isfinite(hpl([ordered], ridge=1e-3)).all()

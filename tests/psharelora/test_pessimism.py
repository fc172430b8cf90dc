"""P-ShareLoRA, Theorems 4.1, B.3 and 4.2 with constants: oracles, verdicts, tighter bounds."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import ratecheck as rc
from experiments.psharelora.claims import _crowd, pessimism, reward_chain
from experiments.psharelora.theory import chain as at
from experiments.psharelora.theory.crowd import crowd_gain, lone_error
from experiments.psharelora.theory.pessimism import Pessimist, against, radius
from experiments.psharelora.theory.proof import Shared
from experiments.psharelora.theory.subspace import Adaptation, Kinds, frobenius, inner
from linsys.linalg import logistic
from linsys.preference.comparisons import Comparisons
from linsys.preference.confidence import ConfidenceSet
from linsys.preference.coverage import concentrability
from linsys.preference.estimators import fit_shared
from linsys.preference.mdp import DecisionTree
from linsys.preference.pessimism import pessimistic_policy

CLAIMS = {
    entry.id: entry
    for module in (reward_chain, pessimism)
    for entry in vars(module).values()
    if isinstance(entry, rc.Claim)
}


def test_the_largest_b_is_needed() -> None:
    # with half of the radius the bracket is positive again
    claim = CLAIMS["psl.B2_pessimism_max"]

    def half(**parts: Any) -> Any:
        instance = claim.space.view(**parts)
        chooser = instance.chooser
        instance.chooser = replace(chooser, radius=chooser.radius / 2)
        return instance

    weaker = replace(claim, space=replace(claim.space, view=half), expect="violated")
    assert rc.judge(weaker, effort="normal", seed=1).verdict == "violated"


def fitted(N: int, n: int, k: int, seed: int, tail: float = 0.0) -> tuple[at.Chain, np.ndarray]:
    """A maximum-likelihood estimate from sampled labels, d1 = 3, d2 = 2, as a chain."""
    rng = np.random.default_rng(seed)
    gaps = np.full((1, 3), tail * np.sqrt(N))
    gaps[0, k - 1] += np.sqrt(N)
    users = Shared(
        rng.normal(size=(1, 3, 3)), rng.normal(size=(1, N, 2, N, 2)), gaps, np.array([float(k)])
    )
    x = rng.normal(size=(1, N, n, 3, 2))
    x = x / frobenius(x)[..., None, None]
    chance = logistic(inner(users.delta[:, :, None], x))
    o = (rng.random(chance.shape) < chance).astype(float)
    fit = fit_shared(Comparisons.of_users(x[0], o[0]), k)
    assert fit.converged
    basis, W = np.zeros((1, 3, 3)), np.zeros((1, N, 3, 2))
    basis[0, :, :k], W[0, :, :k] = fit.B, fit.W
    rest = o - logistic(inner(fit.Delta[None, :, None], x))
    return at.Chain(users, x, basis, W, rest, np.zeros((1, N))), o


@pytest.mark.parametrize(("k", "tail"), [(1, 0.0), (2, 0.0), (1, 0.2), (2, 0.2)])
def test_the_chain_holds_for_maximum_likelihood_estimates(k: int, tail: float) -> None:
    for seed in range(3):
        chain, o = fitted(5, 150, k, seed, tail)
        assert_allclose(chain.labels, o, atol=1e-6)  # the estimate is stationary as it is
        for measured, bound in (chain.theorem_4_1(), chain.theorem_B3(), chain.confidence()):
            assert (measured <= bound).all()
        V = o - logistic(inner(chain.users.delta[:, :, None], chain.x))
        Z = np.einsum("bin,bincd->bicd", V, chain.x) / 150
        assert_allclose(chain.Z, Z, atol=1e-6)
        flat = chain.x[0].reshape(5, 150, 6)
        least = min(np.linalg.eigvalsh(rows.T @ rows / 150)[0] for rows in flat)
        assert chain.coverage[0] == pytest.approx(least)
        B, U = chain.basis[0], chain.users.basis[0]
        assert chain.distance[0] == pytest.approx(np.linalg.norm(B @ B.T - U @ U.T) / np.sqrt(2))
        whole = np.concatenate(list(chain.Z[0]), axis=1)
        noise = np.sqrt(2 * k / 5) * np.linalg.norm(whole, 2)
        L1 = chain.longest[0] / 2
        bias = L1 / 2 * np.sqrt(chain.coverage[0] * chain.users.tail[0] / 5)
        assert chain.theorem_4_1()[1][0] == pytest.approx(2 * (noise + bias))


def test_how_loose_the_radius_is() -> None:
    ratios = []
    for seed in range(5):
        chain, _ = fitted(20, 300, 1, seed)
        measured, bound = chain.confidence()
        ratios.append(np.median(measured / bound))
    assert 1 / 1000 < np.median(ratios) < 1 / 30


def test_labels_are_shares_under_which_the_heads_are_optimal() -> None:
    rng = np.random.default_rng(0)
    users = Shared(
        rng.normal(size=(4, 2, 2)),
        rng.normal(size=(4, 2, 1, 2, 1)),
        rng.uniform(0.1, 0.3, size=(4, 2)),
        np.ones(4),
    )
    basis, W = users.basis, rng.normal(size=(4, 2, 2, 1)) * users.held[:, None, :, None]
    x = rng.normal(size=(4, 2, 3, 2, 1))
    push = rng.random((4, 2))
    chain = at.Chain(users, x, basis, W, rng.normal(size=(4, 2, 3)), push)
    o = chain.labels
    rest = o - logistic(inner(chain.hat[:, :, None], x))

    def shares(o: Any) -> bool:
        """In [0, 1] to rounding: of a sum of 1 at most, a quotient and a product."""
        return bool(o.min() >= -(2.0**-51) and o.max() <= 1 + 2.0**-51)

    assert shares(o)
    assert not shares(o + 1e-3 * rest)  # a thousandth further along the same way
    assert np.abs(rest).max() > 0.1
    slope = np.einsum("bin,bincd->bicd", rest, np.swapaxes(basis, 1, 2)[:, None, None] @ x) / 3
    edge = frobenius(chain.hat) == chain.radius[:, None]
    assert edge.any()
    assert not edge.all()
    assert_allclose(slope[~edge], 0, atol=1e-12)
    scale = inner(slope, W)[edge] / inner(W, W)[edge]
    assert (scale > 0).all()
    assert (scale <= push[edge] + 1e-12).all()
    assert_allclose(slope[edge], scale[:, None, None] * W[edge], atol=1e-12)


def test_tails_are_those_of_sampled_noise() -> None:
    rng = np.random.default_rng(1)
    x, gap, t = rng.normal(size=(1, 2, 2, 2, 2)), rng.normal(size=(1, 2, 2)), np.array([1.0])
    o = rng.random((40_000, 2, 2)) < logistic(gap[0])
    V = o - logistic(gap[0])
    Z = np.einsum("kij,ijcd->kcid", V, x[0]).reshape(-1, 2, 4) / 2
    rows = np.einsum("ijcd,ijed->ce", x[0], x[0])
    columns = [np.einsum("jcd,jce->de", own, own) for own in x[0]]
    s = max(np.linalg.norm(M, 2) for M in (rows, *columns))
    seen = (np.linalg.norm(Z, 2, axis=(1, 2)) ** 2 > s / 8).mean()
    measured, bound = reward_chain.chain_noise_all(x, gap, t)
    assert measured[0] == pytest.approx(seen, abs=0.01)  # four standard errors
    assert bound[0] == pytest.approx(6 / np.e)
    own = np.einsum("kj,jcd->kcd", V[:, 0], x[0, 0]) / 2
    limit = 5 * (frobenius(x[0, 0]) ** 2).max() / 8
    noise, _ = reward_chain.chain_noise_own(x[:, :1], gap[:, :1], t)
    assert noise[0] == pytest.approx(((own**2).sum((1, 2)) > limit).mean(), abs=0.01)


def test_a_crowd_of_coin_flippers_chooses_an_axis() -> None:
    axis, middle = np.array([1.0, 0.0]), np.array([1.0, 1.0]) / np.sqrt(2)
    for n in (2, 4, 8, 16):
        assert crowd_gain(n, axis) > crowd_gain(n, middle) + 1 / (9 * n)
        assert lone_error(n, s=2.0) == pytest.approx(1.0)
    # n = 1, along an axis: both outcomes are explained up to the edge of the ball
    assert crowd_gain(1, axis) == pytest.approx(np.log(2 * logistic(np.array(4.0))))


def test_the_shared_estimate_follows_the_crowd() -> None:
    # N = 4000 against N_p = 8: the mean gain of the axis, 0.06 N, is far above its noise
    rng = np.random.default_rng(2)
    x = np.repeat(np.eye(2), 4, axis=0)[None, :, :, None]
    o = (rng.random((4000, 8)) < 0.5).astype(float)
    lone = np.array([[1, 1, 1, 0, 1, 1, 1, 0.0]])
    data = Comparisons.of_users(np.repeat(x, 4001, axis=0), np.concatenate([o, lone]))
    starts = [np.array([[np.cos(a)], [np.sin(a)]]) for a in (0.1, np.pi / 4, 1.5)]
    fits = [fit_shared(data, 1, start=start, bound=4.0) for start in starts]
    best = max(fits, key=lambda fit: fit.loglik)
    assert np.abs(best.B[:, 0]).max() > 0.999
    assert np.abs(best.Delta[-1]).min() < 0.1  # though the lone user likes both directions


Choice = tuple[np.ndarray, np.ndarray, np.ndarray, Pessimist]


@pytest.fixture
def choice() -> Choice:
    """Features, references and policies, and who chooses among them."""
    rng = np.random.default_rng(3)
    psi, reference = rng.normal(size=(6, 3, 2)), rng.dirichlet(np.ones(3), size=6)
    policies = rng.dirichlet(np.ones(3), size=(6, 4))
    chooser = Pessimist(
        against(policies, reference, psi),
        hat=rng.normal(size=(6, 2)),
        truth=rng.normal(size=(6, 2)),
        radius=np.array([0.0, 0.1, 0.5, 1.0, 2.0, 5.0]),
    )
    return psi, reference, policies, chooser


def test_choices_are_those_of_a_search_over_the_ball(choice: Choice) -> None:
    features, references, policies, choosers = choice
    angles = np.linspace(0, 2 * np.pi, 20_001)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    for b in range(6):
        psi, reference = features[b], references[b]
        ball = choosers.hat[b] + choosers.radius[b] * circle
        worst = [(pi - reference) @ psi @ ball.T for pi in policies[b]]
        values = np.array([w.min() for w in worst])
        assert_allclose(choosers.values[b], values, atol=1e-6)
        chosen = int(values.argmax())
        truth = psi @ choosers.truth[b]
        expected = (policies[b, 0] - policies[b, chosen]) @ truth
        assert choosers.gap[b] == pytest.approx(expected)
        bracket = values[chosen] - (policies[b, chosen] - reference) @ truth
        assert choosers.bracket[b] == pytest.approx(bracket, abs=1e-6)


def test_the_choice_is_that_of_the_cone_program_where_it_can_be_made(choice: Choice) -> None:
    features, references, policies, choosers = choice
    tree = DecisionTree(np.ones((1, 3, 1)), mu=[1.0], H=1)  # three arms: every mixture is a policy
    for b in range(6):
        psi = features[b][..., None]
        ball = ConfidenceSet(choosers.hat[b][:, None], choosers.radius[b] ** 2)
        policy = pessimistic_policy(tree, psi, ball, references[b])
        assert choosers.values[b].max() <= policy.upper + 1e-9
        both = np.concatenate([policies[b], policy.policy])
        more = Pessimist(
            against(both, references[b], features[b]),
            choosers.hat[b],
            choosers.truth[b],
            choosers.radius[b],
        )
        assert more.values.argmax() == 4
        assert more.values[4] == pytest.approx(policy.value, abs=1e-9)
        measured, bound = more.value_gap()
        assert measured <= bound


def test_the_printed_radius_takes_the_smallest_b() -> None:
    rng = np.random.default_rng(4)
    few, many = rng.normal(size=(1, 2, 2, 1)), np.array([[3.0, 2.0]])
    kinds = Kinds(few, many, 1)
    whole = Adaptation(np.repeat(few, [3, 2], axis=1), 1)
    assert_allclose(kinds.b[0], whole.b[0, [0, 4]])
    assert_allclose(kinds.best[0], whole.best[0, [0, 4]])
    rest = np.sqrt(whole.tail[0] / 5) / whole.nu[0]
    zeta = np.sqrt(7 * (whole.b.min() + rest))
    assert radius(kinds, 7 * np.ones(1), True)[0] == pytest.approx(np.sqrt(zeta))
    mended = 7 * (whole.b.max() + rest)
    assert radius(kinds, 7 * np.ones(1), False)[0] == pytest.approx(np.sqrt(mended))


def test_no_c3_makes_up_for_the_smallest_b() -> None:
    # N - 1 users along u, one with a part across: his b over the rest of zeta grows like sqrt(N)
    def share(N: int) -> float:
        Delta = np.zeros((N, 2))
        Delta[:, 0], Delta[0, 1] = 1.0, 1.0
        U, sigma, V = np.linalg.svd(Delta.T, full_matrices=False)
        b = ((Delta.T - sigma[0] * np.outer(U[:, 0], V[0])) ** 2).sum(axis=0)
        return float(b[0] / (b.min() + np.sqrt(sigma[1] ** 2 / N) * N / sigma[0] ** 2))

    assert share(10_000) / share(100) == pytest.approx(10, rel=0.05)


def test_concentrability_is_about_pairs_from_the_reference() -> None:
    rng = np.random.default_rng(6)
    psi, (target, mu) = rng.normal(size=3), rng.dirichlet(np.ones(3), size=(2, 1))
    mu0, mu1 = rng.dirichlet(np.ones(3), size=(2, 1))
    shown = (mu0.T * mu1 * (psi[:, None] - psi) ** 2).sum()
    C_r = concentrability(psi[:, None, None], target[0], mu[0])
    claim, mended = pessimism.B2_concentrability, pessimism.B2_concentrability_corrected
    instance = SimpleNamespace(psi=psi[None], target=target, reference=mu, mu0=mu0, mu1=mu1)
    gap, bound = claim(instance)
    assert_allclose(gap, np.abs((target[0] - mu[0]) @ psi))
    assert_allclose(bound, C_r * np.sqrt(shown))
    gap, bound = mended(instance)
    assert gap <= bound
    assert_allclose(bound, C_r * np.sqrt(shown * pessimism._likelier(instance)))
    alike = SimpleNamespace(psi=psi[None], target=target, reference=mu, mu0=mu, mu1=mu)
    assert_allclose(*claim(alike))  # one parameter: C_r is attained
    assert_allclose(pessimism._likelier(alike), 1)


def _best_angle(system: SimpleNamespace) -> float:
    """The angle of the column that maximises (3.3) for N_p = oo, on a grid, every w the best."""
    kinds = system.kinds
    angle, w = np.linspace(0, np.pi, 181)[:-1], np.linspace(-4, 4, 801)[:, None, None]
    x = w * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    total = 0.0
    for many, truth in zip(kinds.many[0], kinds.delta[0, :, :, 0], strict=True):
        y = logistic(truth)
        mean = (y * np.log(logistic(x)) + (1 - y) * np.log(logistic(-x))).sum(axis=-1)
        total = total + many * mean.max(axis=0)
    return float(angle[np.argmax(total)])


def _users(power: float, crowd: float, along: float, aside: float) -> SimpleNamespace:
    one = np.ones(1)
    system: SimpleNamespace = _crowd.crowd_of_users(
        power=power * one, crowd=crowd * one, along=along * one, aside=aside * one
    )
    return system


def test_the_crowd_decides_on_the_column() -> None:
    rng = np.random.default_rng(5)
    found = 0
    for _ in range(40):
        power, rest = float(rng.integers(0, 3)), rng.uniform(0.2, 2.5, size=3)
        system = _users(power, *rest)
        if _crowd.maximal(system)[0]:
            found += 1
            assert _best_angle(system) == 0
            best = np.array([[1, 0]]) * system.kinds.delta[0, :, :, 0]
            assert_allclose(system.kinds.best[0, :, :, 0], best, atol=1e-12)
    assert found > 10
    # where the two others outweigh it, it does not
    assert _best_angle(_users(0.0, 0.2, 0.1, 2.0)) != 0
    assert not _crowd.maximal(_users(0.0, 0.2, 0.1, 2.0))[0]


def test_no_mixture_is_better_than_the_best_policy() -> None:
    def chooser(*v: tuple[float, float]) -> Pessimist:
        hat = np.array([[1.0, 0.0]])
        return Pessimist(np.array([v]), hat=hat, truth=hat, radius=np.array([0.5]))

    # 1 - 0.5 sqrt 2 at (1, 1), but 1 - 0.5 half way to (1, -1)
    assert not chooser((0.0, 0.0), (1.0, 1.0), (1.0, -1.0)).best_of_mixtures[0]
    assert chooser((0.0, 0.0), (1.0, 1.0), (0.0, 1.0)).best_of_mixtures[0]

"""Theorem 2's hypotheses: sums against enumeration of all samples, bounds against mutations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from experiments.affpcl.claims.appendix_c3 import (
    c3_eq12 as equation_12,
    c3_H1 as own_divergence,
    c3_H2 as pair_divergence,
    c3_kl as chain_rule,
    c3_kl_data as chain_rule_of_data,
    c3_kl_data_corrected as chain_rule_of_data_corrected,
    c3_kl_tv as total_variation_bound,
    c3_lecam as le_cam,
    c3_mup as others_floor,
    c3_mup_gap as others_gap,
    c3_separation as separation,
    c3_tv as distance_to_centre,
)
from experiments.affpcl.theory.evidence import divergence, powers
from experiments.affpcl.theory.ratio_lower_bound import (
    TwoPoint,
    conditional,
    rare_risk,
    reaches,
    risk_of_proof,
    stated_bound,
)
from linsys.linalg import precise, precision

ROUNDING = 1e-12


def points(n: float, t: float, d: float, v: float) -> TwoPoint:
    return TwoPoint(*(np.array([float(value)]) for value in (n, t, d, v)))


def enumerate_samples(
    first: Sequence[np.ndarray], second: Sequence[np.ndarray]
) -> tuple[float, float, float]:
    """E[1 - E[sign | data]^2], TV and KL of two products, over every outcome of every factor."""
    undecided = tv = kl = 0.0
    for outcome in itertools.product(*(range(len(p)) for p in first)):
        p = float(np.prod([law[s] for law, s in zip(first, outcome, strict=True)]))
        q = float(np.prod([law[s] for law, s in zip(second, outcome, strict=True)]))
        if p + q == 0:
            continue
        undecided += (p + q) / 2 * (1 - ((p - q) / (p + q)) ** 2)
        tv += abs(p - q) / 2
        kl += p * np.log(p / q) if p > 0 and q > 0 else (np.inf if p > 0 else 0.0)
    return undecided, tv, kl


def hypotheses(n: int, d: int, v: float) -> tuple[np.ndarray, np.ndarray]:
    """mu_m and mu'_m on d states, (2, d), from the printed formula with eps = v sqrt(d)."""
    eps, s = v * np.sqrt(d), np.arange(1, d + 1)
    mu = np.stack([1 / d + d**-1.5 * eps * (-1.0) ** (s + m) for m in (1, 2)])
    return mu, (n / d - mu) / (n - 1)


CASES = [(2, 1, 2, 0.4), (2, 2, 4, 0.5), (3, 2, 2, 0.3), (4, 1, 4, 0.2), (3, 1, 6, 0.5)]


@pytest.mark.parametrize(("n", "t", "d", "v"), CASES)
def test_data_by_enumeration(n: int, t: int, d: int, v: float) -> None:
    mu, rest = hypotheses(n, d, v)
    laws = [[mu[m], *[rest[m]] * (n - 1)] * t for m in range(2)]
    problem = points(n, t, d, v).data
    expected = enumerate_samples(*laws)
    np.testing.assert_allclose([problem.undecided[0], problem.tv[0], problem.kl[0]], expected)


@pytest.mark.parametrize(("n", "t", "d", "v"), CASES)
def test_pairs_by_enumeration(n: int, t: int, d: int, v: float) -> None:
    mu, rest = hypotheses(n, d, v)
    joint = mu[:, :, None] * (np.eye(d) / n + (n - 1) / n * rest[:, None])
    np.testing.assert_allclose(joint.sum(axis=1), 1 / d)  # s^0 has the distribution mu^0
    expected = enumerate_samples(*([law.ravel()] * t for law in joint))
    problem = points(n, t, d, v).pairs
    np.testing.assert_allclose([problem.undecided[0], problem.tv[0], problem.kl[0]], expected)


def test_many_instances_at_once_agree_with_one() -> None:
    columns = [np.array(c, dtype=float) for c in zip(*CASES, strict=True)]
    together = TwoPoint(*columns)
    for k, case in enumerate(CASES):
        for name in ("data", "pairs"):
            one, all_ = getattr(points(*case), name), getattr(together, name)
            for part in ("undecided", "tv", "kl"):
                np.testing.assert_allclose(getattr(all_, part)[k], getattr(one, part)[0])


def test_statements_of_the_proof_hold_and_their_mutants_fail() -> None:
    grid = itertools.product((2, 3, 5), (1, 3), (2, 4, 6), (0.01, 0.3, 0.5))
    s = TwoPoint(*(np.array(c, dtype=float) for c in zip(*grid, strict=True)))
    for identity in (separation, distance_to_centre, others_gap, chain_rule):
        np.testing.assert_allclose(*identity(s), rtol=1e-10, atol=1e-15)
    for upper in (own_divergence, pair_divergence, total_variation_bound):
        measured, bound = upper(s)
        assert (measured <= bound * (1 + ROUNDING)).all()
        assert (measured > bound * 0.4).any()
    for lower in (others_floor, le_cam, equation_12):
        measured, bound = lower(s)
        assert (measured >= bound * (1 - ROUNDING) - 1e-15).all()
        assert (measured < bound * 2.06).any()  # the Bayes risk is twice Le Cam's at v = 0


def test_conditional_distribution_of_the_average_sample() -> None:
    law = conditional(np.array([4.0]), np.array([0.5]), np.array([3.0]))[0]
    np.testing.assert_allclose(law[:, :4].sum(axis=-1), 1.0)
    _, rest = hypotheses(3, 4, 0.5)
    np.testing.assert_allclose(law[1, 2, :4], np.eye(4)[2] / 3 + 2 / 3 * rest[1])


def test_all_samples_tell_more_than_pairs() -> None:
    s = points(2, 1, 2, 0.5)
    measured, stated = chain_rule_of_data(s)
    np.testing.assert_allclose([measured[0], stated[0]], [np.log(3), 0.739841], rtol=1e-6)
    np.testing.assert_allclose(*chain_rule_of_data_corrected(s))
    assert (s.data.tv >= s.pairs.tv).all()


def test_environments_are_further_apart_than_from_their_average() -> None:
    for n, d, v in ((2, 2, 0.2), (5, 4, 0.5)):
        mu, rest = hypotheses(n, d, v)
        agents = np.stack([mu[0], *[rest[0]] * (n - 1)])
        gaps = np.abs(agents[:, None] - agents[None]).sum(axis=-1).max() / 2
        np.testing.assert_allclose(points(n, 1, d, v).delta_env, gaps)
        np.testing.assert_allclose(gaps, n / (n - 1) * v / 2)


def test_cases_of_the_proof() -> None:
    t = 4
    edge = 1 / (4 * np.sqrt(6 * t))
    printed = reaches(points(2, t, 4, 2 * edge), np.array([edge**2]), np.array([edge]))
    np.testing.assert_allclose(printed[0][0, 0], printed[1][0, 0])  # 2 delta^2 / 2
    assert printed[1][0, 1] == pytest.approx(2 * edge)  # not delta_env close
    corrected = reaches(points(2, t, 4, edge), np.array([edge**2 / 4]), np.array([edge]))
    assert (corrected[0] >= corrected[1] * (1 - ROUNDING)).all()
    np.testing.assert_allclose(1 / (96 * t), printed[0][0, 0])


@pytest.mark.parametrize(("n", "t", "delta"), [(2, 1, 0.5), (2, 2, 0.05), (3, 2, 0.1), (4, 1, 1.0)])
def test_rare_states_by_enumeration(n: int, t: int, delta: float) -> None:
    q = min((1 - 1 / n) * delta, 1 / (8 * t))
    centre = np.array([q, q, 1 - 2 * q])
    own = np.array([[0.0, 2 * q, 1 - 2 * q], [2 * q, 0.0, 1 - 2 * q]])
    rest = (n * centre - own) / (n - 1)
    assert (rest >= 0).all()
    assert np.abs(own[0] - rest[0]).sum() / 2 <= delta * (1 + ROUNDING)
    laws = [[own[m], *[rest[m]] * (n - 1)] * t for m in range(2)]
    # rho is 0 or 2 on either state, its posterior mean 1 +- E[sign | data]: squares are the doubt
    risk = 2 * q * enumerate_samples(*laws)[0]
    np.testing.assert_allclose(rare_risk(*(np.array([float(x)]) for x in (n, t, delta))), risk)


def test_theorem_holds_by_rare_states_and_not_by_the_proof_alone() -> None:
    grid = itertools.product((2, 3, 4), (1, 4, 8), (0.01, 0.05, 0.1, 0.3, 1.0))
    n, t, delta = (np.array(c, dtype=float) for c in zip(*grid, strict=True))
    stated, rare = stated_bound(t, delta), rare_risk(n, t, delta)
    assert (rare >= stated).all()
    sharp = np.minimum(1 / (10 * t), 0.4 * delta)
    assert (rare >= sharp).all()
    assert (sharp >= stated).all()
    assert (rare < 2 * sharp).any()
    alone = risk_of_proof(n, t, delta) >= stated
    assert alone[n > 2].all()
    assert not alone[n == 2].all()
    np.testing.assert_allclose(
        risk_of_proof(np.array([2.0]), np.array([1.0]), np.array([0.1])), 0.00980198, rtol=1e-6
    )


def test_counts_and_divergences() -> None:
    p = np.array([0.2, 0.3, 0.5])
    law = powers(p, 3)
    np.testing.assert_allclose(law.sum(), 1.0)
    assert len(law) == 10
    assert divergence(p, np.array([0.0, 0.5, 0.5])) == np.inf
    assert divergence(np.array([0.0, 1.0]), np.array([0.5, 0.5])) == pytest.approx(np.log(2))


def test_high_precision_agrees() -> None:
    with precision(40):
        exact = TwoPoint(*(precise([value]) for value in (3.0, 2.0, 4.0, 0.3)))
        for statement in (le_cam, equation_12, total_variation_bound, chain_rule):
            for fine, coarse in zip(statement(exact), statement(points(3, 2, 4, 0.3)), strict=True):
                np.testing.assert_allclose(fine.astype(float), coarse)

"""OOD-PL, Appendices C and D: Lipschitz constants of gradients, and what a round's step adds.

A mean over samples, or over domains, paths and pairs, is an inner product of vectors with that many
entries, each times the root of its chance.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.oodpl.theory.inner import Inner
from experiments.oodpl.theory.outer import Round
from experiments.oodpl.theory.smoothness import true_range
from linsys.linalg import Numbers, logistic
from ratecheck import gram as g


def _weighed(chance: Numbers, values: Numbers) -> Numbers:
    """Vectors times the roots of their chances, all of an instance in one."""
    return np.asarray((np.sqrt(chance)[..., None] * values).reshape(len(chance), -1))


def _samples(instance: Any) -> dict[str, Any]:
    """The change of the mean gradient, of every sample's, and of grad log pi; theta - theta'."""
    system, phi, theta, other = instance.system, instance.phi, instance.theta, instance.other
    each = system.each_gradient(phi, theta) - system.each_gradient(phi, other)
    slopes = system.policy.gradient(theta) - system.policy.gradient(other)
    mean = system.mean(each, 1)
    return {
        "mean": _weighed(system.chance, mean[:, None, None] + 0 * each),
        "each": _weighed(system.chance, each),
        "slopes": _weighed(system.chance, slopes),
        "v": theta - other,
        "W": true_range(instance.reward, system.beta)[1],
        "L": instance.policy.L,
    }


@g.theorem("ood.lemma_1_corrected", at=_samples, power=2)
def lemma_1_corrected(p: g.Problem) -> None:
    """||E e^(r/beta) (change of grad log pi)|| <= B^(1/beta) L ||theta - theta'||, squared."""
    mean, each, slopes = p.vectors("mean each slopes", "E R^p")
    v = p.vector("v", "R^p")
    W, L = p.parameters_named("W L")
    p.equal(mean @ each, mean.squared, "what a mean is")
    p.assume(each.squared <= W**2 * slopes.squared, "ood.exp_r_beta_corrected")
    p.assume(slopes.squared <= L**2 * v.squared, "(16): grad log pi is L-Lipschitz")
    p.show(mean.squared <= W**2 * L**2 * v.squared)


def _convex(instance: Any) -> dict[str, Any]:
    """theta - theta' and the change of -grad log pi, of every sample; the least weight."""
    system, phi, theta, other = instance.system, instance.phi, instance.theta, instance.other
    slopes = system.policy.gradient(other) - system.policy.gradient(theta)
    v = theta - other
    change = system.gradient(phi, theta) - system.gradient(phi, other)
    return {
        "v": _weighed(system.chance, v[:, None, None] + 0 * slopes),
        "slopes": _weighed(system.chance, slopes),
        "gained": (change * v).sum(axis=-1),
        "w": true_range(instance.reward, system.beta)[0],
        "mu": instance.policy.mu,
    }


@g.theorem("ood.lemma_1_convexity_corrected", at=_convex)
def lemma_1_convexity_corrected(p: g.Problem) -> None:
    """b^(1/beta) mu ||theta - theta'||^2 <= <change of the mean gradient, theta - theta'>."""
    v, slopes = p.vectors("v slopes", "E R^p")
    gained, (w, mu) = p.value("gained"), p.parameters_named("w mu")
    p.assume(w * (slopes @ v) <= gained, "ood.exp_r_beta_corrected, as no sample loses")
    p.assume(mu * v.squared <= slopes @ v, "(14): -log pi is mu-strongly convex")
    p.show(w * mu * v.squared <= gained)


def _products(instance: Any) -> dict[str, Any]:
    """Of every sample: the change of the mixed derivative and of grad log pi; theta - theta'."""
    system, phi, theta, other = instance.system, instance.phi, instance.theta, instance.other
    change = system.each_mixed(phi, theta) - system.each_mixed(phi, other)
    return {
        "change": change.reshape(*change.shape[:-2], -1),
        "slopes": system.policy.gradient(theta) - system.policy.gradient(other),
        "v": (theta - other)[:, None, None],
        "W": true_range(instance.reward, system.beta)[1][:, None, None],
        "T": instance.reward.T[:, None, None],
        "L": instance.policy.L[:, None, None],
        "beta": system.beta[:, None, None],
    }


@g.theorem(
    "ood.lemma_2_corrected",
    at=_products,
    power=2,
    scale=lambda system: (system.beta**2)[:, None, None],
)
def lemma_2_corrected(p: g.Problem) -> None:
    """beta ||(e^(r/beta)/beta) grad r (change of grad log pi)'|| <= B^(1/beta) T L ||theta -
    theta'||, squared.
    """
    change = p.vector("change", "R^{q p}")
    slopes, v = p.vectors("slopes v", "R^p")
    W, T, L, beta = p.parameters_named("W T L beta")
    one = "a column times a row: e^(r/beta) <= B^(1/beta), and ||grad r|| <= T"
    p.assume(beta**2 * change.squared <= W**2 * T**2 * slopes.squared, one)
    p.assume(slopes.squared <= L**2 * v.squared, "(16): grad log pi is L-Lipschitz")
    p.show(beta**2 * change.squared <= W**2 * T**2 * L**2 * v.squared)


def _margins(instance: Any) -> dict[str, Any]:
    """Of every pair of answers: the change of grad l_PL, of the chance and of the margin."""
    system, theta, other = instance.system, instance.theta, instance.other
    margins = system.margin(theta), system.margin(other)
    zero = (0 * margins[0])[..., None]
    chance = logistic(-margins[0]) - logistic(-margins[1])
    return {
        "change": system.preference_gradient(theta) - system.preference_gradient(other),
        "chance": chance[..., None],
        "margin": (margins[0] - margins[1])[..., None],
        "v": (theta - other)[:, None, None, None] + zero,
        "d": instance.policy.d[:, None, None, None],
    }


@g.theorem("ood.lpl_2L_exponential", at=_margins, power=2)
def lpl_2L_exponential(p: g.Problem) -> None:
    """||(change of sigma(-u)) (psi - psi')|| <= (d^2/4) ||theta - theta'||, squared."""
    change, v = p.vectors("change v", "R^p")
    chance, margin = p.vectors("chance margin", "R")
    d = p.parameter("d")
    p.assume(change.squared <= d**2 * chance.squared, "psi - psi' is no longer than d")
    p.assume(16 * chance.squared <= margin.squared, "sigma' <= 1/4")
    p.assume(margin.squared <= d**2 * v.squared, "u = <theta, psi - psi'>, no longer than d")
    p.show(change.squared <= (d**2 / 4) ** 2 * v.squared)


def _solution(run: Inner) -> dict[str, Any]:
    """J = d theta_*/d phi, and -beta E[w grad r (grad log pi)'] / E w, w = e^(r/beta)."""
    system, J = run.system, run.jacobian_star
    weight = system.mean(system.tilt(run.phi))[:, None, None]
    image = -system.mixed(run.phi, run.theta_star) * system.beta[:, None, None] / weight
    return {
        "J": J.reshape(len(J), -1),
        "image": image.reshape(len(J), -1),
        "mu": run.policy.mu,
        "beta": system.beta,
        "M": run.policy.M,
        "T": run.reward.T,
    }


@g.theorem(
    "ood.dtheta_corrected",
    at=_solution,
    power=2,
    scale=lambda run: (run.system.beta * run.policy.mu) ** 2,
)
def dtheta_corrected(p: g.Problem) -> None:
    """beta mu ||d theta_*/d phi|| <= M T, squared."""
    J, image = p.vectors("J image", "R^{q p}")
    mu, beta, M, T = p.parameters_named("mu beta M T")
    p.assume(beta * mu * J.squared <= J @ image, "E[w H] >= mu E w, and J E[w H] = E[w grad r g']")
    p.assume(image.squared <= M**2 * T**2, "||grad log pi|| <= M and ||grad r|| <= T")
    p.show(beta**2 * mu**2 * J.squared <= M**2 * T**2)


def _parts(round: Round) -> dict[str, Any]:
    """What the pair, the inner loop and the domain each add to grad L, as random vectors."""
    gradients, chance = round.steps
    run, last = round.run, round.last
    inner = run.hypergradient(round.pairs, last.theta, last.jacobian)[:, :, None]
    exact = round.exact[:, None, None]
    centre = np.repeat(round.gradient, round.tau.shape[1], axis=0)[:, None, None]
    weights = round.by_domain(chance) * round.tau[:, :, None, None]
    zero = 0 * gradients

    def flat(values: Numbers) -> Numbers:
        return _weighed(weights, round.by_domain(values + zero))

    return {
        "pair": flat(gradients - inner),
        "loop": flat(inner - exact),
        "domain": flat(exact - centre),
        "sigma2": round.sigma_3,
    }


@g.theorem("ood.D2_jensen_corrected", at=_parts)
def D2_jensen_corrected(p: g.Problem) -> None:
    """E||pair + loop + domain||^2 <= sigma_3^2 + 2 E||loop||^2 + 2 E||domain||^2."""
    pair, loop, domain = p.vectors("pair loop domain", "E R^q")
    sigma2 = p.parameter("sigma2")
    p.equal(pair @ loop, 0, "the pair is drawn last")
    p.equal(pair @ domain, 0, "the pair is drawn last, of any domain")
    p.assume(pair.squared <= sigma2, "sigma_3^2 is the largest variance by the pair")
    p.show((pair + loop + domain).squared <= sigma2 + 2 * loop.squared + 2 * domain.squared)

"""FIRM, Appendices C and G: critics and the gradients that they make, for features of any kind."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from experiments.firm.theory.chain import Chains
from linsys.linalg import Numbers, apply, norm
from ratecheck import gram as g


def _solution(chains: Chains, r_max: Numbers) -> dict[str, Any]:
    """w_*^j and -A w_*^j, its score."""
    return {
        "w": chains.w_star,
        "score": -apply(chains.A[:, None], chains.w_star),
        "least": chains.lambda_A[:, None],
        "r_max": r_max[:, None],
    }


def _least(chains: Chains) -> Numbers:
    return np.asarray(chains.lambda_A[:, None])


@g.theorem("firm.Rw_sharper", at=_solution, power=2, scale=lambda chains: _least(chains) ** 2)
def Rw_sharper(p: g.Problem) -> None:
    """lambda_A ||w_*|| <= r_max, squared."""
    w, score = p.vectors("w score")
    least, r_max = p.parameters_named("least r_max")
    p.assume(least * w.squared <= w @ score, "lambda_A is the least of sym(-A)")
    p.assume(score.squared <= r_max**2, "-A w_* = E r phi, |phi| <= 1 and 0 <= r <= r_max")
    p.show(least**2 * w.squared <= r_max**2)


def _constant(chains: Chains, constant: Numbers) -> dict[str, Any]:
    """The first feature before and after a transition, times the roots of the chances."""
    chance = chains.stationary[:, :, None] * chains.kernel
    first = chains.phi[..., 0]
    root = np.sqrt(chance)
    return {
        "here": (root * first[:, :, None]).reshape(len(first), -1),
        "there": (root * first[:, None]).reshape(len(first), -1),
        "least": chains.lambda_A,
        "gamma": chains.gamma,
        "c": constant,
    }


@g.theorem("firm.constants_in_span", at=_constant)
def constants_in_span(p: g.Problem) -> None:
    """lambda_A <= E phi_1 (phi_1 - gamma phi'_1) = (1 - gamma) c^2."""
    here, there = p.vectors("here there", "transitions")
    least, gamma, c = p.value("least"), *p.parameters_named("gamma c")
    p.assume(least <= here @ (here - gamma * there), "lambda_A is the least of sym(-A), at e_1")
    p.equal(here.squared, c**2, "phi_1 is c")
    p.equal(here @ there, c**2, "phi_1 and phi'_1 are c")
    p.show(least <= (1 - gamma) * c**2)


def _sample(instance: Any) -> dict[str, Any]:
    """A sample delta psi, and the three numbers that delta is made of, for every transition."""
    chains, radius = instance.chains, instance.chains.R_w(instance.r_max)
    values = chains.values(instance.w * radius[:, None, None])
    errors = chains.errors(values)
    own = values[:, :, None, None]
    numbers = {"here": own + 0 * errors, "there": values[:, None, None] + 0 * errors}
    axes = (slice(None), *[None] * 4)
    lengths = {"r_max": instance.r_max, "radius": radius, "gamma": chains.gamma, "C": chains.C_psi}
    return {
        "sample": errors[..., None] * chains.psi[:, :, :, None, None],
        "reward": (chains.r[:, :, :, None] + 0 * errors)[..., None],
        **{name: number[..., None] for name, number in numbers.items()},
        **{name: length[axes] for name, length in lengths.items()},
    }


@g.theorem("firm.lemma7", at=_sample, power=2)
def lemma7(p: g.Problem) -> None:
    """||(r + gamma phi'w - phi'w) psi|| <= C_psi (r_max + (1 + gamma) R_w), squared."""
    sample = p.vector("sample", "R^d")
    reward, there, here = p.vectors("reward there here", "R")
    r_max, radius, gamma, C = p.parameters_named("r_max radius gamma C")
    p.bounded(reward, r_max, "0 <= r <= r_max")
    p.bounded(there, radius, "|phi'| <= 1 and ||w|| <= R_w")
    p.bounded(here, radius, "|phi| <= 1 and ||w|| <= R_w")
    p.cauchy_schwarz(reward, there, "Cauchy-Schwarz, of r and phi'w")
    p.cauchy_schwarz(reward, -here, "Cauchy-Schwarz, of r and phi w")
    p.cauchy_schwarz(there, -here, "Cauchy-Schwarz, of both")
    error = reward + gamma * there - here
    p.assume(sample.squared <= C**2 * error.squared, "|psi| <= C_psi")
    p.show(sample.squared <= (C * (r_max + (1 + gamma) * radius)) ** 2)


#: The differences of (47): of both clients their critic, their noise and their bias, and one more.
_PARTS = [f"{part}_{client}" for client in (0, 1) for part in ("critic", "noise", "bias")]
_PARTS += ["clients"]


def _seven(step: Any, batches: Any, past: Any) -> dict[str, Any]:
    """The seven vectors, those of the second client negated, and their lengths."""
    pair, batches = step.now, batches.reshape(len(past), 2, 2, 2, 2)
    vectors: dict[str, Any] = {}
    for k, one in enumerate(pair):
        law, sign = batches[:, k, ..., None, None], 1 - 2 * k
        solved = one.of(one.chains.w_star)
        starred = (law * solved).sum(axis=(1, 2, 3))
        centre = one.average(solved)
        vectors[f"critic_{k}"] = sign * ((law * one.samples).sum(axis=(1, 2, 3)) - starred)
        vectors[f"noise_{k}"] = sign * (starred - centre)
        vectors[f"bias_{k}"] = sign * (centre - one.chains.jac)
    vectors["clients"] = pair[0].chains.jac - pair[1].chains.jac
    return {**vectors, **{f"length_{name}": norm(v) for name, v in vectors.items()}}


@g.theorem("firm.eq47", at=_seven, power=2)
def eq47(p: g.Problem) -> None:
    """||g^{j,c} - g^{j,c'}|| is at most the sum of seven lengths, squared."""
    vectors = p.vectors(" ".join(_PARTS))
    lengths = [p.parameter(f"length_{name}") for name in _PARTS]
    for name, vector, length in zip(_PARTS, vectors, lengths, strict=True):
        p.bounded(vector, length, f"the length of {name}")
    for one, other in itertools.combinations(range(len(vectors)), 2):
        name = f"Cauchy-Schwarz, of {_PARTS[one]} and {_PARTS[other]}"
        p.cauchy_schwarz(vectors[one], vectors[other], name)
    total = sum(vectors[1:], vectors[0])
    p.show(total.squared <= sum(lengths[1:], lengths[0]) ** 2)

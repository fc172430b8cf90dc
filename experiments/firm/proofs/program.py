"""FIRM, Sections 2 and 3 and Lemma 1: what optimality on the simplex says in every dimension.

A is the matrix of one client's gradients, with lambda* its weights, and A' that of another client.
lambda* is optimal if and only if <A lambda*, A (mu - lambda*)> + (beta/2) <lambda*, mu - lambda*>
is not negative for any mu of the simplex. No proof looks at the entries of a vector, so that the
number of objectives M is free as well as the dimension d.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from experiments.firm.claims.perturbation import curvature
from experiments.firm.theory import simplex as at
from experiments.firm.theory.program import gram, minimiser, regularised, root, weights
from linsys.linalg import Numbers, apply, norm, operator_norm
from ratecheck import gram as g


def _two_clients(A: Numbers, other: Numbers, beta: Numbers) -> dict[str, Any]:
    """lambda* and lambda'* in R^M, and both matrices times both, in R^d."""
    lam, moved = weights(A, beta), weights(other, beta)
    return {
        "lam": lam,
        "moved": moved,
        "A_lam": apply(A, lam),
        "A_moved": apply(A, moved),
        "B_lam": apply(other, lam),
        "B_moved": apply(other, moved),
        "beta": beta,
        "gap": at.gradient_gap(A, other),
        "here": norm(apply(A, lam)),
        "there": norm(apply(other, moved)),
    }


class Pair:
    """Two clients' programs with their optimality conditions, and B in the place of A'."""

    def __init__(self, p: g.Problem, regularised: bool = True) -> None:
        self.beta = p.parameter("beta") if regularised else 0
        self.lam, self.moved = p.vectors("lam moved", "R^M")
        self.A_lam, self.A_moved, self.B_lam, self.B_moved = p.vectors(
            "A_lam A_moved B_lam B_moved"
        )
        self.step = self.lam - self.moved
        here = self.A_lam @ (self.A_lam - self.A_moved) + self.beta * (self.lam @ self.step) / 2
        there = (
            self.B_moved @ (self.B_lam - self.B_moved) + self.beta * (self.moved @ self.step) / 2
        )
        p.assume(here <= 0, "lambda* is optimal")
        p.assume(there >= 0, "lambda'* is optimal")

    def directions(self, p: g.Problem) -> g.Form:
        """gap (||A lambda*|| + ||A' lambda'*||), gap the largest ||g^j - g'^j||."""
        gap, here, there = p.parameters_named("gap here there")
        p.bounded(self.A_lam, here, "||A lambda*||")
        p.bounded(self.B_moved, there, "||A' lambda'*||")
        p.bounded(self.A_lam - self.B_lam, gap, "gap at lambda*")
        p.bounded(self.B_moved - self.A_moved, gap, "gap at lambda'*")
        p.cauchy_schwarz(self.B_moved, self.A_lam - self.B_lam, "Cauchy-Schwarz at lambda*")
        p.cauchy_schwarz(-self.B_moved, self.A_lam - self.B_lam, "the same with -")
        p.cauchy_schwarz(self.A_lam, self.B_moved - self.A_moved, "Cauchy-Schwarz at lambda'*")
        p.cauchy_schwarz(-self.A_lam, self.B_moved - self.A_moved, "the same with - there")
        bound: g.Form = gap * here + gap * there
        return bound


@g.theorem("firm.remark3_both", at=_two_clients)
def remark3_both(p: g.Problem) -> None:
    """(beta/2)||lambda* - lambda'*||^2 + ||A lambda* - A' lambda'*||^2 <= gap (||A lambda*|| + ||A'
    lambda'*||), where ||(A - A') mu|| <= gap on the simplex.
    """
    pair = Pair(p)
    moved = pair.beta * pair.step.squared / 2 + (pair.A_lam - pair.B_moved).squared
    p.show(moved <= pair.directions(p))


@g.theorem("firm.remark3_direction", at=lambda A, other, beta: _two_clients(A, other, 0 * beta))
def remark3_direction(p: g.Problem) -> None:
    """The same without a regulariser."""
    pair = Pair(p, regularised=False)
    p.show((pair.A_lam - pair.B_moved).squared <= pair.directions(p))


def _change(A: Numbers, other: Numbers, beta: Numbers) -> dict[str, Any]:
    """(G - G') lambda'* and its largest length."""
    pair = _two_clients(A, other, beta)
    change = gram(A) - gram(other)
    return {
        **pair,
        "change": apply(change, pair["moved"]),
        "apart": norm(pair["lam"] - pair["moved"]),
        "size": operator_norm(change),
    }


def _moved_by(p: g.Problem, constant: int) -> None:
    """beta^2 ||lambda* - lambda'*||^2 <= constant^2 ||G - G'||_op^2."""
    pair = Pair(p)
    change = p.vector("change", "R^M")
    apart, size = p.parameters_named("apart size")
    step = pair.A_lam - pair.A_moved
    p.equal(
        change @ pair.step,
        pair.A_moved @ step - pair.B_moved @ (pair.B_lam - pair.B_moved),
        "<(G - G') lambda'*, lambda* - lambda'*>",
    )
    p.bounded(change, size, "||(G - G') lambda'*|| <= ||G - G'||_op")
    p.bounded(pair.step, apart, "||lambda* - lambda'*||")
    p.cauchy_schwarz(-change, pair.step, "Cauchy-Schwarz")
    p.equal(pair.step.squared, apart**2, "what ||lambda* - lambda'*|| is")
    p.show((pair.beta * apart) ** 2 <= (constant * size) ** 2)


@g.theorem("firm.eq41_sharper", at=_change, power=2, scale=lambda beta: beta**2)
def eq41_sharper(p: g.Problem) -> None:
    """beta ||lambda* - lambda'*|| <= 2 ||G - G'||_op, squared."""
    _moved_by(p, 2)


@g.theorem("firm.eq41_42", at=_change, power=2, scale=lambda beta: beta**2)
def eq41_42(p: g.Problem) -> None:
    """beta ||lambda* - lambda'*|| <= 4 ||G - G'||_op, squared."""
    _moved_by(p, 4)


def _lemma_1(A: Numbers, other: Numbers, beta: Numbers, R: Numbers) -> dict[str, Any]:
    """The largest gradient and sqrt(M) as well."""
    pair = _two_clients(A, other, beta)
    size = root(A.shape[-1], R)
    return {**pair, "R": R, "root": size, "apart": norm(pair["lam"] - pair["moved"])}


def _lemma1(p: g.Problem) -> None:
    """beta ||lambda* - lambda'*|| <= 4 R M gap, squared, for every beta, M and d."""
    pair = Pair(p)
    gap, R, root_of_M, apart = p.parameters_named("gap R root apart")
    one, beta, large = [1], [pair.beta], [(R * gap * root_of_M) ** 2 * r for r in (1, root_of_M)]
    there, step = pair.A_moved - pair.B_moved, pair.A_lam - pair.A_moved
    other = pair.B_lam - pair.B_moved
    p.bounded(pair.B_moved, R, "Lemma 7 at lambda'*", one)
    p.bounded(there, gap, "gap at lambda'*", one)
    p.equal(pair.step.squared, apart**2, "||lambda* - lambda'*||", [pair.beta**2])
    p.bounded(step, root_of_M * R * apart, "(45): ||A||_op <= sqrt(M) R", one)
    p.bounded(step - other, root_of_M * gap * apart, "(44): ||A - A'||_op <= sqrt(M) gap", one)
    p.cauchy_schwarz(pair.B_moved, other - step, "Cauchy-Schwarz at A' lambda'*", beta)
    p.cauchy_schwarz(-there, step, "Cauchy-Schwarz at (A - A') lambda'*", beta)
    p.assume(root_of_M >= 1, "M >= 1", large)
    p.show((pair.beta * apart) ** 2 <= (4 * R * root_of_M**2 * gap) ** 2)


lemma1 = g.theorem("firm.lemma1", at=_lemma_1, power=2, scale=lambda beta: beta**2)(_lemma1)
lemma8 = g.theorem("firm.lemma8", at=_lemma_1, power=2, scale=lambda beta: beta**2)(_lemma1)


def _growth(A: Numbers, beta: Numbers, lam: Numbers) -> dict[str, Any]:
    """The minimiser, and A times it and lambda."""
    Q = regularised(A, 2 * beta)
    best = minimiser(Q)
    return {
        "lam": lam,
        "best": best,
        "A_lam": apply(A, lam),
        "A_best": apply(A, best),
        "beta": beta,
    }


def _grows(p: g.Problem, constant: Fraction) -> None:
    beta = p.parameter("beta")
    lam, best = p.vectors("lam best", "R^M")
    A_lam, A_best = p.vectors("A_lam A_best")
    slope = A_best @ (A_lam - A_best) + beta * (best @ (lam - best))
    p.assume(slope >= 0, "lambda* is optimal")
    rise = A_lam.squared + beta * lam.squared - A_best.squared - beta * best.squared
    p.show(constant * beta * (lam - best).squared <= rise)


@g.theorem("firm.eq38", at=_growth)
def eq38(p: g.Problem) -> None:
    """f(lambda) - f(lambda*) >= (beta/2) ||lambda - lambda*||^2."""
    _grows(p, Fraction(1, 2))


@g.theorem("firm.eq38_sharper", at=_growth)
def eq38_sharper(p: g.Problem) -> None:
    """f(lambda) - f(lambda*) >= beta ||lambda - lambda*||^2."""
    _grows(p, Fraction(1))


def _mean(A: Numbers, beta: Numbers) -> dict[str, Any]:
    lam = weights(A, beta)
    equal = (0 * lam + 1) / A.shape[-1]
    inverse = equal[..., 0]
    return {
        "lam": lam,
        "equal": equal,
        "d": apply(A, lam),
        "mean": apply(A, equal),
        "beta": beta,
        "inverse": inverse,
    }


@g.theorem("firm.thm1_ascent", at=_mean)
def thm1_ascent(p: g.Problem) -> None:
    """<(1/M) sum_j g^j, d> >= ||d||^2 + (beta/2)(||lambda||^2 - 1/M), by the weights 1/M."""
    beta, inverse = p.parameters_named("beta inverse")
    lam, equal = p.vectors("lam equal", "R^M")
    d, mean = p.vectors("d mean")
    p.equal(lam @ equal, inverse, "weights sum to one")
    p.assume(d @ (mean - d) + beta * (lam @ (equal - lam)) / 2 >= 0, "lambda is optimal")
    p.show(d.squared + beta * (lam.squared - inverse) / 2 <= mean @ d)


def _curved(A: Numbers, other: Numbers, beta: Numbers) -> dict[str, Any]:
    """mu, and P (G - G') lambda'*, P the projection to sum zero."""
    pair = _change(A, other, beta)
    force = pair["change"] - pair["change"].sum(axis=-1, keepdims=True) / A.shape[-1]
    return {**pair, "force": force, "mu": np.maximum(curvature(A), 0), "size": norm(force)}


@g.theorem("firm.law_curvature", at=_curved, power=2)
def law_curvature(p: g.Problem) -> None:
    """(beta/2 + mu) ||lambda* - lambda'*|| <= ||P (G - G') lambda'*||, squared."""
    pair = Pair(p)
    force = p.vector("force", "R^M")
    mu = p.parameter("mu")
    step = pair.A_lam - pair.A_moved
    p.equal(
        force @ pair.step,
        pair.A_moved @ step - pair.B_moved @ (pair.B_lam - pair.B_moved),
        "<(G - G') lambda'*, lambda* - lambda'*>, a step of sum zero",
    )
    p.assume(mu * pair.step.squared <= step.squared, "mu is the least curvature of G")
    p.show((pair.beta / 2 + mu) ** 2 * pair.step.squared <= force.squared)


def _forms(A: Numbers, other: Numbers, first: Numbers, second: Numbers) -> dict[str, Any]:
    """The step between two weights, of the sign that makes h rise, and what is multiplied to it."""
    gap = gram(A) - gram(other)
    step, image = first - second, apply(gap, first + second)
    rises = (step * image).sum(axis=-1)[:, None] >= 0
    return {
        "step": np.where(rises, step, -step),
        "image": image,
        "apart": norm(step),
        "size": operator_norm(gap),
    }


@g.theorem("firm.eq39_40", at=_forms)
def eq39_40(p: g.Problem) -> None:
    """<lambda_1 - lambda_2, D (lambda_1 + lambda_2)> <= 2 ||D|| ||lambda_1 - lambda_2||."""
    step, image = p.vectors("step image", "R^M")
    apart, size = p.parameters_named("apart size")
    p.bounded(step, apart, "||lambda_1 - lambda_2||")
    p.bounded(image, 2 * size, "||lambda|| <= 1 on the simplex, D = G - G'")
    p.cauchy_schwarz(step, image, "Cauchy-Schwarz")
    p.show(step @ image <= 2 * size * apart)


def _preferred(A: Numbers, p: Numbers, factor: Numbers) -> dict[str, Any]:
    """Both solutions of (3), the entries but the first over roots of p, and the first ones."""
    after_p = at.raised(p, factor)
    before, after = at.preferred(A, p), at.preferred(A, after_p)
    return {
        "A_before": apply(A, before),
        "A_after": apply(A, after),
        "before": (before / np.sqrt(p))[:, 1:],
        "after": (after / np.sqrt(p))[:, 1:],
        "step": (after - before)[:, :1],
        "price": (before / p)[:, :1],
        "new_price": (after / after_p)[:, :1],
    }


@g.theorem("firm.eq3_steer_corrected", at=_preferred)
def eq3_steer_corrected(p: g.Problem) -> None:
    """||A d||^2 + sum_{i != 1} d_i^2/p_i <= d_1 (lambda_1/p_1 - lambda'_1/p'_1), d the change."""
    A_before, A_after = p.vectors("A_before A_after", "R^d")
    before, after = p.vectors("before after", "R^{M-1}")
    step, price, new_price = p.vectors("step price new_price", "R")
    moved, rest = A_after - A_before, after - before
    p.assume(A_before @ moved + before @ rest + price @ step >= 0, "lambda is optimal")
    p.assume(A_after @ moved + after @ rest + new_price @ step <= 0, "lambda' is optimal")
    p.show(moved.squared + rest.squared <= step @ (price - new_price))

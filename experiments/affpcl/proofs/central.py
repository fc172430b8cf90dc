"""AffPCL, Appendices E and F: one step of the central recursions, for all dimensions.

Directions are random vectors: x and E g are vectors of R^d, and g is one of the space of random
vectors with the inner product E<., .>, in which those of R^d lie. The number of agents n is a
parameter, as what averages over agents gain is assumed of the noise, by the name of its claim.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.affpcl.claims.appendix_f import decision, estimated_decision
from experiments.affpcl.theory import central, directions as go
from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import Numbers, apply
from ratecheck import gram as g


def of_parts(stack: FiniteStack, parts: Numbers) -> Numbers:
    """A sum of independent parts (B, n, S, d) as a random vector, (B, d + n S d): E<., .> as a dot.

    Its mean comes first, and then what the parts add to it, times the roots of their chances.
    """
    means = (stack.mu[..., None] * parts).sum(axis=2)
    spread = np.sqrt(stack.mu)[..., None] * (parts - means[:, :, None])
    return np.concatenate([means.sum(axis=1), spread.reshape(len(parts), -1)], axis=1)


def fixed(stack: FiniteStack, vector: Numbers) -> Numbers:
    """A vector (B, d) among the random ones of :func:`of_parts`."""
    count = stack.mu.shape[1] * stack.mu.shape[2] * vector.shape[-1]
    zeros = np.zeros((len(vector), count), dtype=int) + 0 * vector[:, :1]
    return np.concatenate([vector, zeros], axis=1)


def _errors(stack: FiniteStack) -> dict[str, Any]:
    """The errors of both iterates, the constants and the level of the noise, sigma^2 / n."""
    return {
        "dtheta": fixed(stack, stack.delta_theta),
        "dx": fixed(stack, stack.delta_x),
        "b": stack.lambda_b,
        "c": stack.lambda_c,
        "G": stack.G_A,
        "noise": stack.sigma**2 / stack.n,
    }


def _split(stack: FiniteStack, parts: Numbers, rest: Numbers) -> dict[str, Any]:
    """A direction, and what is left of it at the solutions."""
    return {"g": of_parts(stack, parts), "rest": of_parts(stack, rest)}


def _at_e(stack: FiniteStack) -> dict[str, Any]:
    solved = go.averaged(go.objective_residual(stack, stack.theta_star_central))
    return {**_errors(stack), **_split(stack, central.estimation(stack), solved)}


def _at_f1(stack: FiniteStack) -> dict[str, Any]:
    solved = go.averaged(go.local_residual(stack, stack.x_star_central))
    return {**_errors(stack), **_split(stack, decision(stack), solved)}


def _at_f2(stack: FiniteStack) -> dict[str, Any]:
    """With (22-2): what dx makes of it, and what dtheta does, as well."""
    residual = go.central_residual(stack, stack.x_star_central, stack.theta_star_central)[:, None]
    solved = go.averaged(np.repeat(residual, stack.n, axis=1))
    moved = apply(stack.Phi, stack.delta_theta[:, None])[:, None]
    theta = of_parts(stack, go.averaged(np.repeat(moved, stack.n, axis=1)))
    return {
        **_errors(stack),
        **_split(stack, estimated_decision(stack), solved),
        "moved": theta,
    }


def _step(divisor: int, of_theta: bool) -> Any:
    """The step size of a corollary."""

    def alpha(stack: FiniteStack) -> Numbers:
        if of_theta:
            return np.asarray(stack.step_share * stack.lambda_b / divisor)
        return np.asarray(stack.step_share * stack.lambda_c / (divisor * stack.G_A**2))

    return alpha


# Lemmas E.1 to F.4.


@g.theorem("affpcl.e1", at=_at_e)
def e1(p: g.Problem) -> None:
    """E<dtheta, g> >= lambda^b ||dtheta||^2: the mean of what is left at theta_*^c is zero."""
    dtheta, own, rest = p.vectors("dtheta g rest")
    b = p.parameter("b")
    p.assume(dtheta @ (own - rest) >= b * dtheta.squared, "lambda^b is the least of sym(Phibar)")
    p.equal(dtheta @ rest, 0, "E g = 0 at theta_*^c")
    p.show(b * dtheta.squared <= dtheta @ own)


@g.theorem("affpcl.e2", at=_at_e)
def e2(p: g.Problem) -> None:
    """E||g||^2 <= 2 ||dtheta||^2 + 2 sigma^2/n."""
    dtheta, own, rest = p.vectors("dtheta g rest")
    noise = p.parameter("noise")
    p.assume((own - rest).squared <= dtheta.squared, "||Phi(s)|| <= 1")
    p.assume(rest.squared <= noise, "affpcl.e2_H1 and affpcl.e2_H2: the noise is sigma^2/n")
    p.show(own.squared <= 2 * dtheta.squared + 2 * noise)


@g.theorem("affpcl.f1", at=_at_f1)
def f1(p: g.Problem) -> None:
    """E<dx, g> >= lambda^c ||dx||^2: the mean of what is left at x_*^c is zero."""
    dx, own, rest = p.vectors("dx g rest")
    c = p.parameter("c")
    p.assume(dx @ (own - rest) >= c * dx.squared, "lambda^c is the least of sym(Abar)")
    p.equal(dx @ rest, 0, "E g = 0 at x_*^c")
    p.show(c * dx.squared <= dx @ own)


@g.theorem("affpcl.f2", at=_at_f1)
def f2(p: g.Problem) -> None:
    """E||g||^2 <= 2 G_A^2 ||dx||^2 + 2 sigma^2/n."""
    dx, own, rest = p.vectors("dx g rest")
    G, noise = p.parameter("G"), p.parameter("noise")
    p.assume((own - rest).squared <= G**2 * dx.squared, "||A(s)|| <= G_A")
    p.assume(rest.squared <= noise, "affpcl.const_sigma_central_corrected: the noise is sigma^2/n")
    p.show(own.squared <= 2 * G**2 * dx.squared + 2 * noise)


@g.theorem("affpcl.f3", at=_at_f2, scale=lambda stack: stack.lambda_c)
def f3(p: g.Problem) -> None:
    """lambda^c E<dx, g> >= (7/8) (lambda^c)^2 ||dx||^2 - 2 ||dtheta||^2."""
    dx, dtheta, own, rest, moved = p.vectors("dx dtheta g rest moved")
    c = p.parameter("c")
    p.assume(dx @ (own + moved - rest) >= c * dx.squared, "lambda^c is the least of sym(Abar)")
    p.equal(dx @ rest, 0, "E g = 0 at the solutions")
    p.assume(moved.squared <= dtheta.squared, "||Phi(s)|| <= 1")
    p.show("7/8" * c**2 * dx.squared - 2 * dtheta.squared <= c * (dx @ own))


@g.theorem("affpcl.f4", at=_at_f2)
def f4(p: g.Problem) -> None:
    """E||g||^2 <= 2 G_A^2 ||dx||^2 + 4 ||dtheta||^2 + 4 sigma^2/n."""
    dx, dtheta, own, rest, moved = p.vectors("dx dtheta g rest moved")
    G, noise = p.parameter("G"), p.parameter("noise")
    p.assume((own + moved - rest).squared <= G**2 * dx.squared, "||A(s)|| <= G_A")
    p.assume(moved.squared <= dtheta.squared, "||Phi(s)|| <= 1")
    p.assume(rest.squared <= noise, "affpcl.const_sigma_central_corrected: the noise is sigma^2/n")
    p.show(own.squared <= 2 * G**2 * dx.squared + 4 * dtheta.squared + 4 * noise)


# The corollaries: one step of each recursion.


def _with_step(at: Any, divisor: int, of_theta: bool = False) -> Any:
    alpha = _step(divisor, of_theta)
    return lambda stack: {**at(stack), "a": alpha(stack)}


@g.theorem("affpcl.corE1", at=_with_step(_at_e, 4, of_theta=True))
def corE1(p: g.Problem) -> None:
    """(E||dtheta - alpha g||^2 - (1 - (3/2) alpha lambda^b) ||dtheta||^2)/alpha <= 2 alpha
    sigma^2/n for every alpha <= lambda^b/4.
    """
    dtheta, own = p.vectors("dtheta g")
    b, noise, a = (p.parameter(name) for name in ("b", "noise", "a"))
    p.assume(dtheta @ own >= b * dtheta.squared, "affpcl.e1")
    p.assume(own.squared <= 2 * dtheta.squared + 2 * noise, "affpcl.e2")
    p.assume(4 * a <= b, "alpha <= lambda^b/4")
    step = "3/2" * b * dtheta.squared - 2 * (dtheta @ own) + a * own.squared
    p.show(step <= 2 * a * noise)


@g.theorem("affpcl.corF1", at=_with_step(_at_f1, 4))
def corF1(p: g.Problem) -> None:
    """(E||dx - alpha g||^2 - (1 - (3/2) alpha lambda^c) ||dx||^2)/alpha <= 2 alpha sigma^2/n for
    every alpha <= lambda^c/(4 G_A^2).
    """
    dx, own = p.vectors("dx g")
    c, G, noise, a = (p.parameter(name) for name in ("c", "G", "noise", "a"))
    p.assume(dx @ own >= c * dx.squared, "affpcl.f1")
    p.assume(own.squared <= 2 * G**2 * dx.squared + 2 * noise, "affpcl.f2")
    p.assume(4 * a * G**2 <= c, "alpha <= lambda^c/(4 G_A^2)")
    step = "3/2" * c * dx.squared - 2 * (dx @ own) + a * own.squared
    p.show(step <= 2 * a * noise)


def _estimated(p: g.Problem, factor: Any) -> None:
    """lambda^c times both sides, with a factor of alpha ||dtheta||^2/lambda^c."""
    dx, dtheta, own = p.vectors("dx dtheta g")
    c, G, noise, a = (p.parameter(name) for name in ("c", "G", "noise", "a"))
    p.assume(c * (dx @ own) >= "7/8" * c**2 * dx.squared - 2 * dtheta.squared, "affpcl.f3")
    moment = 2 * G**2 * dx.squared + 4 * dtheta.squared + 4 * noise
    p.assume(own.squared <= moment, "affpcl.f4")
    p.assume(8 * a * G**2 <= c, "alpha <= lambda^c/(8 G_A^2)")
    p.assume(c <= G, "lambda^c <= G_A")
    p.assume(8 * a * c <= 1, "alpha lambda^c <= 1/8, of both")
    step = "3/2" * c * dx.squared - 2 * (dx @ own) + a * own.squared
    p.show(c * step <= factor * dtheta.squared + 4 * a * c * noise)


@g.theorem("affpcl.corF2", at=_with_step(_at_f2, 8), scale=lambda stack: stack.lambda_c)
def corF2(p: g.Problem) -> None:
    """One step of (22-2) adds 8 alpha ||dtheta||^2/lambda^c and 4 alpha^2 sigma^2/n."""
    _estimated(p, 8)


@g.theorem("affpcl.corF2_sharper", at=_with_step(_at_f2, 8), scale=lambda stack: stack.lambda_c)
def corF2_sharper(p: g.Problem) -> None:
    """One step of (22-2) adds (9/2) alpha ||dtheta||^2/lambda^c and 4 alpha^2 sigma^2/n."""
    _estimated(p, "9/2")


def _at_lyapunov(stack: FiniteStack) -> dict[str, Any]:
    b, c = stack.lambda_b, stack.lambda_c
    alpha = stack.step_share * np.minimum(c**2 / (8 * stack.G_A**2), b**2 / 4)
    estimate = of_parts(stack, central.estimation(stack))
    return {**_at_f2(stack), "h": estimate, "a": alpha}


def _weights(stack: FiniteStack) -> Numbers:
    return np.asarray((stack.lambda_b * stack.lambda_c) ** 2)


def _lyapunov(p: g.Problem, decisions: int, objectives: int) -> None:
    """Both recursions at once, times (lambda^b lambda^c)^2."""
    dx, dtheta, own, h = p.vectors("dx dtheta g h")
    b, c, G, noise, a = (p.parameter(name) for name in ("b", "c", "G", "noise", "a"))
    p.assume(dtheta @ h >= b * dtheta.squared, "affpcl.e1")
    p.assume(h.squared <= 2 * dtheta.squared + 2 * noise, "affpcl.e2")
    p.assume(c * (dx @ own) >= "7/8" * c**2 * dx.squared - 2 * dtheta.squared, "affpcl.f3")
    p.assume(own.squared <= 2 * G**2 * dx.squared + 4 * dtheta.squared + 4 * noise, "affpcl.f4")
    p.assume(8 * a * G**2 <= c**2, "alpha^c <= lambda^c/(8 G_A^2)")
    p.assume(4 * a <= b**2, "alpha^b <= lambda^b/4")
    p.assume(b**2 <= 1, "lambda^b <= 1, as ||Phi(s)|| <= 1")
    x = b**2 * (c**2 * dx.squared - 2 * c * (dx @ own) + a * own.squared)
    theta = 16 * (b**2 * dtheta.squared - 2 * b * (dtheta @ h) + a * h.squared)
    p.show(x + theta <= a * noise * (decisions * b**2 + objectives))


@g.theorem("affpcl.corF3_lyap", at=_at_lyapunov, scale=_weights)
def corF3_lyap(p: g.Problem) -> None:
    """The Lyapunov function of (22-2) and (20) contracts by 1 - alpha up to noise."""
    _lyapunov(p, 2, 64)


@g.theorem("affpcl.corF3_lyap_sharper", at=_at_lyapunov, scale=_weights)
def corF3_lyap_sharper(p: g.Problem) -> None:
    """The Lyapunov function of (22-2) and (20) contracts by 1 - alpha up to less noise."""
    _lyapunov(p, 4, 32)


def _several(at: Any, divisor: int, of_theta: bool) -> Any:
    """With the level of the noise sigma^2/(n - 1), for two agents or more."""
    stepped = _with_step(at, divisor, of_theta)
    return lambda stack: {**stepped(stack), "noise": stack.sigma**2 / (stack.n - 1)}


@g.theorem("affpcl.corE1_sharper", at=_several(_at_e, 2, True))
def corE1_sharper(p: g.Problem) -> None:
    """The same with alpha sigma^2/(n - 1), for every alpha <= lambda^b/2."""
    dtheta, own = p.vectors("dtheta g")
    b, noise, a = (p.parameter(name) for name in ("b", "noise", "a"))
    p.assume(dtheta @ own >= b * dtheta.squared, "affpcl.e1")
    p.assume(own.squared <= dtheta.squared + noise, "affpcl.e2_sharper, with c = n - 1")
    p.assume(2 * a <= b, "alpha <= lambda^b/2")
    step = "3/2" * b * dtheta.squared - 2 * (dtheta @ own) + a * own.squared
    p.show(step <= a * noise)


@g.theorem("affpcl.corF1_sharper", at=_several(_at_f1, 2, False))
def corF1_sharper(p: g.Problem) -> None:
    """The same with alpha sigma^2/(n - 1), for every alpha <= lambda^c/(2 G_A^2)."""
    dx, own = p.vectors("dx g")
    c, G, noise, a = (p.parameter(name) for name in ("c", "G", "noise", "a"))
    p.assume(dx @ own >= c * dx.squared, "affpcl.f1")
    p.assume(own.squared <= G**2 * dx.squared + noise, "affpcl.f2_sharper, with c = n - 1")
    p.assume(2 * a * G**2 <= c, "alpha <= lambda^c/(2 G_A^2)")
    step = "3/2" * c * dx.squared - 2 * (dx @ own) + a * own.squared
    p.show(step <= a * noise)

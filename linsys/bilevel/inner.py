"""Inner loop of OOD-PL: D gradient steps on the fine-tuning loss (10), and its exact minimum.

theta_{t+1} = theta_t - alpha grad_theta l_FT(phi, theta_t; z_t), on a ball if one is given.

The Hessian of L_FT is at most lambda = sum_x Z(x) Delta_x^2 / 4 for every theta, and alpha < 2 /
lambda makes exact steps decrease the loss. Beyond, they need not: the loss grows no faster than
linearly, so that a loop that diverges jumps about without ever reaching infinity. It is told by its
expected loss: larger at the end than at the start, at a step size beyond 2 / lambda. With smaller
steps a loop on samples may end higher as well, by its noise, and is let pass.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device

from linsys.bilevel._newton import minimise
from linsys.bilevel.arrays import finite, namespace, projected
from linsys.bilevel.oracle import DomainOracle, Oracle
from linsys.validate import InputError, check_integer, check_number

__all__ = ["Path", "check_path", "descend", "optimum"]


class Path(NamedTuple):
    """What an inner loop leaves behind: D x p numbers and what it has drawn, and no graph.

    theta: theta_0, ..., theta_D, shape (D + 1, p).
    samples: z_0, ..., z_{D-1}, as the oracle gave them: a sequence.
    shrink: by how much the projection on the ball shortened each new point; 1.0 within the ball.
    alpha: the step size.
    """

    theta: Any
    samples: Any
    shrink: Any
    alpha: float

    def back(self, t: int, v: Any) -> Any:
        """Vectors (..., p) times the derivative of the projection after step t, which is symmetric.

        The projection R theta / ||theta|| has the derivative (R / ||theta||) (I - u u') with u of
        norm one along theta.
        """
        if self.shrink[t] == 1.0:
            return v
        u = self.theta[t + 1, :] / namespace(v).linalg.vector_norm(self.theta[t + 1, :])
        return self.shrink[t] * (v - (v @ u)[..., None] * u)


def descend(
    oracle: Oracle,
    phi: Any,
    theta_0: Any,
    *,
    alpha: float,
    D: int,
    k: int = 0,
    radius: float | None = None,
) -> Path:
    """D steps from theta_0 (p,) at the reward phi (q,), with the samples of outer round k.

    Args:
        oracle: gradients of the inner loss, and samples.
        phi: parameters of the reward.
        theta_0: where the loop starts.
        alpha: the step size, positive.
        D: the number of steps, at least one.
        k: the outer round.
        radius: of a ball that every step is projected on; the whole space without it.

    Raises:
        InputError: D below one, NaN, a loop that overflows or ends with a larger expected loss than
            it started with at a step size that allows it.

    >>> from linsys.bilevel import DomainOracle, meta_distribution
    >>> oracle = DomainOracle(domain=meta_distribution(0).train[0], beta=1.0)
    >>> path = descend(oracle, np.ones(4), np.zeros(4), alpha=0.1, D=50)
    >>> path.theta.shape
    (51, 4)
    """
    check_number("alpha", alpha, low=0.0, low_open=True)
    check_integer("D", D, low=1)
    check_integer("k", k)
    if radius is not None:
        check_number("radius", radius, low=0.0, low_open=True)
    finite("phi", phi)
    xp = namespace(finite("theta_0", theta_0))
    if theta_0.ndim != 1:
        raise InputError(f"`theta_0` must have shape (p,); found {tuple(theta_0.shape)}")
    samples = tuple(oracle.draw_inner(k, t) for t in range(D))
    theta = xp.empty((D + 1, theta_0.shape[0]), dtype=theta_0.dtype, device=device(theta_0))
    theta[0, :], shrink = theta_0, []
    with np.errstate(over="ignore", invalid="ignore"):  # reported below, with the step
        for t, z in enumerate(samples):
            step = theta[t, :] - alpha * oracle.inner_grad(phi, theta[t, :], z)
            theta[t + 1, :], factor = projected(step, radius)
            shrink.append(factor)
    path = Path(theta, samples, tuple(shrink), alpha)
    check_path(oracle, phi, path)
    return path


def check_path(oracle: Oracle, phi: Any, path: Path) -> None:
    """Refuse a path that diverged, by its first step that shows it.

    Raises:
        InputError: with the step, and the step size that is stable.
    """
    xp, D = namespace(path.theta), len(path.samples)
    limit = oracle.stable_step(phi)
    bad = xp.any(~xp.isfinite(path.theta), axis=1)
    if bool(xp.any(bad)):
        raise InputError(
            "the inner loop must stay finite; found an overflow at step "
            f"{int(xp.argmax(1 * bad))}: `alpha` must be below {limit:.4g}; found {path.alpha:g}"
        )
    if path.alpha < limit:
        return

    def loss(t: int) -> float:
        return oracle.inner_loss(phi, path.theta[t, :], None)

    start = loss(0)
    if loss(D) > start:
        step = next(t for t in range(1, D + 1) if loss(t) > start)
        raise InputError(
            f"the inner loop diverges: its loss {start:.4g} became {loss(step):.4g} at step {step} "
            f"and {loss(D):.4g} at the end; `alpha` below {limit:.4g} is stable; "
            f"found {path.alpha:g}"
        )


def optimum(oracle: DomainOracle, phi: Any, start: Any = None) -> Any:
    """theta_*(phi), the minimiser of the expected inner loss, to rounding; shape (p,).

    Not the same as the policy nearest to pi_* in the mean of KL(pi_*||pi_theta) over prompts, from
    which the paper derives (10): with Z(x) = E_mu_hat exp(r / beta),

        L_FT = sum_x P(x) Z(x) KL(pi_*(.|x) || pi_theta(.|x)) + terms without theta,

    so that prompts of larger Z(x) count more. Both agree where the policy can do everything.

    Raises:
        InputError: no minimum, or more than one.

    >>> from linsys.bilevel import DomainOracle, meta_distribution
    >>> oracle = DomainOracle(domain=meta_distribution(0).train[0], beta=1.0)
    >>> theta = optimum(oracle, np.ones(4))
    >>> bool(np.abs(oracle.inner_grad(np.ones(4), theta, None)).max() < 1e-14)
    True
    """
    oracle.stable_step(phi)  # refuses weights that overflow

    def evaluate(theta: Any) -> tuple[float, Any, Any]:
        return (
            oracle.inner_loss(phi, theta, None),
            oracle.inner_grad(phi, theta, None),
            oracle.inner_hessian(phi, theta),
        )

    if start is None:
        xp = namespace(finite("phi", phi))
        start = xp.zeros(oracle.p, dtype=phi.dtype, device=device(phi))
    return minimise(f"the inner loss of domain `{oracle.domain.name}`", evaluate, start)

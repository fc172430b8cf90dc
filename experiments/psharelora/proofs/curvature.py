"""P-ShareLoRA: curvature and coverage turn likelihoods into distances, in every dimension.

Differences of rewards over all comparisons are one vector u, with the inner product E<., .>: a
linear map of the parameters' error d. Nothing but what is assumed of that map is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linsys.linalg import Numbers, lambda_min, logistic
from ratecheck import gram as g


def _covered(users: Any, fit: Any, pairs: Any) -> dict[str, Any]:
    """d = Theta - Theta*, u the differences of rewards, s those of the first outcome's chance."""
    ours, theirs = fit.delta, users.delta
    root = np.sqrt(pairs.weights)[..., None, :]
    change = logistic(pairs.logits(ours)) - logistic(pairs.logits(theirs))
    return {
        "d": (ours - theirs).reshape(len(ours), -1),
        "u": (root * (pairs.logits(ours) - pairs.logits(theirs))).reshape(len(ours), -1),
        "s": (root * change).reshape(len(ours), -1),
        "m": pairs.steepness(theirs, ours),
        "least": np.maximum(lambda_min(pairs.moment), 0),
    }


@g.theorem("psl.lemma_5_coverage", at=_covered)
def lemma_5_coverage(p: g.Problem) -> None:
    """2 m^2 lambda_min ||Theta - Theta*||^2 <= sum_i E||P_i - P*_i||^2 = 2 ||s||^2."""
    d = p.vector("d", "parameters")
    u, s = p.vectors("u s", "comparisons")
    m, least = p.parameter("m"), p.parameter("least")
    p.assume(least * d.squared <= u.squared, "coverage: E <D, X>^2 >= lambda_min ||D||_F^2")
    p.assume(m**2 * u.squared <= s.squared, "curvature: |Phi(a) - Phi(b)| >= m |a - b|")
    p.show(2 * m**2 * least * d.squared <= 2 * s.squared)


def _fitted(user: Any) -> dict[str, Any]:
    """u the differences of rewards, s those of the chances, between w_hat and w_diamond."""
    count = user.x.shape[1]
    root = np.sqrt((0 * user.radius + 1) / count)[:, None]

    def rewards(w: Numbers) -> Numbers:
        return np.asarray((user.x @ w[..., None])[..., 0])

    here, there = rewards(user.hat), rewards(user.diamond)
    rest = user.o - logistic(here)
    slope = (rest[..., None] * user.x).mean(axis=1)
    return {
        "d": user.d,
        "u": root * (here - there),
        "s": root * (logistic(here) - logistic(there)),
        "rest": (slope * user.d).sum(axis=-1),
        "c": user.c2,
        "least": np.maximum(lambda_min(user.Sigma), 0),
    }


def _fit(p: g.Problem) -> tuple[Any, ...]:
    """grad f(w_diamond)'d is grad f(w_hat)'d, no less than zero, and the change of the slope."""
    u, s = p.vectors("u s", "comparisons")
    rest, c = p.value("rest"), p.parameter("c")
    p.assume(rest >= 0, "w_hat maximises f over a ball that holds w_diamond")
    p.assume(c * u.squared <= u @ s, "curvature: (Phi(a) - Phi(b))(a - b) >= c_2 (a - b)^2")
    return u, s, rest, c


@g.theorem("psl.eq_B9_linear", at=_fitted)
def eq_B9_linear(p: g.Problem) -> None:
    """c_2 ||d||^2_Sigma <= grad f(w_diamond)'d, ||d||_Sigma = ||u||."""
    u, s, rest, c = _fit(p)
    p.show(c * u.squared <= rest + u @ s)


@g.theorem("psl.eq_B10_corrected", at=_fitted)
def eq_B10_corrected(p: g.Problem) -> None:
    """c_2 lambda_min(Sigma) ||d||^2 <= grad f(w_diamond)'d."""
    u, s, rest, c = _fit(p)
    d, least = p.vector("d", "parameters"), p.parameter("least")
    p.assume(least * d.squared <= u.squared, "lambda_min(Sigma) ||d||^2 <= ||d||^2_Sigma")
    p.show(c * least * d.squared <= rest + u @ s)

"""OOD-PL, Lemmas 4 and 5: one step of the inner loop, for all dimensions and numbers of samples.

Errors are random vectors, with the inner product E<., .>: x is theta_t - theta_*, and s the mean
gradient given theta_t, which is S x with a symmetric matrix S between the two constants.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.oodpl.theory.inner import Inner
from linsys.linalg import Numbers, norm
from ratecheck import gram as g


def _padded(rows: list[Numbers]) -> Numbers:
    """Vectors (B, m) of every step, m growing, as (B, D, m) with zeros behind the shorter ones."""
    longest = rows[-1].shape[1]
    behind = [np.zeros((len(row), longest - row.shape[1]), dtype=int) for row in rows]
    parts = [
        np.concatenate([r, z + 0 * r[:, :1]], axis=1) for r, z in zip(rows, behind, strict=True)
    ]
    return np.stack(parts, axis=1)


def _errors(run: Inner) -> dict[str, Any]:
    """x, s and the variance of one gradient before every step, (B, D, m) and (B, D)."""
    wide, phi = run.system.spread(), run.phi[:, None]
    rows: list[list[Numbers]] = [[], [], []]
    for level in run.levels[:-1]:
        root = np.sqrt(level.chance)[..., None]
        slope = wide.gradient(phi, level.theta)
        away = wide.each_gradient(phi, level.theta) - slope[:, :, None, None]
        rows[0].append((root * (level.theta - run.theta_star[:, None])).reshape(len(root), -1))
        rows[1].append((root * slope).reshape(len(root), -1))
        rows[2].append(level.mean(wide.mean(norm(away) ** 2)))
    strong, smooth = run.strong_and_smooth(run.true)
    return {
        "x": _padded(rows[0]),
        "s": _padded(rows[1]),
        "spread": np.stack(rows[2], axis=1),
        "sigma2": run.variances[0][:, None],
        "a": run.alpha[:, None],
        "c": run.gamma[:, None],
        "l": strong[:, None],
        "L": smooth[:, None],
    }


def _width(run: Inner) -> Numbers:
    strong, smooth = run.strong_and_smooth(run.true)
    return np.asarray((smooth - strong)[:, None])


@g.theorem("ood.lemma_5_corrected", at=_errors, scale=_width)
def lemma_5_corrected(p: g.Problem) -> None:
    """(L - l) E||theta_{t+1} - theta_*||^2 <= (L - l)(gamma^2 E||theta_t - theta_*||^2 + alpha^2
    sigma^2), for every alpha, by the chord of s -> (1 - alpha s)^2 from l to L.
    """
    x, s = p.vectors("x s")
    spread, sigma2, a, c, low, high = (
        p.parameter(n) for n in ("spread", "sigma2", "a", "c", "l", "L")
    )
    p.assume((1 - a * low) ** 2 <= c**2, "gamma >= |1 - alpha l|")
    p.assume((1 - a * high) ** 2 <= c**2, "gamma >= |1 - alpha L|")
    p.assume(low <= high, "l <= L", factors=[])
    p.assume(spread <= sigma2, "the variance is at most sigma^2", factors=[])
    p.assume(low * x.squared <= x @ s, "strongly convex: l <= S", factors=[1])
    p.assume(x @ s <= high * x.squared, "smooth: S <= L", factors=[1])
    p.assume(
        (s - low * x) @ (high * x - s) >= 0, "(S - l)(L - S) >= 0, as S is symmetric", factors=[1]
    )
    p.multiply("gamma >= |1 - alpha l|", "smooth: S <= L")
    p.multiply("gamma >= |1 - alpha L|", "strongly convex: l <= S")
    p.multiply("l <= L", "(S - l)(L - S) >= 0, as S is symmetric")
    p.multiply("l <= L", "the variance is at most sigma^2")
    after = (x - a * s).squared + a**2 * spread
    p.show((high - low) * after <= (high - low) * (c**2 * x.squared + a**2 * sigma2))


def _jacobians(run: Inner) -> dict[str, Any]:
    """e (I - alpha H), the mean of A and its rest, e (H - E H), of every step; and the constants.

    e is the error of d theta_t/d phi, and A = grad_phi grad_theta l + (d theta_*/d phi) H.
    """
    wide, phi = run.system.spread(), run.phi[:, None]
    J, alpha = run.jacobian_star[:, None, None, None], run.alpha.reshape(-1, *[1] * 5)
    rows: dict[str, list[Numbers]] = {"moved": [], "mean": [], "rest": [], "turned": []}
    for level in run.levels[:-1]:
        e, H = level.jacobian[:, :, None, None] - J, wide.each_hessian(phi, level.theta)
        A = wide.each_mixed(phi, level.theta) + J @ H
        mean, H_mean = (wide.mean(x, 2)[:, :, None, None] for x in (A, H))
        chance = level.chance[:, :, None, None] * wide.chance
        parts = {
            "moved": e - alpha * (e @ H),
            "mean": mean + 0 * A,
            "rest": A - mean,
            "turned": e @ (H - H_mean),
        }
        for name, part in parts.items():
            weighed = np.sqrt(chance)[..., None, None] * part
            rows[name].append(weighed.reshape(len(weighed), -1))
    a, d = (np.sqrt(error[:, :-1]) for error in run.errors)
    numbers = {"alpha": run.alpha, "gamma": run.gamma, "drift": run.drift, "noise": run.noise}
    return {
        **{name: _padded(row) for name, row in rows.items()},
        **{name: number[:, None] for name, number in numbers.items()},
        "sigma": np.sqrt(run.variances[2])[:, None],
        "a": a,
        "d": d,
    }


@g.theorem("ood.lemma_4_recursion", at=_jacobians)
def lemma_4_recursion(p: g.Problem) -> None:
    """E||e_{t+1}||^2 <= (gamma a + alpha Lambda d)^2 + alpha^2 s (s + 2 sigma_2 a)."""
    moved, mean, rest, turned = p.vectors("moved mean rest turned", "E R^{q p}")
    names = ("alpha", "gamma", "drift", "noise", "sigma", "a", "d")
    alpha, gamma, drift, noise, sigma, a, d = (p.parameter(name) for name in names)
    p.equal(mean @ rest, 0, "E of A less its mean is 0")
    p.equal(moved @ rest, -alpha * (turned @ rest), "the same, times e (I - alpha E H)")
    p.bounded(moved, gamma * a, "||I - alpha H|| <= gamma for each sample")
    p.bounded(mean, drift * d, "E A is 0 at theta_* and Lambda-Lipschitz")
    p.bounded(rest, noise, "sigma_1, and ood.dtheta_corrected times sigma_2")
    p.bounded(turned, sigma * a, "sigma_2 is the standard deviation of H, given e")
    p.cauchy_schwarz(moved, -mean, "Cauchy-Schwarz, of the mean")
    p.cauchy_schwarz(turned, rest, "Cauchy-Schwarz, of the rest")
    after = (moved - alpha * mean - alpha * rest).squared
    p.show(
        after <= (gamma * a + alpha * drift * d) ** 2 + alpha**2 * noise * (noise + 2 * sigma * a)
    )

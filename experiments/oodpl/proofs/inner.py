"""OOD-PL, Lemma 5: the contraction of the inner loop, for all dimensions and any number of samples.

Errors are random vectors, with the inner product E<., .>: x is theta_t - theta_*, and s the mean
gradient given theta_t, which is S x with a symmetric matrix S between the two constants.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.oodpl.theory.inner import Inner
from linsys.linalg import Numbers, norm
from ratecheck import gram as g


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
    longest = rows[0][-1].shape[1]

    def padded(row: Numbers) -> Numbers:
        zeros = np.zeros((len(row), longest - row.shape[1]), dtype=int) + 0 * row[:, :1]
        return np.concatenate([row, zeros], axis=1)

    strong, smooth = run.strong_and_smooth(run.true)
    return {
        "x": np.stack([padded(row) for row in rows[0]], axis=1),
        "s": np.stack([padded(row) for row in rows[1]], axis=1),
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

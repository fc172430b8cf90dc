"""FIRM, Section 4: one step of the averaged policy, for any number of clients and objectives.

Every vector is one of R^d; an average over clients or objectives is one vector, of which nothing
else is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.firm.theory.ascent import Ascent
from experiments.firm.theory.descent import Round
from linsys.linalg import Numbers, agent_mean
from ratecheck import gram as g


def _round(step: Round) -> dict[str, Any]:
    """gbar, and the weighted gradients at the average and averaged over the clients' policies."""
    return {
        "gbar": step.direction,
        "exact": step.gradient,
        "local": agent_mean(step.weighed(step.local)),
        "common": agent_mean(step.weighed(step.g)),
    }


@g.theorem("firm.eq6_corrected", at=_round)
def eq6_corrected(p: g.Problem) -> None:
    """T_1 <= 2 T_{1,1} + 2 T_{1,2}."""
    gbar, exact, local = p.vectors("gbar exact local")
    p.show((gbar - exact).squared <= 2 * (gbar - local).squared + 2 * (local - exact).squared)


def _split(p: g.Problem) -> None:
    """T_{1,1} <= 2 gradient error + 2 disagreement drift."""
    gbar, local, common = p.vectors("gbar local common")
    p.show((gbar - local).squared <= 2 * (common - local).squared + 2 * (gbar - common).squared)


eq14_corrected = g.theorem("firm.eq14_corrected", at=_round)(_split)
eq7_corrected = g.theorem("firm.eq7_corrected", at=_round)(_split)


@g.theorem(
    "firm.eq15",
    at=lambda parts: dict(zip("xyz", (parts[:, k] for k in range(3)), strict=True)),
)
def eq15(p: g.Problem) -> None:
    """||x + y + z||^2 <= 3 (||x||^2 + ||y||^2 + ||z||^2)."""
    x, y, z = p.vectors("x y z")
    p.show((x + y + z).squared <= 3 * (x.squared + y.squared + z.squared))


def _step(step: Round, a: Numbers, L: Numbers) -> dict[str, Any]:
    """The vectors of a round, the rise of lambda_t'J in it, the step size and the smoothness."""
    after = step.values(step.centre + a[:, None] * step.direction)
    gain = (step.common * (after - step.values(step.centre))).sum(axis=-1)
    return {**_round(step), "gain": gain, "a": a, "L": L}


def _rise(p: g.Problem) -> tuple[Any, ...]:
    gbar, exact = p.vectors("gbar exact")
    gain, a, L = p.value("gain"), p.parameter("a"), p.parameter("L")
    p.assume(gain >= a * (exact @ gbar) - a**2 * L * gbar.squared / 2, "lambda_t'J is L_J-smooth")
    return gbar, exact, gain, a, L


@g.theorem("firm.eq12", at=_step)
def eq12(p: g.Problem) -> None:
    """(12), for any step size."""
    gbar, exact, gain, a, L = _rise(p)
    kept = a * exact.squared + a * (1 - a * L) * gbar.squared - a * (gbar - exact).squared
    p.show(kept / 2 <= gain)


@g.theorem("firm.eq5", at=_step)
def eq5(p: g.Problem) -> None:
    """(5), for every step size of at most 1/L_J."""
    gbar, exact, gain, a, L = _rise(p)
    p.assume(a * L <= 1, "a <= 1/L_J")
    p.show((a * exact.squared - a * (gbar - exact).squared) / 2 <= gain)


def _mean(step: Round, p: Numbers, a: Numbers) -> dict[str, Any]:
    """All outcomes in one vector, each times the root of its chance."""
    weights = np.sqrt(p)[..., None]
    a_of_each = np.repeat(a, p.shape[1])[:, None]
    after = step.values(step.centre + a_of_each * step.direction)
    gain = (step.common * (after - step.values(step.centre))).sum(axis=-1)
    error = step.direction - step.gradient
    return {
        "exact": (weights * step.gradient.reshape(*p.shape, -1)).reshape(len(p), -1),
        "error": (weights * error.reshape(*p.shape, -1)).reshape(len(p), -1),
        "gain": (p * gain.reshape(p.shape)).sum(axis=1),
        "a": a,
    }


def _kept(p: g.Problem) -> tuple[Any, ...]:
    exact, error = p.vectors("exact error")
    gain, a = p.value("gain"), p.parameter("a")
    p.assume((a * exact.squared - a * error.squared) / 2 <= gain, "firm.eq5")
    return exact, error, gain, a


@g.theorem("firm.eq28_30", at=_mean, scale=lambda a: a)
def eq28_30(p: g.Problem) -> None:
    """(28) to (30): (5) over a/2, averaged over the outcomes."""
    exact, error, gain, a = _kept(p)
    p.show(a * exact.squared <= 2 * gain + a * error.squared)


def _sums(path: Ascent) -> dict[str, Any]:
    """The T steps of a path in one vector, and the rise of lambda_t'J in all of them."""
    rise = (path.lam * (path.J[:, 1:] - path.J[:, :-1])).sum(axis=(1, 2))
    count = len(rise)
    exact, error = path.weighed.reshape(count, -1), path.errors.reshape(count, -1)
    return {"exact": exact, "error": error, "gain": rise, "a": path.a}


def _times(path: Ascent) -> Numbers:
    return np.asarray(path.a * path.lam.shape[1])


@g.theorem("firm.eq31_corrected", at=_sums, scale=_times)
def eq31_corrected(p: g.Problem) -> None:
    """(31): (5) over a/2, averaged over the steps."""
    exact, error, gain, a = _kept(p)
    p.show(a * exact.squared <= 2 * gain + a * error.squared)


def _capped(path: Ascent, eta: Numbers) -> dict[str, Any]:
    return {**_sums(path), "most": path.top * (1 + eta[:, 1:].sum(axis=1))}


@g.theorem("firm.eq32_corrected", at=_capped, scale=_times)
def eq32_corrected(p: g.Problem) -> None:
    """(32): (31), and that the weighted objectives cannot rise for long."""
    exact, error, gain, a = _kept(p)
    most = p.value("most")
    p.assume(gain <= most, "firm.lemma10_corrected")
    p.show(a * exact.squared <= 2 * most + a * error.squared)


def _capped_twice(path: Ascent, eta: Numbers) -> dict[str, Any]:
    return {**_sums(path), "most": path.top * (1 + 2 * eta[:, :-1].sum(axis=1))}


@g.theorem("firm.eq32_decreasing", at=_capped_twice, scale=_times)
def eq32_decreasing(p: g.Problem) -> None:
    """(32) for steps that do not grow."""
    exact, error, gain, a = _kept(p)
    most = p.value("most")
    p.assume(gain <= most, "firm.lemma10_decreasing")
    p.show(a * exact.squared <= 2 * most + a * error.squared)


def _weights(starts: Numbers, stars: Numbers, eta: Numbers) -> dict[str, Any]:
    """Both clients' difference before a step, and that of their solutions, (B, T, M)."""
    from experiments.firm.theory import weights as at
    from linsys.linalg import norm

    path = at.smoothed(starts, stars, eta)
    before, solved = path[:, :-1, 0] - path[:, :-1, 1], stars[:, :, 0] - stars[:, :, 1]
    return {"x": before, "s": solved, "eta": eta, "m": norm(before), "n": norm(solved)}


@g.theorem("firm.eq21", at=_weights, power=2)
def eq21(p: g.Problem) -> None:
    """||(1 - eta) x + eta s|| <= (1 - eta) ||x|| + eta ||s||, squared."""
    x, s = p.vectors("x s", "R^M")
    eta, m, n = (p.parameter(name) for name in ("eta", "m", "n"))
    p.bounded(x, m, "||x||", [])
    p.equal(x.squared, m**2, "what ||x|| is")
    p.bounded(s, n, "||s||", [])
    p.equal(s.squared, n**2, "what ||s|| is")
    p.cauchy_schwarz(x, s, "Cauchy-Schwarz", [])
    p.assume(eta <= 1, "eta <= 1", [])
    p.multiply("eta <= 1", "Cauchy-Schwarz")
    p.show((x - eta * x + eta * s).squared <= (m - eta * m + eta * n) ** 2)


def _walks(step: Round, a: Numbers, L: Numbers, R: Numbers, K: int) -> dict[str, Any]:
    """All clients' policies and their mean, as vectors over clients, from where they set out."""
    clients = step.theta.shape[1]
    share = np.sqrt((1 + 0 * a) / clients)[:, None, None]
    count = len(a)
    return {
        "moved": agent_mean(step.weighed(step.local)) - step.gradient,
        "walks": (share * step.theta).reshape(count, -1),
        "mean": (share * (step.centre[:, None] + 0 * step.theta)).reshape(count, -1),
        "L": L,
        "way": a * R * K,
    }


@g.theorem("firm.eq26_sharper", at=_walks)
def eq26_sharper(p: g.Problem) -> None:
    """T_{1,2} <= L_J^2 (a R K)^2, as a mean square is no less than a variance."""
    moved = p.vector("moved", "R^d")
    walks, mean = p.vectors("walks mean", "R^{d C}")
    L, way = p.parameters_named("L way")
    p.equal(walks @ mean, mean.squared, "what a mean is")
    p.assume(walks.squared <= way**2, "K steps of length a R or less")
    p.assume(moved.squared <= L**2 * (walks - mean).squared, "grad J is L_J-Lipschitz; Jensen")
    p.show(moved.squared <= (L * way) ** 2)

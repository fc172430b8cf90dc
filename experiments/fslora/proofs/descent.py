"""FSLoRA, Appendix D.3: the descent of one round with the corrected constants, for all dimensions.

G is the gradient of f^S at the start of a round, m the mean of the round's total direction, and D
the weighted drift of the iterates. H, N and all constants are parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.fslora.theory.chain_round import Round
from linsys.linalg import Numbers
from ratecheck import gram as g


def _round(step: Round) -> dict[str, Any]:
    """G, m, the change of f^S and the constants of a round."""
    H = step.H + 0 * step.L
    return {
        "G": step.gradient,
        "m": step.average(step.total("sketched")),
        "rise": step.after - step.value(step.X[:, None])[:, 0],
        "moment": step.T2,
        "gamma": step.gamma,
        "H": H,
        "L": step.L,
        "D": step.weighed_drift(4),
        "L_s": step.L_s,
        "noise": H**2 * step.sigma_s2("start") + H * step.sigma_g2,
        "share": (1 + 0 * step.L) / step.rho.shape[1],
    }


def _twice_H(step: Round) -> Numbers:
    return np.asarray(2 * step.H + 0 * step.L)


def _drifted(p: g.Problem) -> tuple[Any, ...]:
    """m is within H L sqrt(D) of H G."""
    G, m = p.vectors("G m")
    gamma, H, L, D = (p.parameter(name) for name in ("gamma", "H", "L", "D"))
    p.assume((m - H * G).squared <= H**2 * L**2 * D, "f~_i(.; S) is L r^2/k_i^2-smooth, and Jensen")
    return G, m, gamma, H, L, D


@g.theorem("fslora.eq12_corrected", at=_round, scale=_twice_H)
def eq12_corrected(p: g.Problem) -> None:
    """(12) for one sketch a round, times 2 H."""
    G, m, gamma, H, L, D = _drifted(p)
    kept = gamma * H**2 * G.squared + gamma * m.squared - 2 * gamma * H * (G @ m)
    p.show(kept <= gamma * H**2 * L**2 * D)


def _descent(p: g.Problem) -> tuple[Any, ...]:
    """(11) and the corrected (13), with the step size of the corrected (14)."""
    G, m, gamma, H, L, D = _drifted(p)
    rise = p.value("rise")
    L_s, noise, share, moment = (p.parameter(n) for n in ("L_s", "noise", "share", "moment"))
    p.assume(rise <= -gamma * (G @ m) + gamma**2 * L_s * moment / 2, "fslora.eq11")
    spread = 2 * share * noise + 2 * H**2 * L**2 * D * share
    p.assume(moment <= m.squared + spread, "fslora.eq13_corrected")
    drift = gamma * H**2 * L**2 * D
    p.assume(2 * gamma * H * L_s <= 1, "gamma <= 1/(2 H L_s)", factors=[drift])
    p.assume(share <= 1, "N >= 1", factors=[gamma * H * L_s * drift])
    return G, rise, gamma, H, L, D, L_s, noise, share


def _outcomes(step: Round) -> dict[str, Any]:
    """All devices' totals less their means, those means less H grad f_i^S(X), and their noise."""
    total, P = step.total("g"), step.paths[0][0].shape[2]
    chance = step.expect(np.eye(P, dtype=int) + 0 * total[..., :1])
    root = np.sqrt(chance / total.shape[1])[..., None]
    mean = step.expect(total)[:, :, None]
    H = (step.H + 0 * step.L)[:, None, None, None]
    start = step.gradients[:, :, None]
    noise = total - step.total("sketched") + H * (step.paths[0][1] - start)

    def flat(values: Numbers) -> Numbers:
        return np.asarray((root * (values + 0 * total)).reshape(len(total), -1))

    known = _round(step)
    return {
        "m": known["m"],
        "apart": flat(total - mean),
        "rest": flat(mean - H * start),
        "sampled": flat(noise),
        "drift": flat(total - H * start - noise),
        **{name: known[name] for name in ("H", "L", "D", "noise", "share")},
    }


@g.theorem("fslora.eq13_corrected", at=_outcomes)
def eq13_corrected(p: g.Problem) -> None:
    """(13) for one sketch a round: the devices' variance over N, of what noise and drift make."""
    m = p.vector("m", "R^2")
    apart, rest, sampled, drift = p.vectors("apart rest sampled drift", "E of all devices")
    H, L, D, noise, share = p.parameters_named("H L D noise share")
    whole = sampled + drift
    p.equal(apart @ rest, 0, "E of a total less its mean is 0")
    p.equal((apart + rest).squared, whole.squared, "both are the totals less H grad f_i^S(X)")
    p.assume(sampled.squared <= noise, "H^2 sigma_s^2 + H sigma_g^2: the samples are independent")
    p.assume(drift.squared <= H**2 * L**2 * D, "f~_i(.; S) is L r^2/k_i^2-smooth, and Jensen")
    spread = 2 * share * noise + 2 * H**2 * L**2 * D * share
    p.show(m.squared + share * apart.squared <= m.squared + spread)


@g.theorem("fslora.eq14_corrected", at=_round, scale=_twice_H)
def eq14_corrected(p: g.Problem) -> None:
    """The descent of one round, times 2 H: the corrected (14)."""
    G, rise, gamma, H, L, D, L_s, noise, share = _descent(p)
    bound = 2 * gamma * H**2 * L**2 * D + 2 * gamma**2 * L_s * H * noise * share
    p.show(2 * H * rise + gamma * H**2 * G.squared <= bound)


def _whole_round(step: Round, c_h: Numbers) -> dict[str, Any]:
    """The constants of the bound of the drift as well."""
    H = step.H + 0 * step.L
    return {
        **_round(step),
        "power": step.powers(4),
        "c": 1 + c_h,
        "data": H * step.sigma_g2,
        "between": H**2 * (step.sigma_s2("start") + 2 * step.sigma_h2(c_h)),
    }


@g.theorem("fslora.one_round_corrected", at=_whole_round)
def one_round_corrected(p: g.Problem) -> None:
    """The descent of one round with the drift bounded, which the corrected theorem telescopes."""
    G = p.vector("G")
    rise = p.value("rise")
    names = ("gamma", "H", "L", "D", "L_s", "noise", "share", "power", "c", "data", "between")
    gamma, H, L, D, L_s, noise, share, power, c, data, between = (p.parameter(n) for n in names)
    half = gamma * H * G.squared / 2
    p.assume(
        rise + half <= gamma * H * L**2 * D + gamma**2 * L_s * noise * share,
        "fslora.eq14_corrected",
    )
    spread = data + "2/3" * between + "4/3" * H**2 * c * G.squared
    p.assume(2 * gamma**2 * power * spread >= D, "fslora.eq15_16_corrected")
    p.assume(
        16 * (gamma * H * L) ** 2 * power * c <= 1, "gamma <= 1/(4 H L max r^2/k^2 sqrt(c_h+1))"
    )
    kept = 2 * gamma**3 * H * L**2 * power * (data + "2/3" * between)
    p.show(rise + half / 2 <= gamma**2 * L_s * noise * share + kept)

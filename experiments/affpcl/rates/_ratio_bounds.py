"""Exact risks for density-ratio estimation between two hypotheses (Appendix C.3).

mu^0 is known and fixed, and mu^i is one of two distributions that differ by the sign of a tilt. A
pair of states a, b has mass q each under mu^0, and mu^i(a), mu^i(b) = q (1 +- v), so that rho^i is
1 +- v there, 1 elsewhere, and ||mu^i - mu^0||_TV = q v. With q = 1/2 these are the hypotheses of
Theorem 2's proof (its d states fall into two classes, v = epsilon/sqrt(d)); with v = 1 the agent
never visits one of two rare states.

The other agents' environment is (n mu^0 - mu^i)/(n - 1). Of two agents, the other one is the mirror
image, so that both together tell as much as 2 t samples of one. As n grows, what the others tell
vanishes like 1/n: t samples. These two cases are exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

#: Tilts tau that are tried, in units of 1/sqrt(samples): the worst one is near 0.53.
_TRIED = np.linspace(0.1, 1.2, 56)
#: Half width of the binomial window, in standard deviations.
_WIDTH = 12.0


def undecided(samples: int, v: float) -> float:
    """E[1 - E[sign | data]^2] of a fair sign in Bin(samples, (1 + sign v)/2): a binomial sum.

    >>> undecided(1, 0.5)  # the posterior mean of the sign is +-v
    0.75
    """
    from scipy.special import gammaln

    if v >= 1.0:
        return 1.0 if samples == 0 else 0.0
    half = 0.5 * samples * v + _WIDTH * 0.5 * np.sqrt(samples) + 1.0
    low, high = max(0, int(0.5 * samples - half)), min(samples, int(0.5 * samples + half) + 1)
    k = np.arange(low, high + 1, dtype=np.float64)
    choose = gammaln(samples + 1.0) - gammaln(k + 1.0) - gammaln(samples - k + 1.0)
    up, down = np.log1p(v) - np.log(2.0), np.log1p(-v) - np.log(2.0)
    plus = np.exp(choose + k * up + (samples - k) * down)
    minus = np.exp(choose + k * down + (samples - k) * up)
    total = plus + minus
    return float(np.divide(2.0 * plus * minus, total, out=np.zeros_like(k), where=total > 0).sum())


def spread_risk(samples: int, largest: float) -> tuple[float, float]:
    """Bayes risk for q = 1/2 at the worst tau = ||mu^i - mu^0||_TV <= largest: (risk, tau)."""
    tilts = np.unique(np.minimum(np.append(_TRIED / np.sqrt(samples), largest), largest))
    risks = [4.0 * tau**2 * undecided(samples, 2.0 * tau) for tau in tilts.tolist()]
    best = int(np.argmax(risks))
    return risks[best], float(tilts[best])


def rare_risk(samples: int, largest: float) -> tuple[float, float]:
    """Bayes risk for v = 1 at the worst q = ||mu^i - mu^0||_TV <= largest: (risk, q).

    The sign is known after one visit: 2 q (1 - 2 q)^samples, largest at q = 1/(2 (samples + 1)).
    """
    q = min(largest, 0.5 / (samples + 1.0))
    return 2.0 * q * (1.0 - 2.0 * q) ** samples, q


def linear_risk(t: int, tau: float, n: int = 2) -> float:
    """E_{mu^0} |rhohat - rho^i|^2 of one-hot linear estimation (C.4) on two states, exactly.

    eta(s) <- eta(s) - alpha (c_s eta(s) / n - 1{s^i = s}) with c_s agents at s, from 0 and with
    alpha = ln t / (lambda^rho t), lambda^rho = 1/2; the others follow (n mu^0 - mu^i)/(n - 1). The
    centred moments (E e^2, E e) of each state obey a linear recursion; its t-th power is taken.
    """
    alpha = np.log(t) / (0.5 * t)
    risk = 0.0
    for side in (1.0, -1.0):
        own, rho = 0.5 + side * tau, 1.0 + 2.0 * side * tau
        other = (0.5 * n - own) / (n - 1)
        visits = np.zeros(n)  # distribution of the visits of the n - 1 others
        visits[0] = 1.0
        for _ in range(n - 1):
            visits[1:] = visits[1:] * (1.0 - other) + visits[:-1] * other
            visits[0] *= 1.0 - other
        step = np.zeros((2, 2))  # acts on (E e^2, E e); the noise has mean zero
        constant = 0.0
        for x, chance in ((1.0, own), (0.0, 1.0 - own)):
            share = (np.arange(n) + x) / n
            keep, noise = 1.0 - alpha * share, alpha * (x - share * rho)
            weight = chance * visits
            step += [[weight @ keep**2, weight @ (2.0 * keep * noise)], [0.0, weight @ keep]]
            constant += float(weight @ noise**2)
        affine = np.array([[*step[0], constant], [*step[1], 0.0], [0.0, 0.0, 1.0]])
        start = np.array([rho**2, -rho, 1.0])
        risk += 0.5 * float((np.linalg.matrix_power(affine, t) @ start)[0])
    return risk

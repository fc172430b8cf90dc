"""Inner loops that :mod:`experiments.oodpl.rates.rate_inner` measures."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import ratecheck as rc
from experiments.oodpl.rates._rate_laws import InnerLaw
from experiments.oodpl.rates._rate_systems import FixedBetaConfig, cut, printed_factor
from linsys.bilevel import DomainOracle
from linsys.bilevel.kernels import adjoint, descend

#: Where exact errors are seen, in units of tau: the factor from 8 to 24, the factor D in between.
TIMES = (0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0)
FIRST, LAST = 8.0, 24.0
_GROWS = (12.0, 20.0)
#: Of the second eigenvalue of H over the first, where the factor D is measured.
GAP = 1.5
#: The size of the second mode there, with a coefficient of up to ten times that of the first.
SECOND_MODE = 10.0 * float(np.exp(_GROWS[0] * (1.0 - GAP)))
#: Sampled loops have this many tau.
LONG = 6.0


@dataclass(frozen=True, kw_only=True)
class RateInnerConfig(FixedBetaConfig):
    """Exact steps and sampled ones."""

    steps: tuple[float, ...] = rc.param(
        (0.25, 0.5, 0.95),
        above=0.0,
        high=1.0,
        increasing=True,
        least=1,
        doc="sizes of exact steps at ``beta``, relative to 2 / Lambda.",
    )
    betas: tuple[float, ...] = rc.param(
        (1.0, 2.0, 4.0, 8.0, 16.0),
        above=0.0,
        increasing=True,
        least=1,
        doc="of exact steps of the size ``share``.",
    )
    share: float = rc.param(
        0.5, above=0.0, high=1.0, doc="size of exact steps at ``betas``, relative to 2 / Lambda."
    )
    sampled: tuple[float, ...] = rc.param(
        (0.005, 0.01, 0.02, 0.04),
        above=0.0,
        high=1.0,
        increasing=True,
        doc="sizes of sampled steps at ``beta``, relative to 2 / Lambda.",
    )
    replicates: int = rc.param(20, low=2, doc="loops on samples per instance and step size.")

    @property
    def settings(self) -> list[tuple[float, float]]:
        """Pairs (relative step, beta) of exact steps."""
        by_step = [(step, self.beta) for step in self.steps]
        return by_step + [(self.share, b) for b in self.betas if (self.share, b) not in by_step]


def compute(config: RateInnerConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Errors and laws of both kinds of steps; columns that do not belong to a kind are zero."""
    drawn = config.drawn(block["instance"], train=1)
    oracle, phi = DomainOracle(domain=drawn.train[0], beta=config.beta), drawn.phi
    rows: list[dict[str, float | str]] = []
    for step, beta in config.settings:
        law = InnerLaw(replace(oracle, beta=beta), phi)
        rows += _exact(law, step, block["instance"])
    law = InnerLaw(oracle, phi)
    for step in config.sampled:
        rows += _sampled(config, law, step, block["instance"])
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([row.get(name, 0.0) for row in rows]) for name in names}


def _exact(law: InnerLaw, step: float, instance: int) -> list[dict[str, float | str]]:
    """One row per time."""
    oracle, phi = law.oracle, law.phi
    alpha = step * oracle.stable_step(phi)
    factor = law.factor(alpha)
    tau = -1.0 / np.log(factor)
    counts = {time: int(np.ceil(time * tau)) for time in TIMES}
    start = np.zeros(oracle.p)
    path = descend(oracle, phi, start, alpha=alpha, D=counts[LAST])
    errors = {t: adjoint(oracle, phi, cut(path, D)) - law.gradient for t, D in counts.items()}
    early, late = (counts[t] for t in _GROWS)
    u = law.spectrum[1][:, 0]
    c = float(u @ (path.theta[early] - law.theta)) / factor**early
    rise = errors[_GROWS[1]] / factor**late - errors[_GROWS[0]] / factor**early
    constants = oracle.domain.policy.constants(float(np.linalg.norm(law.theta)))
    distance = (constants.M / constants.L) ** 2 + float(law.theta @ law.theta)
    q = printed_factor(oracle, phi, law.theta, alpha)
    fixed = {
        "kind": "exact",
        "step": step,
        "beta": oracle.beta,
        "alpha": alpha,
        "factor": factor,
        "tau": tau,
        "printed": q,
        "repaired": printed_factor(oracle, phi, law.theta, alpha, repaired=True),
        "asked": -np.log(distance) / np.log(q),
        "gap": law.spectrum[0][1] / law.spectrum[0][0],
        "growth": float(np.linalg.norm(rise)) / (late - early),
        "growth_law": law.growth(alpha, c),
    }
    size = float(np.linalg.norm(law.gradient))
    return [
        {**fixed, "time": t, "D": D, "error": float(np.linalg.norm(errors[t])) / size}
        for t, D in counts.items()
    ]


def _sampled(
    config: RateInnerConfig, law: InnerLaw, step: float, instance: int
) -> list[dict[str, float | str]]:
    """Mean squared errors: in the first instance for several D, otherwise at the end."""
    phi, start = law.phi, np.zeros(law.oracle.p)
    seed = config.derive("samples", instance)
    oracle = replace(law.oracle, inner_batch=1, seed=seed)
    alpha = step * law.oracle.stable_step(phi)
    tau = -1.0 / np.log(law.factor(alpha))
    floor, more = law.floor(alpha)
    rows: list[dict[str, float | str]] = []
    for time in (*np.geomspace(LONG / 200.0, LONG, 9)[:-1], LONG) if instance == 0 else (LONG,):
        D = int(np.ceil(time * tau))
        squares = []
        for k in range(config.replicates):
            path = descend(oracle, phi, start, alpha=alpha, D=D, k=k)
            squares.append(float(((adjoint(law.oracle, phi, path) - law.gradient) ** 2).sum()))
        rows.append(
            {
                "kind": "sampled",
                "step": step,
                "beta": oracle.beta,
                "alpha": alpha,
                "time": time,
                "D": D,
                "error": float(np.mean(squares)),
                "scale": float(law.gradient @ law.gradient),
                "floor": floor,
                "more": more,
            }
        )
    return rows

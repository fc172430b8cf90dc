"""Values of L and runs of Algorithm 1 that :mod:`experiments.oodpl.rates.rate_beta` measures."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

import ratecheck as rc
from experiments.oodpl.rates._rate_laws import derivative
from experiments.oodpl.rates._rate_systems import RateConfig
from linsys.bilevel import (
    Domain,
    DomainOracle,
    MetaTraining,
    Start,
    TanhReward,
    meta_loss,
    optimum,
    pl_accuracy,
)
from linsys.rounds import rounds
from linsys.validate import Array, InputError, check_integer, check_number

#: Exponents in beta: of ||grad L||^2 and of what K rounds gain; of what a given reward changes.
FLAT, EFFECT = -2.0, -1.0
LINEAR, BOUNDED = "linear rewards", "bounded rewards"
GIVEN, SCALED = r"given $\eta$", r"$\eta \propto \beta^2$"
WITHOUT = "without a reward"
SAMPLES = "samples"


@dataclass(frozen=True, kw_only=True)
class RateBetaConfig(RateConfig):
    """Several domains to train on, and held-out ones.

    Attributes:
        betas: of all panels.
        unit: eta ||l''(0)|| at beta = 1, so that descent is stable from beta = 1 on.
        scaled: the beta of training with eta proportional to beta^2, from 1 on.
        alpha: of inner steps, relative to what is stable at beta = 1, at zero and at the minimum.
        train: domains to train on.
        held_out: domains held out.
        D: inner steps of a round.
        K: rounds.
        s: the bound of bounded rewards.
    """

    betas: tuple[float, ...] = (0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    scaled: tuple[float, ...] = (1, 5, 50, 500)
    unit: float = 0.5
    alpha: float = 0.9
    train: int = 2
    held_out: int = 1
    D: int = 60
    K: int = 30
    s: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("unit", "alpha", "s"):
            check_number(name, getattr(self, name), low=0.0, low_open=True)
        for name in ("train", "held_out", "D", "K"):
            check_integer(name, getattr(self, name), low=1)
        for name in ("betas", "scaled"):
            values = getattr(self, name)
            if list(values) != sorted(set(values)) or len(values) < 2 or values[0] <= 0:
                raise InputError(f"`{name}` must be positive and increasing; found {values}")

    @property
    def trained(self) -> Array:
        """The beta of training, from 1 on."""
        return np.array([beta for beta in self.betas if beta >= 1.0])


#: Beyond all windows: where limits and corrections are known from.
_FAR = 1e6
_CORRECTED = 1e4
#: A factor that is not a power of two, so that rounding tells two runs apart.
_OTHER = 10.0
#: Step sizes of loops on one sample, relative to those of exact ones.
_SAMPLED = 0.1


def _oracles(domains: tuple[Domain, ...], beta: float) -> list[DomainOracle]:
    return [DomainOracle(domain=domain, beta=beta) for domain in domains]


def compute(config: RateBetaConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """One row per curve and beta: ||grad L||^2, what a reward changes or gains, A_PL, room."""
    drawn = config.drawn(block["instance"], train=config.train, held_out=config.held_out)
    rows = _untrained(config, LINEAR, drawn.train, drawn.phi)
    bounded = tuple(
        replace(domain, reward=TanhReward(domain.reward.xi, s=config.s)) for domain in drawn.train
    )
    rows += _untrained(config, BOUNDED, bounded, drawn.phi)
    rows += _training(config, drawn.train, drawn.held_out, config.derive("runs", block["instance"]))
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([row.get(name, 0.0) for row in rows]) for name in names}


def _untrained(
    config: RateBetaConfig, curve: str, domains: tuple[Domain, ...], phi: Array
) -> list[dict[str, float | str]]:
    """L at a given phi; ``limit`` and ``room`` are of a curve times its power of beta."""
    base = meta_loss(_oracles(domains, 1.0), 0.0 * phi).value
    largest = max(float(np.abs(domain.reward.value(phi)).max()) for domain in domains)

    def sizes(beta: float) -> Array:
        found = meta_loss(_oracles(domains, beta), phi)
        return np.array([float(found.gradient @ found.gradient), abs(found.value - base)])

    powers = -np.array([FLAT, EFFECT])
    limit = sizes(_FAR) * _FAR**powers
    room = np.abs(sizes(_CORRECTED) * _CORRECTED**powers / limit - 1.0) * _CORRECTED
    fixed = {
        "curve": curve,
        "limit": limit[0],
        "limit_effect": limit[1],
        "room": room[0],
        "room_effect": room[1],
        "largest": largest,
    }
    rows: list[dict[str, float | str]] = []
    for beta in config.betas:
        square, effect = sizes(beta)
        rows.append({**fixed, "beta": beta, "square": square, "effect": effect})
    return rows


def _training(
    config: RateBetaConfig, domains: tuple[Domain, ...], held_out: tuple[Domain, ...], seed: int
) -> list[dict[str, float | str]]:
    """Ends of Algorithm 1; ``effect`` is the share of L(phi_0) - min L that is gained."""
    oracles = _oracles(domains, 1.0)
    zero = np.zeros(oracles[0].q)
    base = meta_loss(oracles, zero).value
    curvature = derivative(lambda phi: np.asarray(meta_loss(oracles, phi).gradient), zero)
    eta = config.unit / float(np.linalg.norm(curvature, 2))
    least = minimize(lambda phi: tuple(meta_loss(oracles, phi)), zero, jac=True, method="BFGS")
    stable = min(oracle.stable_step(phi) for oracle in oracles for phi in (zero, least.x))

    def ended(beta: float, step: float, *, sampled: bool = False) -> dict[str, float | str]:
        share = _SAMPLED if sampled else 1.0
        training = MetaTraining(
            alpha=share * config.alpha * stable,
            beta=beta,
            D=config.D,
            eta=share * step,
            K=config.K,
            seed=seed,
            inner_batch=1 if sampled else None,
            outer_batch=1 if sampled else None,
            every_task=not sampled,
        )
        asked = training.oracles(domains)
        first = training.init(Start(zero, np.zeros(oracles[0].p)), asked)
        *_, (last, _) = rounds(training, asked, first, training.K)
        found = meta_loss(_oracles(domains, beta), last.phi)
        return {
            "beta": beta,
            "square": float(found.gradient @ found.gradient),
            "effect": (base - found.value) / (base - float(least.fun)),
            "accuracy": _accuracy(held_out, beta, last.phi),
        }

    rows: list[dict[str, float | str]] = []
    rows += [{"curve": GIVEN, **ended(float(beta), eta)} for beta in config.trained]
    rows += [{"curve": SCALED, **ended(beta, eta * beta**2)} for beta in config.scaled]
    for beta in (1.0, _OTHER):
        rows.append({"curve": SAMPLES, **ended(beta, eta * beta**2, sampled=True)})
    rows.append({"curve": WITHOUT, "beta": 1.0, "accuracy": _accuracy(held_out, 1.0, zero)})
    return rows


def _accuracy(domains: tuple[Domain, ...], beta: float, phi: Array) -> float:
    """The mean of A_PL at the end of Algorithm 2."""
    oracles = _oracles(domains, beta)
    return float(np.mean([pl_accuracy(o.domain, optimum(o, phi)) for o in oracles]))

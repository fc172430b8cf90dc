"""What the rates of OOD-PL have in common: instances, exact curves of the paper's constants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import ratecheck as rc
from linsys.bilevel import DomainOracle, MetaDistribution, meta_distribution
from linsys.validate import Array

__all__ = [
    "LAW",
    "LEVEL",
    "FixedBetaConfig",
    "RateConfig",
    "normed",
    "printed_factor",
]

#: Level of the confidence intervals of all checks.
LEVEL = 0.95
#: Name of the laws in figures.
LAW = "theory"


@dataclass(frozen=True, kw_only=True)
class RateConfig(rc.Config):
    """Random meta-distributions, of the default sizes of linsys.bilevel.meta_distribution."""

    instances: int = rc.param(
        rc.MIN_REPLICATES,
        low=rc.MIN_REPLICATES,
        doc="of which each has its own domains and true rewards; intervals are over them.",
    )

    @property
    def pieces(self) -> list[rc.Block]:
        """One block per instance."""
        return [{"instance": i} for i in range(self.instances)]

    def drawn(
        self, instance: int, *, train: int, held_out: int = 0, **sizes: float
    ) -> MetaDistribution:
        """The domains of an instance, in other than the default ``sizes`` where they are given."""
        seed = self.derive("domains", instance)
        return meta_distribution(seed, train=train, held_out=held_out, **sizes)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class FixedBetaConfig(RateConfig):
    """Drawn domains, all with one beta."""

    beta: float = rc.param(
        2.0, above=0.0, doc="the factor of the reward, where it is not what varies."
    )


def normed(curves: Array, law: Array) -> Array:
    """Curves (instances, points) over the first value of their laws, so that all count the same."""
    return np.asarray(curves / law[:, :1])


def printed_factor(
    oracle: DomainOracle, phi: Array, theta: Array, alpha: float, *, repaired: bool = False
) -> float:
    """q = 3 (1 - alpha b mu / e^beta)^2 of Lemmas 3 and 4, in the case that suits them best.

    b is the least exp(r) at this phi, and mu the least curvature of -log pi at this theta alone:
    constants for a ball are smaller, and q is nearer to 3. ``repaired`` has b^(1/beta), the least
    exp(r/beta), in the place of b / e^beta.
    """
    least = float(oracle.domain.reward.value(phi).min())
    b = np.exp(least / oracle.beta if repaired else least - oracle.beta)
    mu = float(np.linalg.eigvalsh(oracle.domain.policy.covariance(theta))[:, 0].min())
    return float(3.0 * (1.0 - alpha * b * mu) ** 2)

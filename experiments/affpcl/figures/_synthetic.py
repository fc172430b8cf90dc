"""What Figures 1, 4, 5 and 6 share: the synthetic system of Appendix B, its runs, honest orderings.

Two sources of randomness are kept apart. An *instance* is one draw of the system (bases, directions
of the agents' means and objectives); it has the same directions at every level of heterogeneity and
the same first agents at every n. A *run* is one draw of the samples; all methods of an instance see
the same ones. A ratio of two methods is formed within an instance, its interval comes from the
spread over instances: it says what to expect of a system that was not drawn yet, and whether an
ordering was one instance's luck.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import ratecheck as rc
from linsys import InputError, sample_gaussian_system
from linsys.algorithms import AffPCL, Collaborative
from linsys.heterogeneity import delta_env, delta_obj
from linsys.kernels import simulate
from linsys.stability import check_steps, mean_square_radius
from linsys.systems import GaussianSystem

Values = NDArray[np.float64]

#: The error "at the end" is the mean over this many last rounds, as in Figures 4 and 5.
LATE = 10
#: Two errors "match" if the larger is at most this many times the smaller: at these steps what is
#: of second order in the step is worth some percent of an error, while methods that differ do so by
#: factors of 1.4 to 20.
MATCH = 1.1
#: A step size is refused if it lets mean-square errors grow by more than this factor in a run.
EXPLODED = 1e3
#: Fewer runs of some sixty rounds are over before a second thread has started.
WORTH_THREADS = 64


@dataclass(frozen=True, kw_only=True)
class SyntheticConfig(rc.Config):
    """The set-up of Appendix B."""

    d: int = rc.param(5, low=1, doc="dimension.")
    alpha: float = rc.param(0.01, above=0.0, doc="constant step size of all modules.")
    rounds: int = rc.param(60, low=2 * LATE, doc="t of the last round.")
    replicates: int = rc.param(10, low=2, doc="runs per instance.")
    instances: int = rc.param(10, low=3, doc="systems drawn.")
    normalise_theta: bool = rc.param(
        True,
        doc=(
            "whether the common part of the objectives is scaled to length one, so that "
            "delta_obj is relative to it (the text leaves it standard normal)."
        ),
    )

    def system(self, instance: int, env: float, obj: float, n: int) -> GaussianSystem:
        """Draw an instance of n agents at the labels delta_env, delta_obj."""
        return sample_gaussian_system(
            self.derive("system", instance),
            n=n,
            d=self.d,
            delta_env=env,
            delta_obj=obj,
            normalise_theta=self.normalise_theta,
        )

    def check_step(self, system: GaussianSystem) -> None:
        """Refuse a step size with which the errors of AffPCL would explode within the run.

        A step a little beyond mean-square stability is allowed: in sixty rounds it only costs
        variance, and the paper's own step is there at the highest levels.

        Raises:
            InputError: with the bound that is broken and the largest stable step.
        """
        try:
            check_steps(system, self.alpha, AffPCL())
        except InputError:
            radii = mean_square_radius(system, self.alpha)
            worst = max(radii.agents.max(), radii.center, radii.objective)
            if self.rounds * np.log(worst) > np.log(EXPLODED):
                raise

    def errors(
        self,
        system: GaussianSystem,
        algorithm: Collaborative[Any],
        instance: int,
        context: rc.Context,
        times: ArrayLike,
    ) -> Values:
        """||x_t^i - x_*^i||^2 of every run, shape (R, T, n); same samples for every algorithm."""
        return simulate(
            system,
            algorithm,
            steps=self.alpha,
            times=times,
            replicates=self.replicates,
            seed=self.derive("samples", instance),
            threads=context.threads if self.replicates >= WORTH_THREADS else 1,
            allow_unstable=True,  # what explodes has been refused by check_step
        ).error

    @property
    def late(self) -> NDArray[np.int64]:
        """The last rounds, over which errors are averaged."""
        return np.arange(self.rounds - LATE + 1, self.rounds + 1)


@dataclass(frozen=True, kw_only=True)
class PopulationConfig(SyntheticConfig):
    """A synthetic population whose number of agents is the same in all blocks."""

    n: int = rc.param(20, low=2, doc="agents.")


def true_levels(system: GaussianSystem) -> dict[str, float]:
    """What the labels stand for: Definition 2 in total variation, Section 4's objective level."""
    return {
        "delta_env": float(delta_env(system)),
        "delta_obj": float(delta_obj(system, "weights")),
    }


def describe(label: float, envs: Values, objs: Values) -> str:
    """One note on the true heterogeneity behind a label, over instances."""
    return (
        f"label δ = {label:g}: true δ_env = {_span(envs)} (largest total variation between two "
        f"agents), true δ_obj = {_span(objs)} (objective weights), over {envs.size} instances"
    )


def _span(values: Values) -> str:
    low, high = f"{values.min():.2f}", f"{values.max():.2f}"
    return low if low == high else f"{low} to {high}"


def below(name: str, predicted: str, ratio: rc.Ratio) -> rc.Check:
    """The claim that an error ratio is below 1."""
    return rc.below(name, predicted, ratio, remark=ratio.wins)


def matches(name: str, ratio: rc.Ratio) -> rc.Check:
    """The claim that two errors agree up to the factor MATCH, in both directions."""
    predicted = f"matches: 1 up to a factor {MATCH}"
    return rc.within(name, predicted, ratio, 1.0 / MATCH, MATCH, remark=ratio.wins)


def at_most(name: str, ratio: rc.Ratio) -> rc.Check:
    """The claim that an error is no larger than another one, up to the factor MATCH.

    This is what an upper bound promises where a figure's caption says that two methods do alike.
    """
    return rc.at_most(name, f"at most {MATCH}", ratio, MATCH, remark=ratio.wins)


def understated(what: str, ratio: rc.Ratio) -> list[str]:
    """A note where "similar" says less than what is measured."""
    if ratio.hi >= 1.0 / MATCH:
        return []
    return [
        f'the caption\'s "similar" understates it: {what} AffPCL has {ratio.value:.2f} '
        f"[{ratio.lo:.2f}, {ratio.hi:.2f}] times the error of learning alone; the check asks only "
        "that it is no larger, which is what an upper bound promises"
    ]

"""Figure 5: prompts that are distributed over the clients unevenly.

Problem and assumptions: eight clients, see ``_alignment``, which share the process but not the law
of the first state, the counterpart of a prompt: mu0^c is drawn from Dir(.3, .., .3) over the states
for every client. In the IID setting every client has the mean of these laws, which is what a random
partition of all prompts gives. So both settings have the same J. A conversation keeps to its topic:
with probability ``stay`` the next state is the present one, else it is drawn from the process.

Algorithms: FIRM in both settings; as a control federated averaging with the fixed weights 1/2.

Claims (Appendix A.2.2 and the caption): the weights are nearly identical in both settings,
harmlessness is close, helpfulness is slightly higher in the IID setting, and the other one gains
substantially all the same.

What the text leaves open, and the choices here: what the classes of the Dirichlet partition are;
here every state is one. "Substantially" is read as half of the gain of the IID setting at least.
Nothing tells helpfulness from harmlessness in these processes but their numbers: what uneven
prompts cost, they cost both. Where that cost comes from, the control says: with fixed weights
clients with different prompts pull in one direction, that of J; under FIRM each resolves the
conflict of its own prompts, and the mean of what they find is not what all prompts ask for.

References: FIRM, Appendix A.2.2.

The picture shows the first instance, means over runs with 90 % bands; checks are over instances.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import ratecheck as rc
from experiments.firm._alignment import (
    OBJECTIVES,
    Arms,
    RegularisedConfig,
    curves_of_first,
    gain_ratio,
)
from experiments.firm._comparison import (
    TWO_ABREAST,
    Values,
    advantage,
    against_rounds,
    curves_of,
    rewards_match,
    weights_match,
)
from experiments.firm._words import format_interval
from mgda.momdp import MOMDP
from mgda.scalarization import LinearScalarization
from mgda.trajectories import Clients

IID, UNEVEN, FIXED = "IID", "non-IID", ", fixed weights"


@dataclass(frozen=True, kw_only=True)
class Fig5Config(RegularisedConfig):
    """The set-up."""

    concentration: float = rc.param(
        0.3, above=0.0, doc="of the Dirichlet law of the clients' prompts."
    )
    stay: float = rc.param(
        0.9, low=0.0, below=1.0, doc="probability that the next state is the present one."
    )

    def processes(self, instance: int) -> list[MOMDP]:
        """The clients' processes, with laws of prompts of their own."""
        drawn = self.momdp(instance)
        rng = np.random.default_rng(self.derive("prompts", instance))
        laws = rng.dirichlet(np.full(self.states, self.concentration), size=self.clients)
        P = (1.0 - self.stay) * drawn.P + self.stay * np.eye(self.states)[:, None]
        return [replace(drawn, P=P, mu0=law) for law in laws]


def compute(config: Fig5Config, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Both settings, and how far apart the clients' laws of prompts and of visits are."""
    uneven = config.processes(block["instance"])
    pooled = replace(uneven[0], mu0=np.mean([m.start for m in uneven], axis=0))
    arms: Arms = {}
    fixed = LinearScalarization(alpha=config.alpha, K=config.K, weights=(0.5, 0.5))
    for name, clients in ((IID, Clients(pooled, config.clients)), (UNEVEN, Clients(uneven))):
        arms[name] = (config.firm(), clients)
        arms[name + FIXED] = (fixed, clients)
    visits = [m.at(np.zeros(m.d)).occupancy for m in uneven]
    return config.columns(
        arms,
        block["instance"],
        config.ends,
        prompts_apart=_from_mean(np.array([m.start for m in uneven])),
        visits_apart=_from_mean(np.array(visits)),
    )


def _from_mean(laws: Values) -> float:
    """Total variation of laws (C, S) to their mean, averaged over clients."""
    return float(0.5 * np.abs(laws - laws.mean(axis=0)).sum(axis=-1).mean())


def analyse(config: Fig5Config, table: rc.Table) -> rc.Analysis:
    """The four panels and the caption's claims."""
    _, harmless = rewards_match(OBJECTIVES.values(), table, UNEVEN, IID)
    kept_gain = gain_ratio(table, UNEVEN, IID)
    fixed = gain_ratio(table, UNEVEN + FIXED, IID + FIXED)
    spread = {arm: curves_of(table, "spread", arm).mean(axis=(1, 2)) for arm in (IID, UNEVEN)}
    checks = [
        weights_match(table, UNEVEN, IID),
        harmless,
        rc.above(
            "helpfulness: (IID − non-IID) / gain",
            "higher in the IID setting: above 0",
            _negative(advantage(table, 1, UNEVEN, IID)),
        ),
        rc.at_least(
            "mean gain, non-IID / IID",
            "substantial: at least 0.5",
            rc.mean_interval(kept_gain),
            0.5,
        ),
        rc.our_own(
            rc.above(
                "cost of uneven prompts, FIRM − fixed weights",
                "above 0: the clients' own weights cost",
                rc.mean_interval(fixed - kept_gain),
            )
        ),
        rc.our_own(
            rc.above(
                "spread of the clients' weights, non-IID / IID",
                "above 1: clients see different conflicts",
                rc.paired_ratio(spread[UNEVEN], spread[IID]),
                1.0,
            )
        ),
    ]
    return rc.Analysis(
        curves_of_first(config, table, (IID, UNEVEN)), checks, _notes(table, kept_gain, fixed)
    )


def _negative(interval: rc.Interval) -> rc.Interval:
    return rc.Interval(-interval.value, -interval.hi, -interval.lo)


def _notes(table: rc.Table, kept: Values, fixed: Values) -> list[str]:
    once = table.where(arm=IID, replicate=0, t=0)
    harmless = _negative(advantage(table, 2, UNEVEN, IID))
    return [
        f"total variation of a client's law of prompts to the mean law: "
        f"{once['prompts_apart'].mean():.2f}, of its visits under the uniform policy: "
        f"{once['visits_apart'].mean():.2f} (means over clients and instances)",
        f"uneven prompts cost {1 - kept.mean():.1%} of the gain under FIRM and "
        f"{1 - fixed.mean():.1%} with fixed weights; harmlessness pays "
        f"{format_interval(harmless, '.1%')} of the gain, and nothing makes it an exception here",
        "rewards are returns from the mean law of prompts in both settings",
    ]


EXPERIMENT = rc.Experiment(
    id="firm/fig5",
    title="IID prompts and uneven ones",
    source="Figure 5, Appendix A.2.2",
    kind="figure",
    profiles={"quick": Fig5Config(instances=16), "paper": Fig5Config(instances=60, replicates=16)},
    blocks=rc.Grid({"instance": "instances"}),
    compute=compute,
    analyse=analyse,
    panels=against_rounds,
    layout=TWO_ABREAST,
    parallel="blocks",
)

"""Speed-up of one agent against its distance from the centre, and the free ride of the central one.

Problem and assumptions: the most heterogeneous population there is, K groups of agents with
disjoint environments and pairwise antipodal objectives, delta_env = delta_obj = 1, and one more
agent. At distance zero it visits every group's states equally, mu^1 = mu^0, with the objective
theta_*^c: then bbar^1 = bbar^0 and delta_cen^1 = 0, although its environment has total variation
1 - 1/K from that of every other agent. From there it moves away,

- *smooth*: mu^1 and theta^1 move towards one group;
- *own state*: mu^1 puts mass on a state that nobody else visits.

Algorithm: AffPCL (8) with (7), (22-1) against learning alone, both with the step ln t / (lambda t),
lambda the smallest of lambda^i and lambda^b.

Guarantee (equation 9): the ratio is O~(max{1/n, nu delta_cen^1}): exponent -1 in n at delta_cen^1
<= 1/n, the *free ride* of Section 6.3; exponent +1 in delta_cen^1 at large n, as an upper bound.

Regime: t = 10^13. The exponent in delta_cen is that of the limit n to infinity; as in
affpcl/rate_delta it is 2 where the agent moves smoothly and 1 where the distance is a rare event.
The tolerance covers the finite range of delta (next order some times ``fit_to``).

The constant of the free ride: the server's average over all agents is a stratified sample of mu^0,
so that differences between groups cost nothing. The speed-up over learning alone, which draws from
the whole of mu^0, is n over the share of the noise that lies within groups: more than n.

References: AffPCL, Section 6.3, equation (9). Values are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.affpcl._rates_systems import RateConfig, Types, draw_pieces, slowest
from experiments.affpcl.rates._limits import limit_of_many
from linsys import InputError
from linsys.heterogeneity import delta_cen
from linsys.validate import check_integer, check_number

TOLERANCE = 0.05
#: Terms of higher order in the step size at t = 10^13.
ROUNDING = 1e-6
#: Exponents of n and of delta_cen.
RIDE, STATED = -1.0, 1.0
REFINED = {"smooth": 2.0, "own state": 1.0}
DISTANCE, FREE = "(a) distance from the centre", "(b) delta_env = delta_obj = 1"
CENTRAL, OTHER = "central agent", "agent of a group"
LOOKS = {
    "smooth": rc.Look("#D55E00", "o"),
    "own state": rc.Look("#CC79A7", "s"),
    CENTRAL: rc.Look("#D55E00", "v", "--"),
    OTHER: rc.Look("#56B4E9", "D"),
    "independent learning": rc.Look("#0072B2", "", "--", width=1.0),
}


@dataclass(frozen=True, kw_only=True)
class RateAgentConfig(RateConfig):
    """Groups without a state in common, and one more agent."""

    groups: int = rc.param(10, doc="K, even: objectives come in antipodal pairs.")
    states: int = rc.param(
        3, doc="of every group; there is one more, which the agent has to itself."
    )
    per_group: tuple[int, ...] = rc.param(
        (1, 3, 10, 30, 100, 300),
        low=1,
        increasing=True,
        doc="agents of every group in (b), increasing: n is K times as many and one more.",
    )
    distances: tuple[float, ...] = rc.param(
        (1e-4, 2e-4, 4e-4, 0.002, 0.01, 0.03, 0.1, 0.3, 0.6, 0.95),
        low=1e-5,
        increasing=True,
        below=1.0,
        doc=(
            "how far the agent has moved in (a), from the centre (0) to one group, or to the "
            "state of its own (1); increasing."
        ),
    )
    fit_to: float = rc.param(4e-4, doc="exponents in (a) are fitted over distances up to this one.")
    t: float = rc.param(1e13, low=1e6, high=1e15, doc="rounds of a run.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if check_integer("groups", self.groups, low=2) % 2:
            raise InputError(f"`groups` must be even; found {self.groups}")
        check_number("fit_to", self.fit_to, low=self.distances[1])

    def population(self, n: int, instance: int, move: str = "smooth", far: float = 0.0) -> Types:
        """n agents in groups and, as first type, the one at distance ``far`` from the centre."""
        size, groups = self.states, self.groups
        seed = self.derive("groups", instance)
        pieces = draw_pieces(seed, self.d, groups * size + 1, groups)
        mu = np.zeros((groups, groups * size + 1))
        for k in range(groups):
            there = slice(k * size, (k + 1) * size)
            mu[k, there] = pieces.mu[there] / pieces.mu[there].sum()
        theta = pieces.objectives
        b_bar = np.einsum("ks,sij,kj->i", mu, pieces.Phi, theta)
        centre = np.linalg.solve(np.einsum("ks,sij->ij", mu, pieces.Phi), b_bar)
        target = mu[0] if move == "smooth" else np.eye(groups * size + 1)[-1]
        aim = theta[0] if move == "smooth" else centre
        own = (1.0 - far) * mu.mean(axis=0) + far * target
        return Types(
            pieces.A,
            pieces.Phi,
            np.vstack([own, mu]),
            np.vstack([(1.0 - far) * centre + far * aim, theta]),
            (1, *(n // groups,) * groups),
        )


def compute(config: RateAgentConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Ratios of the central agent and, in (b), of the worst other one, with the true distances."""
    part, k = block["part"], block["instance"]
    ratios, distances = list[list[float]](), list[tuple[float, ...]]()
    if part == "n":
        grid = np.array([c * config.groups + 1 for c in config.per_group], dtype=np.float64)
        for n in config.per_group:
            types = config.population(n * config.groups, k)
            central, *others = types.relative_errors(config.t)
            ratios.append([central, max(others)])
            distances.append((float(delta_cen(types.system).value[0]), *types.heterogeneity))
    else:
        grid = np.array(config.distances)
        for far in config.distances:
            build = partial(config.population, instance=k, move=part, far=far)
            n = 40 * config.groups
            ratios.append(list(limit_of_many(build, n, config.t, [0])))
            types = build(n)
            distances.append((float(delta_cen(types.system).value[0]), *types.heterogeneity))
    names = ("delta_cen", "delta_env", "delta_obj")
    columns = dict(zip(names, np.array(distances).T, strict=True))
    agents = [CENTRAL, OTHER][: len(ratios[0])]
    return rc.long_table({"agent": agents, "x": grid}, ratio=np.transpose(ratios), **columns)


def analyse(config: RateAgentConfig, table: rc.Table) -> rc.Analysis:
    """Exponents in the distance and in n, and the constant of the free ride."""
    series, checks = [], []
    for move, refined in REFINED.items():
        part = table.where(part=move)
        near = part.unique("x") <= config.fit_to
        ratio, cen = part.grid("ratio", "instance", "x"), part.grid("delta_cen", "instance", "x")
        slopes = [rc.exact_slope(c[near], r[near]) for c, r in zip(cen, ratio, strict=True)]
        least = min(slopes, key=lambda s: s.value)
        far = max(slopes, key=lambda s: abs(s.value - refined))
        bound: dict[str, Any] = {"tolerance": TOLERANCE, "bound": True}
        name = f"distance from the centre, {move}"
        checks.append(rc.rate_check(f"{name}: as stated", STATED, least, limit="zero", **bound))
        checks.append(
            rc.our_own(rc.rate_check(f"{name}: as derived here", refined, far, tolerance=TOLERANCE))
        )
        series.append(rc.Series(move, DISTANCE, cen[0], ratio[0]))
    free = table.where(part="n")
    n = free.unique("x")
    ratio, other = (
        free.where(agent=agent).grid("ratio", "instance", "x") for agent in (CENTRAL, OTHER)
    )
    name = "free ride: error against n"
    checks.append(rc.rate_check(name, RIDE, slowest(n, ratio), tolerance=TOLERANCE, bound=True))
    gain = 1.0 / (ratio[:, -1] * n[-1])
    smallest, largest = float(gain.min()), float(gain.max())
    name = f"free ride: speed-up / n at n = {n[-1]:g}, as derived here"
    spread = rc.Interval(smallest, smallest, largest)
    checks.append(rc.every(rc.our_own(rc.at_least(name, "at least 1", spread, 1.0 - ROUNDING))))
    series += [
        rc.Series(CENTRAL, FREE, n, ratio[0]),
        rc.Series(OTHER, FREE, n, other[0]),
        rc.Series("independent learning", FREE, n, np.ones(n.size)),
        rc.Series("independent learning", DISTANCE, cen[0], np.ones(cen.shape[1])),
    ]
    notes = [
        f"exact values at t = {config.t:g}; (a) as n grows to infinity",
        f"free ride: true δ_env = {free['delta_env'].min():.6g}, δ_obj = "
        f"{free['delta_obj'].min():.4g} to {free['delta_obj'].max():.4g}, total variation between "
        f"the central agent and any other {1 - 1 / config.groups:g}, δ_cen of the central agent at "
        f"most {free['delta_cen'].max():.1g}",
        f"its speed-up is {gain.min():.3g} n to {gain.max():.3g} n: agents sample the groups in "
        "exact proportion, which removes the noise between groups; the worst agent of a group has "
        f"{other[:, -1].min():.3g} to {other[:, -1].max():.3g} times the error of learning alone",
    ]
    return rc.Analysis(series, checks, notes)


EXPERIMENT = rc.Experiment(
    id="affpcl/rate_agent",
    title="Speed-up of one agent against its distance from the centre",
    source="Section 6.3, equation (9)",
    kind="rate",
    variable="delta",
    profiles={"quick": RateAgentConfig(instances=2), "paper": RateAgentConfig(instances=20)},
    blocks=rc.Grid({"part": ("n", *REFINED), "instance": "instances"}),
    compute=compute,
    analyse=analyse,
    panels={
        DISTANCE: rc.Panel(
            r"true $\delta^1_{\mathrm{cen}}$, with $n \to \infty$",
            "error / independent",
            log="xy",
            slope=(
                rc.Guide(2.0, beside="smooth", span=(0.0, 0.3)),
                rc.Guide(1.0, beside="own state", above=True, span=(0.0, 0.3)),
            ),
        ),
        FREE: rc.Panel(
            "number of agents $n$",
            log="xy",
            slope=-1.0,
            title=r"(b) $\delta_{\mathrm{env}} = \delta_{\mathrm{obj}} = 1$",
        ),
    },
    layout=rc.Layout(width=3.7, height=2.8, share_y=True, looks=LOOKS, markers=99),
    parallel="blocks",
)

"""What FSLoRA's theory assumes, measured on a language model along the path of a training run.

Problem and assumptions: devices adapt one frozen model to questions of several domains, of which
each has its own mix, as in bridge/fslora. f is the mean over devices of f_i, the loss on ``probe``
samples of device i; f~(.; S) is f with the components that a sketch S of rank k keeps, times r / k,
and f^S its mean over sketches. The path is that of FSLoRA with mixed ranks, as in Figure 2; at some
of its points X all is measured for every r / k, whatever the ranks of the run.

Measured: the largest absolute eigenvalues of the Hessians of f, f~ and f^S (Assumption 4.1,
Proposition D.4), the variances of a gradient by the data and by the sketch (sigma_g^2 and sigma_s^2
of Assumption 4.2), how far the devices' gradients are apart (Assumption 4.3), and f^S - f.

What the paper says: f~ is (r/k)^2 L-smooth and f^S is (r/k) L-smooth, L being the largest curvature
of f anywhere. There is no such L (``fslora.a41_any`` of the audit), and with the curvature at X in
its place both can fail (``fslora.d4_local``): they are notes here, not checks. Neither predicts
what a model does, being upper bounds; hence the exponents of r/k, as slopes of logarithms over all
r/k, with 95 % intervals over seeds.

Derivation of the checks. f is a function of the products B A of all modules, which share S, so that
f~(X; S) = f(T X) with T = S^{1/2} on both factors. Then

- the Hessian of f~ at X is T' H(T X) T: r/k times that of f, at a point farther out with fewer
  components. Both sides are evaluated along the steepest direction.
- as E T'T = I, the curvature of f^S is at most the largest of (k/r) times that of f~: no factor r/k
  is left of Proposition D.4. Sketches are partitions of the components, for which the mean of T'T
  is I exactly, so that this holds for the sketches that were drawn.
- at the start B = 0, f^S = f, and a gradient of f~ is r/k times the kept part of that of f:
  sigma_s^2 = (r/k - 1) ||grad f_i||^2, and the mean of sigma_g^2 over sketches is r/k times its
  value without them. Both need the chances of single components alone: exact for partitions.

Eigenvalues are Lanczos', from below, until the residual is ``tolerance`` of the value. The limit of
the check of f^S is 1 plus twice that, for two of them. Identities may be off by 1e-3 in single
precision; a wrong power of r/k is off by more than a third. The mean over fewer partitions than
there are is on average at least as curved as f^S, as a norm is convex; k = 1 has one only.

What came out of the quick profile: at the start, f~ with r/k = 8 is 10 times as curved as f and f^S
2.6 times, about r/k and well below it. Later the curvature of f, which the theory holds fixed, has
fallen to a tenth, while at S^{1/2} X, where f~ is, it has not: in round 64 the ratios are 190 (57
to 620) and 56 (21 to 150), beyond the 64 and 8 of Proposition D.4 with the curvature at X for L.

How settings were chosen: the step size and the rounds of ``bridge/fslora``, half as many again as
there; r, samples and sketches by cost. So is the laptop profile, which adapts the last two layers
of its model and has the step size and rounds of ``bridge/fslora`` there.

References: FSLoRA, Section 4, Appendix D.4.

The picture shows geometric means over seeds with 90 % bands; black lines are what the paper says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

import ratecheck as rc
from experiments.bridge.devices import LAPTOP, PAPER, DeviceSetup, RatiosConfig
from experiments.bridge.models import Values, threads
from experiments.bridge.readings import extent, identity
from experiments.fslora.bridge._device_runs import SUMS, path
from experiments.fslora.bridge._smoothness import MEASURED, measure
from linsys import InputError
from linsys.sketching import FSLoRA
from linsys.sketching.federated import Federated, State
from linsys.validate import check_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lora_bridge.tasks import Task


@dataclass(frozen=True, kw_only=True)
class SmoothnessConfig(RatiosConfig):
    """The set-up."""

    rank: int = 8
    seeds: int = 4
    gamma: float = rc.param(0.01, above=0.0, doc="step size of the run.")
    rounds: int = rc.param(96, low="points", doc="T.")
    points: int = rc.param(3, low=1, doc="rounds after the start at which all is measured.")
    factors: tuple[int, ...] = rc.param(
        (8, 4, 2), doc="r / k, decreasing, each a divisor of r; 1 is added."
    )
    draws: int = rc.param(
        8, low=1, doc="sketches of every r / k, in whole partitions of the components."
    )
    probe: int = rc.param(4, low=2, doc="samples of a device that make up its loss.")
    steps: int = rc.param(40, low=1, doc="products with a Hessian for one eigenvalue, at most.")
    tolerance: float = rc.param(
        0.01,
        above=0.0,
        high=0.5,
        doc="relative residual of an eigenvalue with which its products end.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for factor in self.factors:
            if check_integer("factors", factor, low=2) > self.rank or self.rank % factor:
                raise InputError(f"`factors` must divide rank = {self.rank}; found {factor}")
        if len(self.factors) < 2 or list(self.factors) != sorted(set(self.factors), reverse=True):
            raise InputError(f"`factors` must be two or more, decreasing; found {self.factors}")

    @property
    def times(self) -> list[int]:
        """Rounds that are measured, from 0 on."""
        return [round(self.rounds * i / self.points) for i in range(self.points + 1)]


class SmoothnessSetup(DeviceSetup):
    """Devices whose losses have second derivatives."""

    attention: ClassVar[str] = "eager"


def compute(config: SmoothnessConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Train, and measure on the way."""
    from lora_bridge.curvature import Precision

    k, precision = block["draw"], Precision(config.steps, config.tolerance)

    def method(gamma: float, seed: int) -> Federated:
        return FSLoRA(
            gamma=gamma, H=config.local_steps, ranks=config.ranks(), optimizer="adamw", seed=seed
        )

    setup = SmoothnessSetup(config)
    drawn = setup.draw("test", k)
    task, factors = probes(drawn.oracle.task, config.probe), [*config.factors, 1]

    labels = {key: [[f"r/k={factor}" for factor in factors]] for key in MEASURED}

    def measured(state: State) -> dict[str, list[float]]:
        rng = np.random.default_rng(config.derive("sketches", k, state.t))
        rows = [measure(task, state.X, f, config.draws, precision, rng) for f in factors]
        return {name: [row[name] for row in rows] for name in labels}

    with threads(context):
        r, gamma, times = config.rank, config.gamma, config.times
        measures = path(setup, context, method, r, gamma, "test", k, times, measured, labels)
    columns = {name: value for name, value in measures.items() if name not in SUMS}
    return rc.long_table({"t": times, "factor": factors}, **columns, what=drawn.name)


def probes(task: Task, size: int) -> Task:
    """The task with the first samples of every device alone, and without dropout."""
    for device in range(task.clients):
        if task.size(device) < size:
            raise InputError(
                f"`probe` must be at most the samples of every device; found {size} for "
                f"{task.size(device)} of device {device}"
            )
    first = [{name: value[:size] for name, value in shard.items()} for shard in task.shards]
    return replace(task, shards=first, bank=task.bank.with_options(dropout=0.0))


#: The relative error that sums in single precision may have in an identity.
_ROUNDING = 1e-3
#: What grows with r/k: the column that a panel shows, the column it is divided by, and whether the
#: latter is measured without a sketch.
GROWTH: Mapping[str, tuple[str, str, bool]] = {
    "curvature of f~ / that of f": ("curvature", "curvature", True),
    "curvature of f^S / that of f": ("relaxed", "curvature", True),
    "sigma_g^2 / that without a sketch": ("noise", "noise", True),
    "sigma_s^2 / |grad f_i^S|^2": ("spread", "size", False),
    "f^S / f": ("loss", "loss", True),
}
CURVED, RELAXED, NOISE, SPREAD, RAISED = GROWTH
#: The function of r/k that the paper states, or that is derived for the start of training.
SAID: Mapping[str, tuple[str, Callable[[Values], Values]]] = {
    CURVED: ("Prop. D.4: (r/k)^2", lambda x: x**2),
    RELAXED: ("Prop. D.4: r/k", lambda x: x),
    NOISE: ("at the start: r/k", lambda x: x),
    SPREAD: ("at the start: r/k - 1", lambda x: x - 1),
}
PATH = "without a sketch, along the path"
#: Curves of the last panel, drawn where they are positive; with one device the gradients' spread is
#: zero.
ALONG = {
    "curvature of f": "curvature",
    "sigma_g^2": "noise",
    "|grad f|^2": "slope",
    "devices apart": "apart",
    "loss f": "loss",
}


def analyse(config: SmoothnessConfig, table: rc.Table) -> rc.Analysis:
    """Growth with r/k, what the theory's constants are along the path, and the checks."""
    series = []
    for panel in GROWTH:
        x, growth = _growth(config, table, panel)
        series += [
            rc.Series(_at(time), panel, x, *_band(growth[:, i]))
            for i, time in enumerate(config.times)
        ]
    plain = table.where(factor=1)
    along = {name: plain.grid(column, "draw", "t") for name, column in ALONG.items()}
    series += [
        rc.Series(name, PATH, config.times, *_band(values))
        for name, values in along.items()
        if (values > 0).all()
    ]
    return rc.Analysis(series, _checks(config, table), _notes(config, table))


def _band(values: Values) -> tuple[Values, Values, Values]:
    """Geometric mean over seeds, (seeds, points), and a band."""
    mean, low, high = rc.mean_band(np.log(values))
    return np.exp(mean), np.exp(low), np.exp(high)


def _at(time: int) -> str:
    return f"round {time}"


def _grid(config: SmoothnessConfig, table: rc.Table, name: str) -> Values:
    """A column, (seeds, times, r/k), 1 last."""
    grids = [table.where(factor=f).grid(name, "draw", "t") for f in (*config.factors, 1)]
    return np.stack(grids, axis=-1)


def _growth(config: SmoothnessConfig, table: rc.Table, panel: str) -> tuple[list[int], Values]:
    """r/k, increasing, and a panel's numbers, (seeds, times, r/k)."""
    name, other, alone = GROWTH[panel]
    below = _grid(config, table, other)
    ratio = _grid(config, table, name) / (below[..., -1:] if alone else below)
    factors = [*config.factors, 1][::-1]
    return (factors, ratio[..., ::-1]) if alone else (factors[1:], ratio[..., :-1][..., ::-1])


def _checks(config: SmoothnessConfig, table: rc.Table) -> list[rc.Check]:
    factors = np.array(config.factors, dtype=np.float64)
    start = {
        name: _grid(config, table, name)[:, 0] for name in ("noise", "spread", "size")
    }  # (seeds, r/k)
    sketch = start["spread"][:, :-1] / ((factors - 1) * start["size"][:, -1:])
    data = start["noise"][:, :-1] / (factors * start["noise"][:, -1:])
    steepest, relaxed = (_grid(config, table, name)[..., :-1] for name in ("steepest", "relaxed"))
    return [
        identity("start: sigma_s^2 / ((r/k - 1) |grad f_i|^2)", sketch, _ROUNDING),
        identity("start: sigma_g^2 / (r/k of that without a sketch)", data, _ROUNDING),
        identity(
            "path: curvature of f~ at X / (r/k of that of f at S^1/2 X), one direction",
            _grid(config, table, "identity")[..., :-1],
            _ROUNDING,
        ),
        rc.every(
            rc.at_most(
                "path: curvature of f^S / (k/r of the largest of f~), any r/k",
                "at most 1",
                extent(relaxed * factors / steepest),
                1.0 + 2.0 * config.tolerance,
            )
        ),
    ]


def _notes(config: SmoothnessConfig, table: rc.Table) -> list[str]:
    notes, ends = [], (("start", 0), ("end", -1))
    for panel in (CURVED, RELAXED, NOISE):
        x, growth = _growth(config, table, panel)
        exponents = ", ".join(f"{_exponent(x, growth[:, i])} at the {end}" for end, i in ends)
        notes.append(f"exponent of r/k, {panel}: {exponents}")
    factor = config.factors[0]
    for panel, power, of in ((CURVED, 2, "f~"), (RELAXED, 1, "f^S")):
        growth = _growth(config, table, panel)[1][..., -1]  # (seeds, times)
        limit = factor**power
        peak = np.log(growth).mean(0).argmax()
        notes.append(
            f"{of} with r/k = {factor}, on average at most {_typical(growth[:, peak])} times as "
            f"curved as f, in round {config.times[peak]}; Proposition D.4 with the curvature at X "
            f"for L: {limit}; largest of all r/k, rounds and seeds over what it says: "
            f"{_worst(config, table, panel, power):.3f}"
        )
    losses = _grid(config, table, "loss")[:, -1]  # (seeds, r/k)
    penalties, beside = losses[:, :-1] - losses[:, -1:], losses[:, -1]
    each = ", ".join(f"{f}: {_interval(penalties[:, j])}" for j, f in enumerate(config.factors))
    notes.append(
        f"f^S - f at the end, by r/k: {each}; f is {_interval(beside)} there; in proportion to "
        "r/k - 1 to second order in the products"
    )
    apart, slope = (table.where(factor=1).grid(name, "draw", "t") for name in ("apart", "slope"))
    if (apart > 0).all():
        exponents = ", ".join(f"{_typical((apart / slope)[:, i])} at the {end}" for end, i in ends)
        notes.append(f"largest |grad f_i - grad f|^2 over |grad f|^2: {exponents}")
    notes.append(
        f"largest residual of an eigenvalue: {table['residual'].max():.3f} of it; "
        f"gamma = {config.gamma:g}, {config.rounds} rounds"
    )
    return [*notes, f"{table['what'][0]}; {config.seeds} seeds derived from {config.seed}"]


def _exponent(x: list[int], values: Values) -> str:
    """Slope of log values, (seeds, r/k), on log r/k."""
    logs = np.log(x) - np.log(x).mean()
    return _interval(np.log(values) @ logs / (logs @ logs))


def _interval(values: Values) -> str:
    interval = rc.mean_interval(values)
    return f"{interval.value:.3g} [{interval.lo:.3g}, {interval.hi:.3g}]"


def _typical(values: Values) -> str:
    """The geometric mean over seeds and its interval."""
    interval = rc.exponential(rc.mean_interval(np.log(values)))
    return f"{interval.value:.3g} [{interval.lo:.3g}, {interval.hi:.3g}]"


def _worst(config: SmoothnessConfig, table: rc.Table, panel: str, power: int) -> float:
    x, growth = _growth(config, table, panel)
    return float((growth[..., 1:] / np.array(x[1:]) ** power).max())


def draw(config: SmoothnessConfig, analysis: rc.Analysis) -> Figure:
    """Growth with r/k in five panels, the path in the last."""
    figure, axes = rc.panels(analysis.series, columns=3, width=3.0, height=2.6, share_y=False)
    for panel, ax in axes.items():
        inside = [s for s in analysis.series if s.panel == panel]
        for position, one in enumerate(inside):
            rc.curve(ax, one, position=position)
        if panel == PATH:
            ax.set_yscale("log")
            ax.set_xlabel("round")
            low, high = ax.get_ylim()
            ax.set_ylim(low, high * 40)  # room for the legend
            ax.legend(fontsize=7, ncols=2)
            continue
        rc.loglog(ax)
        x = np.asarray(inside[0].x)
        ax.set_xticks(x, [f"{value:g}" for value in x])
        ax.set_xlabel("r / k")
        if panel in SAID:
            name, law = SAID[panel]
            ax.plot(x, law(x), color=rc.LOOKS["theory"].colour, linestyle=":", label=name)
        if panel == RAISED:  # less than a decade
            ax.set_yscale("linear")
        if panel == SPREAD:
            ax.set_yticks(x - 1, [f"{value - 1:g}" for value in x])
        handles, names = ax.get_legend_handles_labels()
        first = 0 if panel == CURVED else len(inside)  # rounds are named once
        ax.legend(handles[first:], names[first:], fontsize=7, loc="upper left")
    return figure


EXPERIMENT = rc.Experiment(
    id="bridge/smoothness",
    title="What FSLoRA's theory assumes, along a training run of a language model",
    source="Assumptions 4.1 to 4.3, Proposition D.4",
    kind="figure",
    profiles={
        "quick": SmoothnessConfig(),
        "laptop": SmoothnessConfig(
            **{**LAPTOP, "devices": 2},
            gamma=1e-3,
            rounds=12,
            points=1,
            factors=(4, 2),
            draws=2,
            probe=2,
            steps=12,
            tolerance=0.05,
        ),
        "paper": SmoothnessConfig(
            **PAPER,
            gamma=3e-4,
            rounds=750,
            points=5,
        ),
    },
    blocks=rc.Grid({"draw": "seeds"}),
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)

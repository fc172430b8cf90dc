"""SGD with many samples: both 1/T bounds and what runs come to."""

from dataclasses import dataclass

import numpy as np
from paper import clipped

import ratecheck as rc

STATED = -1.0  # the exponent of T in both
PANELS = {
    "last iterate": rc.Panel(x="$T$", y=r"$E(w_T-w_*)^2$", log="xy", slope=STATED),
    "weighted average": rc.Panel(x="$T$", y=r"$E\,F(\bar w_T)-F_*$", log="xy", slope=STATED),
}


@dataclass(frozen=True, kw_only=True)
class SGDConfig(rc.Config):
    """How many runs, and how long they are."""

    replicates: int = rc.param(400, low=rc.MIN_REPLICATES, doc="independent runs.")
    T: int = rc.param(4000, low=200, doc="steps of a run.")
    strength: float = rc.param(1.0, above=0, doc="lambda, or mu.")


def compute(config: SGDConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    rng = np.random.default_rng(config.derive("samples", block["panel"]))
    averaged, strength = block["panel"] == "weighted average", config.strength
    times = np.unique(np.geomspace(10, config.T, 16).astype(int))
    w, total, values = np.ones(config.replicates), np.zeros(config.replicates), []
    for t in range(1, config.T + 1):  # F(w) = lambda w^2 / 2, so that w_* = 0
        total += t * w
        if t in times:
            mean = 2 * total / (t * (t + 1))
            values.append(strength * mean**2 / 2 if averaged else w**2)
        step = 2 / (strength * (t + 1)) if averaged else 1 / (strength * t)
        w = clipped(w - step * (strength * w + rng.normal(size=w.size)))
    G2 = strength**2 + 1  # E g^2 at w = 1 and at w = -1
    bound = 2 * G2 / (strength * (times + 1)) if averaged else 4 * G2 / (strength**2 * times)
    axes = {"replicate": np.arange(config.replicates), "T": times}
    return rc.long_table(axes, error=np.transpose(values), bound=np.tile(bound, (w.size, 1)))


def analyse(config: SGDConfig, table: rc.Table) -> rc.Analysis:
    series, checks = [], []
    for panel in PANELS:
        part = table.where(panel=panel)
        T, error, bound = part.unique("T"), part.grid("error", "replicate", "T"), part["bound"]
        series.append(rc.Series("SGD", panel, T, *rc.mean_band(error, log=True)))
        series.append(rc.Series("theory", panel, T, bound[: T.size]))
        late = T > 50  # the projection is still felt before
        slope = rc.slope_interval(T[late], error[:, late], rng=config.seed, level=0.99)
        checks.append(rc.rate_check(f"{panel}: exponent of T", STATED, slope, tolerance=0.02))
    return rc.Analysis(series, checks)


EXPERIMENT = rc.Experiment(
    id="sgd/rates",
    title="SGD on a strongly convex function",
    source="Rakhlin et al., Lemma 1; Lacoste-Julien et al., Section 3",
    kind="rate",
    variable="t",
    profiles={"quick": SGDConfig(), "paper": SGDConfig(replicates=2000, T=50_000)},
    blocks=rc.Grid({"panel": tuple(PANELS)}),
    compute=compute,
    analyse=analyse,
    panels=PANELS,
)

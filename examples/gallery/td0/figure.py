"""Both sides of Theorem 2 (a) and (b) over T, on a drawn chain."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from paper import theorem_2a, theorem_2b

import ratecheck as rc

STATED = -0.5  # the exponent of T in (a)
CLAIMS = {"(b)": theorem_2b, "(a)": theorem_2a}


@dataclass(frozen=True, kw_only=True)
class TDConfig(rc.Config):
    """How long a chain of six states runs."""

    doublings: int = rc.param(22, low=14, doc="of T.")


def compute(config: TDConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    rng = np.random.default_rng(config.derive("chain"))
    P, reward, phi = rng.dirichlet(np.ones(6), 6), rng.normal(size=6), rng.normal(size=(6, 2))
    phi /= np.linalg.norm(phi, axis=1).max()
    one = {"P": P, "phi": phi, "reward": reward, "gamma": 0.5, "error": np.ones(2)}
    powers = range(8, config.doublings + 1)
    runs = [SimpleNamespace(**one, share=1.0, doublings=k) for k in powers]
    error, bound = np.transpose([CLAIMS[block["part"]](run) for run in runs])
    return {"T": [2**k for k in powers], "error": error, "bound": bound}


def analyse(config: TDConfig, table: rc.Table) -> rc.Analysis:
    series, checks = [], []
    for part in CLAIMS:
        T, error, bound = (table.where(part=part)[name] for name in ("T", "error", "bound"))
        series += [rc.Series("TD(0)", part, T, error), rc.Series("theory", part, T, bound)]
        ratio = rc.exact((error / bound).max())
        checks.append(rc.at_most(f"{part}: error / bound", "at most 1", ratio, 1))
    slope = rc.exact_slope(T[-6:], error[-6:])  # of (a), the last part
    checks.append(rc.rate_check("(a): exponent of T", STATED, slope, bound=True))
    return rc.Analysis(series, checks)


EXPERIMENT = rc.Experiment(
    id="td0/theorem2",
    title="TD(0): exact errors and Theorem 2",
    source="Bhandari, Russo and Singal, Theorem 2",
    kind="rate",
    variable="t",
    profiles={"quick": TDConfig(), "paper": TDConfig(doublings=30)},
    blocks=rc.Grid({"part": tuple(CLAIMS)}),
    compute=compute,
    analyse=analyse,
    panels={
        "(b)": rc.Panel(x="$T$", y=r"$E||\theta_T-\theta_*||^2$", log="xy"),
        "(a)": rc.Panel(x="$T$", y=r"$E||V-\bar V_T||_D^2$", log="xy", slope=STATED),
    },
)

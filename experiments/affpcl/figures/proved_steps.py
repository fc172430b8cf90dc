"""Steps for which AffPCL is proved stable in a whole class of systems, beside the paper's.

Problem and assumptions: (a) finite systems with given A(s), whose agents may have any environments
mu^i within total variation delta_env of a given one; (b) all systems of any dimension and any
number of states and agents with ||A(s)|| <= G_A and sym(Abar^i) >= G_A/kappa.

Algorithm: AffPCL (8) with an explicit centre and one step size alpha of x^i and x^c. Its recursions
are block triangular, x^i driven by x^c, and this one by theta^c, so that it is stable in mean
square where x <- (I - alpha A(s)) x is; theta^c has a step size of its own, limited by Phi(s).

Guarantee (Corollary G.2): alpha <= lambda/(40 G_A^2), lambda the least of the class; with a known
ratio and sharpened here, lambda/(4 G_A^2) (affpcl.corG2_known_ratio). What is proved: (a) the
linear matrix inequality of :mod:`experiments.affpcl._environments`, one quadratic form for all
environments, which may change from step to step, at the corners of their polytope, in exact
arithmetic; (b) for all dimensions by
:mod:`ratecheck.gram`: E||x - alpha A(s) x||^2 <= ||x||^2 at alpha = 2 lambda/G_A^2 for any kappa,
and K steps at alpha = lambda/G_A^2 contract by (1 - 1/kappa^2)^K.

The corollary asks for more than stability: a contraction by 1 - (3/2) alpha lambda up to noise. Of
the recursion of x alone that is true for alpha <= lambda/(2 G_A^2), as is also proved here.

Beside it, an upper bound: the least step that is unstable in mean square in an environment, or a
system, that a search finds, by the exact radius. The largest stable step of the class lies between.

References: AffPCL, Appendix G.1; affpcl.corF1. Nothing is random but the systems and the search.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

import ratecheck as rc
from experiments.affpcl._environments import (
    Floats,
    corners,
    proved_step,
    unstable_step,
    with_identity,
)

PROVED, IDENTITY = "proved, best form", r"proved, $\|x\|^2$"
UNSTABLE, PAPER, SHARPER = "unstable, found", "the paper's", "the paper's, sharpened"
CURVES = (UNSTABLE, PROVED, IDENTITY, SHARPER, PAPER)
ENVIRONMENTS, DIMENSIONS = "(a) environments near one", "(b) all dimensions"
#: lambda/(40 G_A^2) of Corollary G.2, and lambda/(4 G_A^2) where the ratio is known.
PRINTED, KNOWN = 40, 4
#: In (b) what is found and what is proved are the same number; in float64, up to rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class ProvedStepsConfig(rc.Config):
    """How large the systems are, and how many environments the search looks at."""

    d: int = rc.param(2, low=1, high=4, doc="the dimension of the systems in (a).")
    states: int = rc.param(4, low=2, high=5, doc="states of the systems in (a).")
    instances: int = rc.param(2, low=1, doc="systems in (a), of which the first is shown.")
    levels: tuple[float, ...] = rc.param(
        (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0),
        low=0.0,
        high=1.0,
        least=1,
        increasing=True,
        doc="delta_env, the distance from the given environment, increasing.",
    )
    kappas: tuple[float, ...] = rc.param(
        (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0),
        low=1.0,
        least=1,
        increasing=True,
        doc="kappa = G_A/lambda in (b), increasing.",
    )
    searched: int = rc.param(200, low=1, doc="environments, or systems, that a search looks at.")
    local_steps: int = rc.param(3, low=1, high=6, doc="K, of the contraction over several steps.")


def drawn(rng: np.random.Generator, d: int, states: int) -> list[list[list[Fraction]]]:
    """A(s) with three decimals, ||A(s)|| < 1 and sym A(s) > 0, as fractions."""
    matrices = []
    for _ in range(states):
        along, turn = rng.normal(size=d), rng.normal(size=(d, d))
        along /= np.linalg.norm(along)
        turn = turn - turn.T
        turn /= max(float(np.linalg.norm(turn, 2)), 1e-12)
        A = 0.1 * np.eye(d) + 0.4 * np.outer(along, along) + 0.48 * rng.uniform(-1, 1) * turn
        matrices.append([[Fraction(round(entry * 1000), 1000) for entry in row] for row in A])
    return matrices


def compute(config: ProvedStepsConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """All curves of one system of (a), or of (b)."""
    if block["part"] == DIMENSIONS:
        steps = np.array([_of_class(config, kappa) for kappa in config.kappas])
        return rc.long_table({"x": np.array(config.kappas), "curve": list(CURVES)}, step=steps)
    rng = np.random.default_rng(config.derive("system", block["instance"]))
    A = drawn(rng, config.d, config.states)
    centre = [Fraction(1, config.states)] * config.states
    rows = [_of_polytope(config, A, centre, level, block["instance"]) for level in config.levels]
    return rc.long_table({"x": np.array(config.levels), "curve": list(CURVES)}, step=np.array(rows))


def _of_polytope(
    config: ProvedStepsConfig,
    A: list[list[list[Fraction]]],
    centre: list[Fraction],
    level: float,
    instance: int,
) -> list[float]:
    """The steps of all curves for the environments within ``level`` of one."""
    ends = corners(centre, Fraction(round(level * 10**6), 10**6))
    matrices = np.array(A, dtype=float)
    chances = np.array(ends, dtype=float)
    rng = np.random.default_rng(config.derive("search", instance, level))
    mixed = rng.dirichlet(np.full(len(chances), 0.3), size=config.searched) @ chances
    unstable = min(unstable_step(matrices, mu) for mu in np.concatenate([chances, mixed]))
    means = np.einsum("es,sij->eij", chances, matrices)
    lam = float(np.linalg.eigvalsh((means + np.swapaxes(means, 1, 2)) / 2).min())
    largest = float(np.linalg.norm(matrices, 2, axis=(1, 2)).max())
    proved, _ = proved_step(A, ends)
    identity = with_identity(matrices, chances)
    stated = [lam / (divisor * largest**2) for divisor in (KNOWN, PRINTED)]
    return [unstable, float(proved), identity, *stated]


def _of_class(config: ProvedStepsConfig, kappa: float) -> list[float]:
    """All curves of (b) at one kappa, the class having G_A = 1; one-state systems are searched."""
    lam = 1 / Fraction(round(kappa * 10**6), 10**6)
    for step, steps in ((2 * lam, 1), (lam, config.local_steps)):
        rc.gram.prove(contraction(lam, step, steps)).check()
    rc.gram.prove(contraction(lam, lam / 2, 1, factor=1 - 3 * lam**2 / 4)).check()
    turns = np.linspace(0, 1, config.searched) * np.sqrt(max(1 - float(lam) ** 2, 0))
    quarter = np.array([[0.0, -1.0], [1.0, 0.0]])
    systems: list[Floats] = [float(lam) * np.eye(2) + turn * quarter for turn in turns]
    unstable = min(unstable_step(A[None], np.ones(1)) for A in systems)
    stated = [float(lam) / divisor for divisor in (KNOWN, PRINTED)]
    return [unstable, float(2 * lam), float(2 * lam), *stated]


def contraction(
    lam: Fraction, alpha: Fraction, steps: int, factor: Fraction | None = None
) -> rc.gram.Problem:
    """K steps with G_A = 1: E||x_K||^2 <= factor^K ||x_0||^2.

    The factor is 1 - 2 alpha lambda + alpha^2 by default.
    """
    factor = 1 - 2 * alpha * lam + alpha**2 if factor is None else factor
    p = rc.gram.Problem()
    start = x = p.vector("x")
    for k in range(steps):
        g = p.vector(f"g{k}")
        p.assume(lam * x.squared <= x @ g, f"sym(Abar) >= lambda, step {k}")
        p.assume(g.squared <= x.squared, f"||A(s)|| <= 1, step {k}")
        x = x - alpha * g
    p.show(x.squared <= factor**steps * start.squared)
    return p


def analyse(config: ProvedStepsConfig, table: rc.Table) -> rc.Analysis:
    """The curves, and in which order they lie."""
    series, checks, notes = [], [], []
    for part in (ENVIRONMENTS, DIMENSIONS):
        mine = table.where(part=part)
        x = mine.unique("x")
        step = {name: mine.where(curve=name).grid("step", "instance", "x") for name in CURVES}
        series += [rc.Series(name, part, x, step[name][0]) for name in CURVES]

        def largest(first: str, second: str, step: dict[str, Floats] = step) -> rc.Interval:
            return rc.exact(float((step[first] / step[second]).max()))

        room = 1 + ROUNDING
        for name, ratio in (
            ("proved / unstable", largest(PROVED, UNSTABLE)),
            ("the paper's / proved", largest(PAPER, PROVED)),
            ("the paper's, sharpened / proved", largest(SHARPER, PROVED)),
        ):
            checks.append(rc.our_own(rc.at_most(f"{part}: {name}", "at most 1", ratio, room)))
        gap = largest(UNSTABLE, PROVED)
        gain = step[PROVED] / step[PAPER]
        notes.append(
            f"{part}: the largest stable step of the class is at most {gap.hi:.4g} times the "
            f"proved one, which is {gain.min():.3g} to {gain.max():.3g} times the paper's"
        )
    close = table.where(part=DIMENSIONS)
    unstable, proved = (
        close.where(curve=name).grid("step", "instance", "x") for name in CURVES[:2]
    )
    apart = rc.exact(float(np.abs(unstable / proved - 1).max()))
    name = f"{DIMENSIONS}: 2 lambda / G_A^2 is the largest: unstable / proved - 1"
    checks.append(rc.our_own(rc.at_most(name, "0", apart, ROUNDING)))
    notes.append("every proved step is verified in exact arithmetic before it is drawn")
    return rc.Analysis(series, checks, notes)


def blocks(config: ProvedStepsConfig) -> list[rc.Block]:
    systems = [{"part": ENVIRONMENTS, "instance": k} for k in range(config.instances)]
    return [{"part": DIMENSIONS, "instance": 0}, *systems]


EXPERIMENT = rc.Experiment(
    id="affpcl/proved_steps",
    title="Step sizes that are proved stable in a class of systems",
    source="Corollary G.2, Appendix G.1",
    kind="figure",
    profiles={
        "quick": ProvedStepsConfig(instances=1),
        "paper": ProvedStepsConfig(d=3, instances=5, searched=2000),
    },
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    panels={
        ENVIRONMENTS: rc.Panel(
            r"distance of environments $\delta_{\mathrm{env}}$", r"step $\alpha$", "y"
        ),
        DIMENSIONS: rc.Panel(r"condition number $\kappa$", r"step $\alpha\,G_A$", "xy"),
    },
    layout=rc.Layout(
        width=3.9,
        height=3.0,
        looks={
            UNSTABLE: rc.Look("#CC79A7", "v", "--"),
            PROVED: rc.Look("#0072B2", "o"),
            IDENTITY: rc.Look("#009E73", "^", ":"),
            SHARPER: rc.Look("#E69F00", "s", "-."),
            PAPER: rc.Look("#D55E00", "D"),
        },
    ),
)

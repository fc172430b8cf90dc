"""What a sketch does to the loss: f^S - f against r/k - 1, at a point and at the minimisers.

Problem: least squares on W = W0 + B A, N devices with the same inputs (second moment M) and
different targets, all of rank k. f is their mean loss, f^S that of (2).

Stated: E[S] = I, from which the paper concludes E l(W0 + B S A) = l(W0 + B A).

Derived here. W is unbiased, the loss is not: with Cov(S_jj, S_ll) = c (r delta_jl - 1) / (r - 1),

    f^S - f = (c/2) sum_jl (r delta_jl - 1)/(r - 1) (B'B)_jl (A M A')_jl,     c = r/k - 1,

so that f^S - f and its gradient are proportional to c, with no remainder.

*Minimisers of f^S*. Let G = B A M^(1/2), lambda = (r/k - 1)/(r - 1) in [0, 1] and D = (W* - W0)
M^(1/2) with singular values d_1 >= d_2 >= .. . The penalty f^S - f is (lambda/2)(r sum_j |b_j|^2
|M^(1/2) a_j|^2 - |G|_F^2). By Cauchy-Schwarz and the triangle inequality its sum is at least (sum_j
|b_j| |M^(1/2) a_j|)^2 / r >= |G|_*^2 / r, with equality for a factorisation whose components are
all of the same size, which every G of rank at most r has (Mianjy, Arora and Vidal, 2018). Hence a
minimiser of

    |G - D|_F^2 / 2 + (lambda/2)(|G|_*^2 - |G|_F^2):

the singular vectors are those of D and the values s solve (1 - lambda) s_j = (d_j - lambda sigma)_+
with sigma = sum_j s_j. Small directions are dropped, all others shrink unless there is one only; at
k = 1 nothing but the largest is left. As c shrinks, s_j - d_j = -lambda (sum_l d_l - d_j) + O(c^2),
so that f - min f = |G - D|_F^2 / 2 has exponent 2. FSLoRA's guarantee, which is about f^S, leaves a
gap of order (r/k - 1)^2 in the loss of the model that is used, unless D has rank one.

Regime: the fit of f - min f sees c <= 1/2, where lambda <= 1/(2 (r - 1)). What the leading order
leaves out is known from the values s, and so is the change of slope that it makes. Minimisers are
found by descent from random starts. f^S is (1 - lambda)-strongly convex in G: its excess e over the
minimum leaves |G - D|_F uncertain by sqrt(2 e / (1 - lambda)).

References: FSLoRA, Section 3.2, equation (2). Values are exact: means over all supports.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import ratecheck as rc
from linsys.sketching.exact import sketched_gradient, sketched_gradients, sketched_loss
from linsys.sketching.sketch import every_support
from linsys.sketching.systems import LeastSquares
from linsys.validate import Array, check_integer

#: Exponents in c: that of f^S - f and of its gradient at a point, and that of f - min f at the
#: minimisers.
POINT, GAP = 1.0, 2.0
#: The relative rounding error of means over all supports; and by how much, relatively, the end of a
#: descent may exceed the minimum.
ROUND_OFF, DESCENT = 1e-10, 1e-6
#: The exponent of f - min f is fitted where r/k - 1 is at most this.
LATE = 0.5
AT_POINT, AT_MINIMISERS = "(a) at a random point", "(b) at the minimisers of $f^S$"
SPECTRUM = "(c) singular values"
LAW = "theory"
LOSS, SLOPE, LEFT = r"$f^S - f$", r"$\|\nabla f^S - \nabla f\|$", r"$f - \min f$"
#: Colours of the singular values, beginning with the largest.
SHADES = ("#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7")
LOOKS = {
    LOSS: rc.Look("#0072B2", "o"),
    SLOPE: rc.Look("#D55E00", "s"),
    LEFT: rc.Look("#009E73", "^"),
    **{f"$s_{j + 1}$": rc.Look(colour, "o") for j, colour in enumerate(SHADES)},
}


@dataclass(frozen=True, kw_only=True)
class RateBiasConfig(rc.Config):
    """Least squares on devices with the same inputs."""

    r: int = rc.param(12, doc="rank of the modules; sketches have all ranks k below it.")
    m: int = rc.param(4, low=2, doc="rows of W.")
    n: int = rc.param(4, low=2, doc="columns of W.")
    devices: int = rc.param(3, low=1, doc="N.")
    samples: int = rc.param(12, low="n", doc="of every device, at least n.")
    decay: float = rc.param(
        0.7, above=0.0, high=1.0, doc="ratio of neighbouring singular values of D."
    )
    starts: int = rc.param(2, low=1, doc="random starts of a descent.")
    instances: int = rc.param(2, low=1, doc="systems drawn.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("r", self.r, low=max(6, min(self.m, self.n)))

    def system(self, instance: int) -> LeastSquares:
        """Devices with the same inputs and targets (W* + Z_i) x, the Z_i with mean zero."""
        rng = np.random.default_rng(self.derive("system", instance))
        x = rng.standard_normal((self.samples, self.n))
        U, _, V = np.linalg.svd(rng.standard_normal((self.m, self.n)), full_matrices=False)
        D = (U * self.decay ** np.arange(len(V))) @ V
        W0 = rng.standard_normal((self.m, self.n))
        Z = rng.standard_normal((self.devices, self.m, self.n))
        Z -= Z.mean(axis=0)
        W = W0 + D @ np.linalg.inv(_moment_root(x)) + Z
        return LeastSquares(W0, inputs=(x,) * self.devices, targets=tuple(x @ w.T for w in W))


def _moment_root(x: Array) -> Array:
    """M^(1/2) of inputs (s, n)."""
    values, vectors = np.linalg.eigh(x.T @ x / len(x))
    return np.asarray((vectors * np.sqrt(values)) @ vectors.T)


def _shrunk(d: Array, lam: float) -> Array:
    """Singular values s of the minimiser from those of D, decreasing; see the module's text.

    >>> _shrunk(np.array([2.0, 1.0]), 0.25).round(4).tolist(), _shrunk(np.array([2.0, 1.0]), 1.0)
    ([1.8667, 0.5333], array([2., 0.]))
    """
    for p in range(len(d), 1, -1):  # the largest p for which all p values stay positive
        total = d[:p].sum() / (1.0 + lam * (p - 1))
        if d[p - 1] > lam * total:
            return np.append((d[:p] - lam * total) / (1.0 - lam), np.zeros(len(d) - p))
    return np.append(d[:1], np.zeros(len(d) - 1))


def _minimum(d: Array, s: Array, lam: float) -> float:
    """The least value of f^S - min f for given s."""
    return float(0.5 * ((s - d) ** 2).sum() + 0.5 * lam * (s.sum() ** 2 - (s**2).sum()))


def _descend(system: LeastSquares, start: Array, k: int) -> Array:
    """The point at which L-BFGS from X (r, w) ends on f^S of the only device."""
    from scipy.optimize import minimize

    def both(flat: Array) -> tuple[float, Array]:
        X = flat.reshape(start.shape)
        return sketched_loss(system, 0, X, k), sketched_gradient(system, 0, X, k).ravel()

    solution = minimize(
        both,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 5000, "gtol": 1e-10, "ftol": 1e-16},
    )
    return np.asarray(solution.x.reshape(start.shape))


def compute(config: RateBiasConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """f^S against f at a point by enumeration, and the minimiser of f^S by descent, for every k."""
    system, r = config.system(block["instance"]), config.r
    rng = np.random.default_rng(config.derive("points", block["instance"]))
    X = rng.standard_normal((r, system.modules.width)) / np.sqrt(r)
    starts = rng.standard_normal((config.starts, *X.shape)) / np.sqrt(r)
    x = system.inputs[0]
    root = _moment_root(x)
    mean = replace(system, inputs=(x,), targets=(np.mean(system.targets, axis=0),))
    D = (np.linalg.lstsq(x, mean.targets[0], rcond=None)[0].T - system.W0) @ root
    d = np.asarray(np.linalg.svd(D, compute_uv=False), dtype=np.float64)
    rows = []
    for k in range(1, r):
        devices = range(system.devices)
        values = [
            np.mean([system.loss(i, X[chosen], r / k) for chosen in every_support(r, k)])
            for i in devices
        ]
        slopes = [sketched_gradients(system, i, X, k).mean(axis=0) for i in devices]
        lam = (r / k - 1.0) / (r - 1.0)
        ends = [_descend(mean, start, k) for start in starts]
        loss, end = min(((sketched_loss(mean, 0, e, k), e) for e in ends), key=lambda pair: pair[0])
        [product] = mean.modules.products(end)
        G, s = product @ root, _shrunk(d, lam)
        rows.append(
            {
                "loss": np.mean(values) - system.mean_loss(X),
                "slope": np.linalg.norm(np.mean(slopes, axis=0) - system.mean_gradient(X)),
                "gap": 0.5 * ((G - D) ** 2).sum(),
                "found": loss,
                "least": _minimum(d, s, lam),
                "values": np.linalg.svd(G, compute_uv=False),
                "law": s,
            }
        )
    names = rows[0].keys()
    columns = {name: np.array([row[name] for row in rows]) for name in names}
    axes = {"k": np.arange(1, r), "j": np.arange(len(d))}
    each = {n: v if v.ndim == 2 else v[:, None] for n, v in columns.items()}
    return rc.long_table(axes, d=d, **each)


def analyse(config: RateBiasConfig, table: rc.Table) -> rc.Analysis:
    """Exponents at a point and of the minimisers, instance by instance, and the closed forms."""
    k = np.arange(1, config.r)[::-1]
    c = config.r / k - 1.0
    lam = c / (config.r - 1.0)
    series: list[rc.Series] = []
    checks: list[rc.Check] = []
    for instance in range(config.instances):
        where = f" (instance {instance})" if config.instances > 1 else ""
        part = table.where(instance=instance)
        first = part.where(j=0)
        loss, slope, gap, minimum, least = (
            first.grid(name, "k")[::-1] for name in ("loss", "slope", "gap", "found", "least")
        )
        values, law, d = (part.grid(n, "k", "j")[::-1] for n in ("values", "law", "d"))
        smallest = rc.Interval(float(loss.min()), float(loss.min()), float(loss.max()))
        checks.append(
            rc.every(rc.our_own(rc.above(f"f^S - f{where}: sign", "positive, not 0", smallest)))
        )
        for name, y in (("f^S - f", loss), ("gradient", slope)):
            checks.append(
                rc.our_own(
                    rc.rate_check(
                        f"{name}{where}", POINT, rc.exact_slope(c, y), tolerance=ROUND_OFF
                    )
                )
            )
        checks += _of_minimisers(where, c, lam, gap, minimum, least, law, d[0])
        if instance == 0:
            predicted = 0.5 * ((law - d) ** 2).sum(axis=1)
            series += [
                rc.Series(LOSS, AT_POINT, c, loss),
                rc.Series(SLOPE, AT_POINT, c, slope),
                rc.Series(LEFT, AT_MINIMISERS, c, gap),
                rc.Series(LAW, AT_MINIMISERS, c, predicted),
            ]
            for j in range(d.shape[1]):
                series.append(rc.Series(f"$s_{j + 1}$", SPECTRUM, k[::-1], values[::-1, j]))
                series.append(rc.Series(LAW, SPECTRUM, k[::-1], law[::-1, j]))
    notes = [
        f"exact values for {config.instances} instances; f^S - f at a random point is a mean over "
        "all supports, the minimisers come from descent on f^S",
        "derived: E[S] = I makes W0 + B S A unbiased, not its loss",
        "derived: at k = 1 the minimiser of f^S keeps one singular direction of what has to be "
        "learnt, whatever r is",
    ]
    return rc.Analysis(series, checks, notes)


def _of_minimisers(
    where: str, c: Array, lam: Array, gap: Array, minimum: Array, least: Array, law: Array, d: Array
) -> list[rc.Check]:
    """The minimum, the exponent of f - min f for small c, and that loss by its closed form."""
    excess = minimum / least - 1.0
    both = rc.Interval(float(excess.max()), float(excess.min()), float(excess.max()))
    predicted = 0.5 * ((law - d) ** 2).sum(axis=1)
    leading = 0.5 * lam**2 * ((d.sum() - d) ** 2).sum()
    inside = lam < 1.0
    e = np.maximum(minimum - least, ROUND_OFF * least)
    relative_error = 2.0 * np.sqrt(e[inside] / (1.0 - lam[inside]) / predicted[inside])
    off = (np.abs(gap[inside] / predicted[inside] - 1.0) / relative_error).max()
    worst = rc.Interval(float(off), float(off), float(off))
    late = c <= LATE
    tolerance = rc.slope_shift(c[late], predicted[late] / leading[late] - 1.0)
    tolerance += 2.0 * float(relative_error[late[inside]].max() / np.log(c[late][-1] / c[late][0]))
    name = f"f - min f at the minimiser{where}"
    return [
        rc.every(
            rc.our_own(
                rc.within(f"min f^S / closed form - 1{where}", 0.0, both, -ROUND_OFF, DESCENT)
            )
        ),
        rc.our_own(
            rc.rate_check(name, GAP, rc.exact_slope(c[late], gap[late]), tolerance=tolerance)
        ),
        rc.every(
            rc.our_own(
                rc.at_most(f"{name}: deviation over its uncertainty", "at most 1", worst, 1.0)
            )
        ),
    ]


EXPERIMENT = rc.Experiment(
    id="fslora/rate_bias",
    title="What a sketch does to the loss, against its rank",
    source="Equation (2), Section 3.2",
    kind="rate",
    variable="k",
    profiles={
        "quick": RateBiasConfig(),
        "paper": RateBiasConfig(r=14, m=6, n=6, samples=24, starts=4, instances=10),
    },
    blocks=rc.Grid({"instance": "instances"}),
    compute=compute,
    analyse=analyse,
    panels={
        AT_POINT: rc.Panel("$r/k - 1$", log="xy", slope=rc.Guide(POINT, span=(0.0, 0.5))),
        AT_MINIMISERS: rc.Panel("$r/k - 1$", log="xy", slope=rc.Guide(GAP, span=(0.0, 0.5))),
        SPECTRUM: rc.Panel("$k$", "of $B A M^{1/2}$ at the minimiser"),
    },
    layout=rc.Layout(width=3.1, height=2.8, legend=4, looks=LOOKS, markers=99),
    parallel="blocks",
)

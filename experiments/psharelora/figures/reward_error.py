"""Reward error against N_p of four estimators: when is it worth sharing a factor?

Problem and assumptions: N users on a finite set of trajectories with isotropic features; Delta_i is
B W_i plus a tail of a given Sigma_tail, and the heads W_i have a part in common. Every user has N_p
comparisons. The error E |(r_hat - r*)(tau0) - (r_hat - r*)(tau1)|^2 is exact, over all pairs.

Algorithms: maximum likelihood with a shared B ("shared", the paper's), with a B of each user's
own ("local"), one Delta for all ("global"), and no constraint ("full"), all with ||Delta_i||_F
bounded by twice the longest (3.1).

Guarantee: Theorem 4.2 bounds the error of "shared" by terms in k (d1 + N d2) / (N N_p) and the
tail; Remark 2 compares it with k (d1 + d2) / N_p and d1 d2 / N_p.

Derived here, to leading order in 1 / N_p: an estimator with Delta_i = B W_i tends to the best of
its class for the population, B and W below, and is off by bias there: differences of rewards by
d_i(x) = <B W_i - Delta_i, x>. Around it, with B turned to B + B_perp C, the parameters theta (C and
all heads) are those of a regression with logits z_i(theta; x) and gradients J_i(x). The usual
expansion of a maximum gives theta_hat - theta with covariance A^-1 V A^-1 / N_p,

    A = sum_i E[v J_i J_i' - e_i z_i''],   V = sum_i cov(e J_i),   v = p (1 - p),  e = o - p,

e_i = P_i - p its mean, which does not vanish where the class does not hold the truth. So

    E |r_hat - r*|^2 = mean_i E[d_i^2] + (1 / N_p) mean_i tr(E[J_i J_i'] (A^-1 V A^-1)_ii) + ...

With small logits and isotropic features v = 1/4, and the second term is 4 / N_p times the number of
free parameters per user: d1 d2 (full), k (d1 + d2 - k) (local), k d2 + k (d1 - k) / N (shared),
k (d1 + d2 - k) / N (global). Left out are what the O(1 / N_p) mean of theta_hat adds through the
bias, and terms of order 1 / N_p^2.

What the text leaves open, and the choices here: a bound does not say which estimator is better. The
law bias + variance / N_p of each of them does, and with it where curves cross: more data turn
"global" into "shared" (its bias is that users differ), and "shared" into "full" as soon as there is
a tail, at N_p of about (difference of variances) / (difference of biases). As N_p is measured on a
grid, with ratios of neighbours of ``ratio``, a crossing counts as predicted if it is within that
factor; the expansion is judged by the last N_p, where what it leaves out is least.

References: P-ShareLoRA, Theorem 4.2, Remark 2, Proposition 1.

The picture shows means over data sets with 90 % bands, and the laws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

import ratecheck as rc
from experiments.psharelora._rate_systems import Family
from linsys.preference.counts import fit_counts
from linsys.preference.instances import isotropic_features
from linsys.preference.systems import PreferenceSystem
from linsys.validate import Array, InputError, check_integer

NAMES = ("shared", "local", "global", "full")
#: What the legend calls them, and their laws.
LEGEND = {
    "shared": "shared: one factor for all users",
    "local": "local: a factor of each user's own",
    "global": "global: one estimate for all",
    "full": "full: no constraint",
}
LAW = "derived: bias + variance / $N_p$"
PANEL = "N = {}, Σ_tail / N = {:g}"
#: Pairs of estimators of which the second is better with more data.
CROSSINGS = (("global", "shared"), ("shared", "full"), ("global", "local"), ("local", "full"))
#: The range of measured over derived errors at the last N_p, where higher orders of the expansion
#: are a few per cent.
NEAR = (0.9, 1.1)
#: A fit to the population ends when the next step would turn the factor by less than this.
_TOL = 1e-12
_RESAMPLES = 400


@dataclass(frozen=True, kw_only=True)
class RewardErrorConfig(rc.Config):
    """The set-up."""

    trajectories: int = rc.param(24, doc="those whose pairs are compared.")
    d1: int = rc.param(6, low=2, doc="rows of Delta_i and of features.")
    d2: int = rc.param(3, low=1, doc="columns of Delta_i and of features.")
    k: int = rc.param(1, doc="rank of the shared factor.")
    users: tuple[int, ...] = rc.param(
        (4, 16), low=1, least=1, increasing=True, doc="numbers N of them."
    )
    tails: tuple[float, ...] = rc.param(
        (0.0, 0.05), low=0.0, least=1, increasing=True, high="nu", doc="Sigma_tail / N."
    )
    nu: float = rc.param(2.0, above=0.0, doc="sigma_k^2 / N.")
    own: float = rc.param(0.05, low=0.0, high=1.0, doc="share of the heads that is not common.")
    judged: int = rc.param(4, doc="users whose errors count, the first ones.")
    first: int = rc.param(64, low=1, doc="the smallest N_p.")
    ratio: int = rc.param(2, low=2, doc="of an N_p and the one before.")
    points: int = rc.param(9, low=2, doc="numbers N_p.")
    replicates: int = rc.param(16, low=3, doc="data sets.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("k", self.k, low=1, high=min(self.d1, self.d2))
        check_integer("trajectories", self.trajectories, low=self.d1 * self.d2 + 1)
        check_integer("judged", self.judged, low=1, high=min(self.users))

    @property
    def sizes(self) -> Array:
        """The numbers N_p of comparisons."""
        return self.first * np.power(float(self.ratio), np.arange(self.points))

    def family(self, N: int, tail: float) -> Family:
        """Users with exactly this Sigma_tail / N; the features are the same for all."""
        return _family(self, N, tail)


def heads_in_common(
    N: int, d1: int, d2: int, k: int, nu: float, tail: float, own: float, rng: np.random.Generator
) -> Array:
    """Delta (N, d1, d2) with sigma_j^2 = N nu up to k, a tail of N ``tail``, and similar heads.

    As :func:`linsys.preference.instances.shared_users`, except that the rows of V that belong to
    the first k columns have a part that is the same for all users.

    >>> from linsys.preference.subspace import diversity
    >>> spread = diversity(heads_in_common(5, 4, 2, 1, 2.0, 0.1, 0.3, np.random.default_rng(0)), 1)
    >>> round(spread.nu, 12), round(spread.tail / 5, 12)
    (2.0, 0.1)
    """
    rest = min(d1, N * d2) - k
    common = rng.normal(size=(d2, k))
    lead = np.sqrt(1.0 - own) * common + np.sqrt(own) * rng.normal(size=(N, d2, k))
    columns = np.concatenate([lead, rng.normal(size=(N, d2, rest))], axis=-1)
    V = np.linalg.qr(columns.reshape(N * d2, k + rest))[0]
    U = np.linalg.qr(rng.normal(size=(d1, k + rest)))[0]
    sigma = np.sqrt(N * np.repeat([nu, tail / max(rest, 1)], [k, rest]))
    return np.ascontiguousarray(((U * sigma) @ V.T).reshape(d1, N, d2).swapaxes(0, 1))


@lru_cache(maxsize=8)
def _family(config: RewardErrorConfig, N: int, tail: float) -> Family:
    d1, d2 = config.d1, config.d2
    features = np.random.default_rng(config.derive("features"))
    psi = isotropic_features(config.trajectories, d1, d2, features)
    rng = np.random.default_rng(config.derive("users", N))
    Delta = heads_in_common(N, d1, d2, config.k, config.nu, tail, config.own, rng)
    unscaled = Family(psi, Delta, config.k)
    return Family(psi / np.sqrt((unscaled.differences**2).mean()), Delta, config.k)


class BiasAndVariance(NamedTuple):
    """bias + variance / N_p of users, both (N,)."""

    bias: Array
    variance: Array

    def at(self, N_p: Array, users: int) -> Array:
        """The mean over the first so many users, of the shape of N_p."""
        return np.asarray(self.bias[:users].mean() + self.variance[:users].mean() / N_p)


def reward_error(system: PreferenceSystem, Delta: Array) -> Array:
    """E |r_hat(tau0) - r_hat(tau1) - (r*(tau0) - r*(tau1))|^2 of users' estimates, shape (.., N).

    Exact: the mean over all pairs by their weights. ``Delta`` (.., N, d1, d2) may be of the first
    users alone.
    """
    off = Delta - system.Delta[: Delta.shape[-3]]
    off = off.reshape(*off.shape[:-2], -1)
    return np.asarray(np.einsum("...a,...a->...", off @ system.coverage().gram, off))


def free_parameters(name: str, N: int, d1: int, d2: int, k: int) -> float:
    """Per user: the dimension of the estimator's class, divided by N.

    >>> [free_parameters(name, 10, 6, 3, 1) for name in ("full", "local", "shared", "global")]
    [18.0, 8.0, 3.5, 0.8]
    """
    own = {"full": d1 * d2, "local": k * (d1 + d2 - k), "shared": k * d2, "global": 0}[name]
    common = {"full": 0, "local": 0, "shared": k * (d1 - k), "global": k * (d1 + d2 - k)}[name]
    return own + common / N


class Estimates(NamedTuple):
    """What an estimator gives from R data sets: Delta = B W.

    Attributes:
        B: of everybody, shape (R, 1, d1, k), or of each user, (R, N, d1, k).
        W: shape (R, N, k, d2).
    """

    B: Array
    W: Array

    @property
    def Delta(self) -> Array:
        """Of every user, shape (R, N, d1, d2)."""
        return np.asarray(self.B @ self.W)


def estimates(
    features: Array, shown: Array, preferred: Array, k: int, users: int, **options: float
) -> Mapping[str, Estimates]:
    """The four estimators from counts (R, N, P), "local" of the first users alone.

    See :mod:`linsys.preference.counts`.
    """
    (R, N, P), (d1, d2) = shown.shape, features.shape[1:]
    rank = min(k, d1, d2)

    def fits(k: int, n: Array, o: Array) -> Estimates:
        found = fit_counts(features, n, o, k, **options)
        return Estimates(found.B[:, None], found.W)

    alone = fits(rank, *(x[:, :users].reshape(R * users, 1, P) for x in (shown, preferred)))
    one = fits(rank, *(x.sum(axis=1, keepdims=True) for x in (shown, preferred)))
    return {
        "full": fits(d1, shown, preferred),
        "local": Estimates(*(x.reshape(R, users, *x.shape[2:]) for x in alone)),
        "shared": fits(k, shown, preferred),
        "global": Estimates(one.B, np.repeat(one.W, N, axis=1)),
    }


def laws(system: PreferenceSystem, k: int) -> Mapping[str, BiasAndVariance]:
    """The laws of the four estimators, for users with linear rewards and Theta_init = 0.

    Raises:
        InputError: other users.
    """
    if system.link != "linear" or system.Theta_init.any():
        raise InputError(
            "`system` must have linear rewards and Theta_init = 0, for which these laws are; found "
            f"link={system.link!r} and entries up to {np.abs(system.Theta_init).max():.6g}"
        )
    truth, users = system.probabilities(), range(system.N)
    shown = np.broadcast_to(system.pair_weights, (1, *truth.shape))
    X = np.subtract(*system.psi[system.pairs.T])
    found = estimates(X, shown, shown * truth, k, system.N, tol=_TOL)
    variances = {}
    for name, fit in found.items():
        B, W = fit.B[0], fit.W[0]
        if name in ("shared", "global"):
            everybody = _variance(system, list(users), B[0], W, one_head=name == "global")
            variances[name] = everybody
        else:
            each = [_variance(system, [i], B[i % len(B)], W[i : i + 1]) for i in users]
            variances[name] = np.concatenate(each)
    return {
        name: BiasAndVariance(reward_error(system, fit.Delta[0]), variances[name])
        for name, fit in found.items()
    }


def _variance(
    system: PreferenceSystem, users: list[int], B: Array, W: Array, *, one_head: bool = False
) -> Array:
    """N_p times the variance of users who share B (d1, k), with heads W of theirs: (users,)."""
    from scipy.special import expit

    X = np.subtract(*system.psi[system.pairs.T])
    w, truth = system.pair_weights, system.probabilities()[users]
    k, d2 = W.shape[1:]
    turned = np.linalg.qr(B, mode="complete")[0][:, B.shape[1] :]
    m = turned.shape[1] * k
    f = np.einsum("pab,ak->pkb", X, B).reshape(len(X), -1)
    h = np.einsum("pab,ac->pcb", X, turned)
    q = np.einsum("pcb,jl->pcjlb", h, np.eye(k)).reshape(len(X), m, k * d2)
    size = m + k * d2 * (1 if one_head else len(users))
    A, V = np.zeros((size, size)), np.zeros((size, size))
    places, metrics = [], []
    for i, (head, P) in enumerate(zip(W, truth, strict=True)):
        J = np.concatenate([q @ head.ravel(), f], axis=1)
        p = expit(f @ head.ravel())
        e, v = P - p, p * (1.0 - p)
        first = m + (0 if one_head else i * k * d2)
        at = np.concatenate([np.arange(m), np.arange(first, first + k * d2)])
        block = (J * (w * v)[:, None]).T @ J
        mixed = np.einsum("p,pac->ac", w * e, q)
        block[:m, m:] -= mixed
        block[m:, :m] -= mixed.T
        A[np.ix_(at, at)] += block
        mean = (w * e) @ J
        V[np.ix_(at, at)] += (J * (w * (P * (1.0 - P) + e**2))[:, None]).T @ J
        V[np.ix_(at, at)] -= np.outer(mean, mean)
        places.append(at)
        metrics.append((J * w[:, None]).T @ J)
    half = np.linalg.solve(A, V)
    covariance = np.linalg.solve(A, half.T)
    return np.array(
        [(M * covariance[np.ix_(at, at)]).sum() for M, at in zip(metrics, places, strict=True)]
    )


def compute(config: RewardErrorConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Errors of the four estimators, mean over the users who are judged: a row for every N_p."""
    one, k, judged = config.family(block["N"], block["tail"]), config.k, config.judged
    sizes = [int(n) for n in config.sizes]
    bound = 2.0 * float(np.linalg.norm(one.Delta, axis=(1, 2)).max())
    data = [
        counts
        for replicate in range(config.replicates)
        for counts in one.counts(
            1, sizes, np.random.default_rng(config.derive("data", block["N"], replicate))
        )
    ]
    shown, preferred = map(np.stack, zip(*data, strict=True))
    found = estimates(one.differences, shown, preferred, k, judged, bound=bound)
    errors = {
        name: reward_error(one.system, fit.Delta[:, :judged]).mean(axis=1)
        for name, fit in found.items()
    }
    axes = {"replicate": np.arange(config.replicates), "N_p": config.sizes}
    columns = {name: values.reshape(-1, len(sizes)) for name, values in errors.items()}
    return rc.long_table(axes, **columns, **block)


def crossing(x: Array, first: Array, second: Array) -> float | None:
    """The last x at which the second curve gets below the first, between points as power laws.

    >>> crossing(np.array([1.0, 4.0]), np.array([1.0, 1.0]), np.array([2.0, 0.5]))
    2.0
    """
    gap = np.log(second) - np.log(first)
    at = np.flatnonzero((gap[:-1] > 0) & (gap[1:] <= 0))
    if not len(at):
        return None
    j, logs = at[-1], np.log(x)
    return float(np.exp(logs[j] + (logs[j + 1] - logs[j]) * gap[j] / (gap[j] - gap[j + 1])))


def crossing_or_beyond(x: Array, first: Array, second: Array) -> float:
    """The crossing or, without one, the point one step beyond the end of the grid nearest to it.

    >>> crossing_or_beyond(np.array([1.0, 4.0]), np.array([1.0, 1.0]), np.array([3.0, 2.0]))
    16.0
    """
    point = crossing(x, first, second)
    if point is not None:
        return point
    return float(x[0] ** 2 / x[1] if second[-1] <= first[-1] else x[-1] ** 2 / x[-2])


def analyse(config: RewardErrorConfig, table: rc.Table) -> rc.Analysis:
    """Curves with their laws, crossings measured and predicted, and the laws at the last N_p."""
    series, checks, notes = list[rc.Series](), list[rc.Check](), list[str]()
    ends: dict[str, list[Array]] = {name: [] for name in NAMES}
    for N in config.users:
        for tail in config.tails:
            panel = PANEL.format(N, tail)
            part = table.where(N=N, tail=tail)
            errors = {name: part.grid(name, "replicate", "N_p") for name in NAMES}
            derived = laws(config.family(N, tail).system, config.k)
            series += [
                rc.Series(n, panel, config.sizes, *rc.mean_band(v)) for n, v in errors.items()
            ]
            for name, law in derived.items():
                predicted = law.at(config.sizes, config.judged)
                series.append(rc.Series(f"law of {name}", panel, config.sizes, predicted))
                ends[name].append(errors[name][:, -1] / predicted[-1])
            checks += _crossings(config, panel, errors, derived)
            notes.append(f"{panel}: {_counts(config, N, derived)}")
    for name in NAMES:
        ratio = rc.mean_interval(np.mean(ends[name], axis=0))
        what = f"{name}: error / law at N_p = {config.sizes[-1]:g}, mean over panels"
        checks.append(rc.our_own(rc.within(what, 1.0, ratio, *NEAR)))
    return rc.Analysis(series, checks, notes)


def _crossings(
    config: RewardErrorConfig,
    panel: str,
    errors: Mapping[str, Array],
    derived: Mapping[str, BiasAndVariance],
) -> list[rc.Check]:
    """Check the crossings of the pairs that should cross inside the grid, a step from its ends."""
    checks, x, low = [], config.sizes, float(config.ratio)
    fine = np.geomspace(x[0], x[-1], 2000)
    rng = np.random.default_rng(config.derive("resamples"))
    for first, second in CROSSINGS:
        curves = [derived[name].at(fine, config.judged) for name in (first, second)]
        expected = crossing(fine, *curves)
        if expected is None or not x[1] <= expected <= x[-2]:
            continue
        name = f"{panel}: {second} overtakes {first}, N_p"
        rows = rng.integers(config.replicates, size=(_RESAMPLES, config.replicates))
        rows[0] = np.arange(config.replicates)
        points = [
            crossing_or_beyond(x, errors[first][r].mean(axis=0), errors[second][r].mean(axis=0))
            for r in rows
        ]
        ends = rc.Interval(points[0], *(float(q) for q in np.quantile(points, (0.025, 0.975))))
        check = rc.our_own(
            rc.within(name, float(round(expected)), ends, expected / low, expected * low)
        )
        inside = x[0] <= points[0] <= x[-1]
        checks.append(check if inside else replace(check, measured="no crossing"))
    return checks


def _counts(config: RewardErrorConfig, N: int, derived: Mapping[str, BiasAndVariance]) -> str:
    """Variances relative to that of "full", beside ratios of numbers of parameters."""
    full, judged = derived["full"], config.judged
    sizes = (N, config.d1, config.d2, config.k)
    parts = [
        f"{name} {law.variance[:judged].mean() / full.variance[:judged].mean():.2f} "
        f"({free_parameters(name, *sizes) / free_parameters('full', *sizes):.2f}), "
        f"bias {law.bias[:judged].mean():.2g}"
        for name, law in derived.items()
        if name != "full"
    ]
    return "variance over that of full (numbers of parameters): " + "; ".join(parts)


def layout(config: RewardErrorConfig) -> rc.Layout:
    """A row for every number of users; the legend has the laws once."""
    law = rc.Look("#000000", line=":", width=1.0)
    return rc.Layout(
        columns=len(config.tails),
        width=3.2,
        height=2.4,
        share_y=True,
        legend=3,
        looks={f"law of {name}": law for name in NAMES},
        names={**LEGEND, **{f"law of {name}": LAW for name in NAMES}},
    )


def panels(config: RewardErrorConfig) -> dict[str, rc.Panel]:
    """All on the same axes, with their users and tails in symbols."""
    return {
        PANEL.format(N, tail): rc.Panel(
            "comparisons of every user $N_p$",
            "reward error",
            log="xy",
            title=rf"$N = {N}$, $\Sigma_{{\mathrm{{tail}}}} / N = {tail:g}$",
        )
        for N in config.users
        for tail in config.tails
    }


EXPERIMENT = rc.Experiment(
    id="psl/reward_error",
    title="Reward error of shared, local, global and full estimates",
    source="Theorem 4.2, Remark 2",
    kind="figure",
    profiles={
        "quick": RewardErrorConfig(),
        "paper": RewardErrorConfig(users=(4, 32), tails=(0.0, 0.02, 0.2), replicates=60),
    },
    blocks=rc.Grid({"N": "users", "tail": "tails"}),
    compute=compute,
    analyse=analyse,
    panels=panels,
    layout=layout,
    parallel="blocks",
)

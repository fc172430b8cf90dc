"""Local GD, which is FedAvg without sampling: a rate to a floor, and how high the floor is.

Theorem 1 and Lemma 2 of Khaled, Mishchenko and Richtarik hold and are loose by factors of 8 and 9;
the floor of Theorem 1, 24 gamma^2 sigma^2 H^2 L, is more than 200 times too high, but 1/32 in the
place of 24 is refuted. That it does not vanish is Theorem 4 of Li et al., drawn in the figure.
"""

from typing import Any

import numpy as np

import ratecheck as rc

PAPER = rc.Paper(
    "local_gd",
    "Local GD",
    "Khaled, Mishchenko, Richtarik: First Analysis of Local GD on Heterogeneous Data (arXiv "
    "1909.04715); Li et al.: On the Convergence of FedAvg on Non-IID Data (arXiv 1907.02189)",
)
FIELDS = {  # f_m(x) = (x - c_m)'A_m (x - c_m) / 2 with A_m = C_m C_m'
    "C": rc.contraction("m", "d", "d"),
    "c": rc.reals("m", "d"),
    "start": rc.reals("d"),
    "share": rc.interval(low=0.01, high=1.0),  # of the longest step, 1 / (4 L H)
    "H": rc.whole_numbers(low=1, high=4),  # steps between averages
    "T": rc.whole_numbers(low=1, high=10),
}
ONE = {"one minimiser": lambda i: rc.linalg.lambda_min((i.C @ i.C.mT).mean(axis=0)) > 0.001}
DEVICES = rc.Space(fields=FIELDS, sizes={"m": (1, 3), "d": (1, 2)}, given=ONE)


class Problem:
    """The devices' functions, their constants, and runs on them."""

    def __init__(self, i: Any) -> None:
        self.A, self.c, self.H = i.C @ rc.linalg.transpose(i.C), i.c, int(i.H)
        self.mean = self.A.mean(axis=0)
        self.best = rc.linalg.solve(self.mean, rc.linalg.apply(self.A, i.c).mean(axis=0))
        self.L = rc.linalg.lambda_max(self.A).max()
        self.step = i.share / (4 * self.L * self.H)
        slopes = rc.linalg.apply(self.A, self.best - i.c)
        self.variance = rc.linalg.squared(slopes).mean()  # sigma^2
        self.floor = self.step**2 * self.variance * self.H**2

    def run(self, start: Any, T: int) -> tuple[Any, Any]:
        """The mean iterates at t = 0 .. T - 1 (T, d), and the variances between devices (T,)."""
        x, means, variances = 0 * self.c + start, [], []
        for t in range(T):
            mean = x.mean(axis=0)
            if t % self.H == 0:
                x = 0 * x + mean
            means.append(mean)
            variances.append(rc.linalg.squared(x - mean).mean())
            x = x - self.step * rc.linalg.apply(self.A, x - self.c)
        return np.array(means), np.array(variances)

    def excess(self, x: Any) -> Any:
        """f(x) - f_*."""
        return ((x - self.best) * rc.linalg.apply(self.mean, x - self.best)).sum(axis=-1) / 2

    def limit(self) -> Any:
        """Where averages end."""
        d = self.c.shape[-1]
        shrink = power = np.eye(d, dtype=int) - self.step * self.A
        for _ in range(self.H - 1):
            power = power @ shrink
        rest = np.eye(d, dtype=int) - power
        return rc.linalg.solve(rest.mean(axis=0), rc.linalg.apply(rest, self.c).mean(axis=0))


@PAPER.upper("theorem_1", ref="Khaled et al., Theorem 1", on=DEVICES)
def theorem_1(i: Any) -> rc.Sides:
    """For steps up to 1 / (4 L H) the mean of x_0 .. x_{T-1} has f - f_* <= 2 ||x_0 - x_*||^2 /
    (gamma T) + 24 gamma^2 sigma^2 H^2 L.
    """
    p = Problem(i)
    means, _ = p.run(i.start, int(i.T))
    bound = 2 * rc.linalg.squared(i.start - p.best) / (p.step * i.T) + 24 * p.floor * p.L
    return p.excess(means.mean(axis=0)), bound


@PAPER.upper("lemma_2", ref="Khaled et al., Lemma 2", on=DEVICES)
def lemma_2(i: Any) -> rc.Sides:
    """Over the H steps between averages, the sum of V_t is at most 5 L gamma^2 H^2 times that of
    f - f_*, and 8 gamma^2 H^3 sigma^2 more.
    """
    p = Problem(i)
    means, variances = p.run(i.start, p.H)
    return variances.sum(), 5 * p.L * p.step**2 * p.H**2 * p.excess(means).sum() + 8 * p.H * p.floor


@PAPER.upper("floor", ref="Khaled et al., Theorem 1, as T grows", on=DEVICES, printed_as="ours")
def floor(i: Any, constant: Any = 24) -> rc.Sides:
    """As T grows, the excess of the mean is at most 24 gamma^2 sigma^2 H^2 L."""
    p = Problem(i)
    means, _ = p.run(p.limit(), p.H)
    return p.excess(means.mean(axis=0)), constant * p.floor * p.L


@PAPER.upper(
    "floor_small",
    ref="Khaled et al., Theorem 1, as T grows, with a wrong constant",
    on=DEVICES,
    expect="violated",
    printed_as="ours",
    note="Two devices that are curved along different directions have a higher floor.",
    corrected="floor",
)
def floor_small(i: Any) -> rc.Sides:
    """As T grows, the excess of the mean is at most gamma^2 sigma^2 H^2 L / 32."""
    return floor(i, constant=0.03125)

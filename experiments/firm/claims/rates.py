"""FIRM, Theorem 1, (35), Remark 1, Appendix F.1.2 and Lemma 3: how errors fall."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.firm._gap_runs import SteeredConfig
from experiments.firm._gaps import Floor
from experiments.firm.paper import PAPER
from experiments.firm.theory import rates as at
from mgda.actor_critic import ActorCritic, ExactGradients
from mgda.critic import LinearCritic
from mgda.firm import FIRM
from mgda.runs import run
from mgda.trajectories import Clients

#: What a pure power leaves out is in the interval; this is for roundings.
_SLACK = 0.02


def _limit(name: str, variable: str, predicted: float, x: Any, y: Any) -> rc.Regime:
    """The exponent of y at the largest x, give or take how much it still changed there.

    ``x`` grows by one factor; what is left out of the power falls with x, so that what is still to
    come is less than the last change. Every regime here is read from one process.
    """
    local = np.diff(np.log(y)) / np.diff(np.log(x))
    change = float(abs(local[-1] - local[-2]))
    last = float(local[-1])
    lo, hi = last - change, last + change
    return rc.Regime(name, variable, predicted, last, lo, hi, _SLACK, systems=1)


def _along(
    name: str, variable: str, predicted: float, x: Sequence[float], read: Callable[[Any], float]
) -> rc.Regime:
    return _limit(name, variable, predicted, np.array(x, dtype=float), [read(v) for v in x])


# Theorem 1: runs of clients without noise (B to infinity), which are one client.


@cache
def _floor(instance: int = 0) -> Floor:
    """A drawn process whose mean objective has a strict maximum: experiments.firm._gap_runs."""
    return SteeredConfig().floor(instance)


_TIMES = (64, 128, 256)
#: Drawn processes on which Theorem 1 is tried.
_PROCESSES = 5


def _mean_gap(oracle: Any, step: float, eta: float | str, last: int, times: Sequence[int]) -> Any:
    """(1/T) sum ||grad J lambda_t||^2 for T in ``times``, from the uniform policy."""
    firm = FIRM(alpha=step, beta=0.1, normalise=False, eta=eta)
    start, chosen = np.zeros((1, 1, 2)), [t - 1 for t in times]
    trace = run(firm, oracle, start, last, times=chosen, averages=True)
    return trace.means["weighted_gap"][:, 0]


def _exact() -> ExactGradients:
    return ExactGradients(Clients(_floor().momdp, 1))


def _infinite_batches(instance: int) -> ActorCritic:
    """The mean of (10) under Markov samples, with exact critics."""
    m = _floor(instance).momdp
    return ActorCritic(Clients(m, 1), LinearCritic(np.eye(m.n_states)), B=None, N=None)


def _against_T(name: str, oracle: Any, eta: float | str, instance: int = 0) -> rc.Regime:
    gaps = _mean_gap(oracle, 1.0 / _floor(instance).L, eta, _TIMES[-1], _TIMES)
    return _limit(name, "T", -1.0, np.array(_TIMES), gaps)


def _small_steps(name: str, predicted: float, eta: float | str) -> rc.Regime:
    """Steps a = 1 / (L_J T): a T does not grow."""

    def read(T: int) -> float:
        return float(_mean_gap(_exact(), 1.0 / (_floor().L * T), eta, T, [T])[0])

    return _along(name, "T", predicted, (32, 64, 128), read)


def _large_batches(clients: int, eta: float | str) -> rc.Regime:
    """The floor's leading order in 1/B, exact in the limit."""
    step = 0.25 / _floor().L

    def read(B: int) -> float:
        return _floor().law(clients=clients, B=B, a=step, eta=eta).total

    return _along(f"end of a run, C = {clients}", "B", -1.0, (2**20, 2**21, 2**22), read)


@PAPER.rate(
    "thm1",
    ref="Theorem 1",
    uses=["eq32", "eq33", "eq34"],
    tex=r"\frac1T\sum_tE\|\nabla J\lambda_t\|^2=O\Big(\frac{\log T}{\alpha T}+\frac1{CB}+"
    r"\frac{M^{3/2}\alpha K}{\beta\sqrt B}\Big)",
    expect="violated",
    note="As B grows only log T/(alpha T) is left on the right. Samples of one long trajectory "
    "have the mean Delta, which is not grad J however exact the critics are (zeta = 0): the "
    "left side ends at ||grad J||^2 where Delta lambda = 0. With one logit per pair that is "
    "zero, as both fields then vanish together; with features that states share it is not. If "
    "J starts in d_pi itself, as its law of s_0 is left open: two states, action a leads to "
    "state a with probability 3/4, r = 0.6 and 1 in the first state, 0 in the second, gamma = "
    "1/2, pi(1|s) = p in both. Runs along Delta = p (1 - p) (0.15 - 0.3 p) end at p = 1/2, "
    "where grad J = 1/20. (35) has bias terms, which are zero here as well. The theorem's "
    "M^{3/2} reads sqrt(sqrt(M^3)) in the copy used here, likely a fault of it: the "
    "introduction, Remark 1 and (35) have sqrt(M^3). Restarted samples repair it: "
    "firm.thm1_paths in expectation is firm.thm1_corrected.",
    corrected="thm1_paths",
    main=True,
)
def thm1() -> Sequence[rc.Regime]:
    """(1/T) sum E||grad J lambda_t||^2 = O(log T/(alpha T) + 1/(CB) + alpha K M^{3/2}/(beta
    sqrt(B))): B to infinity, in T.
    """
    return [
        _against_T(
            f"Markov samples, exact critics, process {k + 1}", _infinite_batches(k), "1/t", k
        )
        for k in range(_PROCESSES)
    ]


@PAPER.rate(
    "thm1_corrected",
    ref="Theorem 1, corrected; eta = 1",
    printed_as="ours",
    uses=["thm1_paths"],
    tex=r"\frac1T\sum_tE\|\nabla J\lambda_t\|^2=O\Big(\frac1{\alpha T}+\frac1B\Big)",
    note="Exponents of one process; the bound itself is firm.thm1_paths. Some term without 1/C is "
    "needed: the weights' bias leaves one of order B^{-2}, see firm/gap_clients.",
    derivation="firm.thm1_paths in expectation, J_u <= gamma r_max/(1-gamma) and E|xi^j|^2 = "
    "O(1/B). No smoothing, hence no log T; no (24), hence no 1/beta.",
)
def thm1_corrected() -> Sequence[rc.Regime]:
    """With samples whose mean is grad J and whose variance is O(1/B), lambda_t the clients'
    average, 2 alpha L_J K <= 1 and eta = 1: (1/T) sum E||grad J lambda_t||^2 = O(1/(alpha T) +
    1/B), with constants free of beta, C and K. Fitted here: the exponents of T and B.
    """
    return [
        _against_T("exact gradients", _exact(), 1.0),
        _small_steps("exact gradients, alpha = 1/(L_J T)", 0.0, 1.0),
        _large_batches(1, 1.0),
        _large_batches(8, 1.0),
    ]


@PAPER.rate(
    "thm1_smoothed",
    ref="Theorem 1 with eta_t = 1/t and samples whose mean is grad J: exponents",
    printed_as="ours",
    tex=r"\frac1T\sum_tE\|\nabla J\lambda_t\|^2=O\Big(\frac{\log T}{\alpha T}+\frac1{CB}\Big)",
    note="About one process near its strict maximum, not a proof: there the left side ends at "
    "order alpha/(CB), without 1/beta and 1/sqrt(B). The log T is not attained either.",
)
def thm1_smoothed() -> Sequence[rc.Regime]:
    """With samples whose mean is grad J and eta_t = 1/t: (1/T) sum E||grad J lambda_t||^2 falls
    like 1/T or faster with exact gradients, and its end like 1/B, for 1 and for 8 clients.
    """
    return [
        _against_T("exact gradients", _exact(), "1/t"),
        _large_batches(1, "1/t"),
        _large_batches(8, "1/t"),
    ]


@PAPER.rate(
    "eq35",
    ref="equation (35)",
    printed_as="proof step",
    uses=["eq32", "eq33", "eq34"],
    tex=r"\frac1T\sum_tE\|\nabla J\lambda_t\|^2=O\Big(\frac{\log T}T+\frac1{CB}+\text{bias}+"
    r"\alpha^2K^2+\frac{M^{3/2}\alpha K}{\beta\sqrt B}\Big)",
    expect="violated",
    note="(34) loses the factor 1/alpha, which Theorem 1 has: with alpha = 1/(L_J T) parameters "
    "move by less than a constant and the left side does not fall, while the right side is of "
    "order log T/T. So the O is not uniform in alpha, as its terms in alpha K say it is; for an "
    "alpha that is held fixed, 1/alpha is a constant. With the factor the statement is that of "
    "Theorem 1.",
    corrected="thm1_paths",
    main=True,
)
def eq35() -> Sequence[rc.Regime]:
    """(1/T) sum E||grad J lambda_t||^2 = O(log T/T + 1/(CB) + bias + alpha^2 K^2 + M^{3/2} alpha
    K/(beta sqrt(B))): exact gradients, alpha = 1/(L_J T), in T.
    """
    return [_small_steps("exact gradients, alpha = 1/(L_J T)", -1.0, "1/t")]


# Appendix F.1.2 and Remark 1: one state, three actions, two objectives.

_LOGITS = np.array([0.3, -0.2, 0.1])
_PLAIN = at.OneState(_LOGITS, np.array([[1.0, 0.1], [0.2, 0.9], [0.0, 0.4]]))
#: The second gradient is half the first, so that without beta the solution is a vertex.
_FACE = at.OneState(_LOGITS, np.array([[1.0, 0.5], [0.2, 0.1], [0.0, 0.0]]))


def _distance(name: str, process: at.OneState, beta: float) -> rc.Regime:
    return _along(name, "B", -1.0, (32, 64, 128), lambda B: process.weight_distance(B, beta))


@PAPER.rate(
    "F12",
    ref="Appendix F.1.2",
    uses=["lemma8"],
    tex=r"E\|\lambda^c-\lambda^{c'}\|^2=O(1/B)",
    note="Lemma 8 squared (which is true, though its proof loses a factor of two: "
    "firm.lemma1_sharper), with E||g^c - g^c'||^2 = O(1/B); exact values. Beta > 0 and common "
    "parameters are needed: K > 1 adds what is of order alpha K.",
)
def F12() -> Sequence[rc.Regime]:
    """E||lambda^c - lambda^c'||^2 = O(1/B) for clients with the same parameters and critics."""
    return [
        _distance("crossing objectives", _PLAIN, 0.1),
        _distance("one far shorter gradient", _FACE, 0.05),
    ]


def _drifts(*, product: bool) -> Sequence[rc.Regime]:
    steps = (2.0**4, 2.0**5, 2.0**6)
    drifts = [_PLAIN.local_step(4, 0.1, 1.0 / x) for x in steps]
    inverse = np.array(steps)
    return [
        _limit("client drift T_{1,2}", "1/alpha", -2.0, inverse, [pair[0] for pair in drifts]),
        _limit(
            "disagreement drift", "1/alpha", -float(product), inverse, [pair[1] for pair in drifts]
        ),
    ]


@PAPER.rate(
    "rem1",
    ref="Remark 1",
    uses=["eq24", "eq26"],
    tex=r"\mathcal T_{1,2}=O(\alpha^2K^2),\quad\mathcal T^{\rm disagr}=O\Big(\frac{M^{3/2}"
    r"\alpha K}{\beta\sqrt B}\Big)",
    expect="violated",
    note="(24) has a sum of B^{-1/2} and alpha K, not their product: as alpha falls to 0 clients "
    "still solve with different samples. No step size removes the disagreement; see also "
    "firm.thm1_drift_product. The client drift falls with alpha^4 here: deviations from the mean "
    "sum to zero, so that only curvature is left, and is squared.",
    corrected="law_additive",
)
def rem1() -> Sequence[rc.Regime]:
    """The client drift is O(alpha^2 K^2) and the disagreement drift O(M^{3/2} alpha K/(beta
    sqrt(B))): in alpha, after one local step.
    """
    return _drifts(product=True)


@PAPER.rate(
    "rem1_corrected",
    ref="Remark 1, corrected",
    printed_as="ours",
    tex=r"\mathcal T^{\rm disagr}=O\Big(\frac{M^{3/2}}\beta\Big(\frac1{\sqrt B}+"
    r"\alpha K\Big)\Big)",
    derivation="firm.eq26_sharper, and firm.eq24_present with firm.lemma9_corrected for b = 0: "
    "exact critics, restarted samples and softmax policies. Other critics add what is of order "
    "(M/beta) b. firm.law_additive has sharper exponents.",
    uses=["eq26_sharper", "eq24_present", "lemma9_corrected"],
)
def rem1_corrected() -> Sequence[rc.Regime]:
    """The client drift is O(alpha^2 K^2); with restarted samples and exact critics the
    disagreement drift is O((M^{3/2}/beta)(B^{-1/2} + alpha K)), which does not vanish with alpha.
    Fitted here: the exponents in alpha.
    """
    return _drifts(product=False)


# Lemma 3.

_CRITIC = at.Critic(
    P=np.array([[0.7, 0.3], [0.2, 0.8]]),
    r=np.array([1.0, 0.2]),
    phi=np.array([1.0, 0.4]),
    gamma=0.8,
)
_SIZES = (2**8, 2**9, 2**10)
_INVERSE = (2.0**8, 2.0**9, 2.0**10)


@PAPER.rate(
    "lemma3",
    ref="Lemma 3",
    tex=r"E\|w_N-w_*\|^2\le(1-O(\lambda_A\alpha'))^N+O(\alpha'/B)",
    note="Exact second moments of a two-state chain with one feature, batch after batch. The batch "
    "is called B here and D in Algorithm 3. The start's share is multiplied by ||w_0 - w_*||^2, "
    "which the statement leaves out; the O hides 1/lambda_A in the floor.",
)
def lemma3() -> Sequence[rc.Regime]:
    """E||w_N - w_*||^2 <= (1 - O(lambda_A alpha'))^N + O(alpha'/B) for mini-batches of one
    trajectory: the floor in B and alpha', and the steps until the start is forgotten.
    """
    return [
        _along("floor", "B", -1.0, _SIZES, lambda D: _CRITIC.floor(0.5, D)),
        _along("floor, B = 8", "1/alpha'", -1.0, _INVERSE, lambda x: _CRITIC.floor(1.0 / x, 8)),
        _along(
            "steps to forget, B = 8",
            "1/alpha'",
            1.0,
            _INVERSE,
            lambda x: _CRITIC.forgetting(1 / x, 8),
        ),
    ]

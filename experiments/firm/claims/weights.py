"""FIRM, Appendices C and F.1.2: projections, averaged weights and the disagreement drift."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.firm.claims._spaces import BETA, clients
from experiments.firm.paper import PAPER
from experiments.firm.theory import messages, weights as at
from experiments.firm.theory.program import root, weights
from linsys.linalg import Numbers, agent_mean, norm, squared

WEIGHTS = clients({"lam": rc.simplex("C", "M")})
PATHS = {"stars": rc.simplex("T", 2, "M"), "eta": rc.interval("T")}
LENGTHS = {"T": (1, 4), "M": (1, 4)}


def _ball(*, w: Any, other: Any, inside: Any, radius: Any, size: Any) -> SimpleNamespace:
    """Vectors of length at most ``size`` and one in the ball of this radius."""
    return SimpleNamespace(
        w=w * size[:, None],
        other=other * size[:, None],
        inside=inside * radius[:, None],
        radius=radius,
    )


def _total(pairs: Numbers) -> Numbers:
    """The sum over pairs of clients, (B, C, C) to (B,)."""
    return np.asarray(pairs.reshape(len(pairs), -1).sum(axis=-1))


def _pairs(values: Numbers) -> Numbers:
    """Differences of what clients have, (B, C, C, ...)."""
    return np.asarray(values[:, :, None] - values[:, None])


def projected(w: Numbers, radius: Numbers) -> Numbers:
    """min(1, R_w / ||w||) w, for vectors (B, d)."""
    size, limit = norm(w), radius
    factor = np.where(size > limit, limit / np.where(size > limit, size, limit), 1 + 0 * size)
    return np.asarray(w * factor[:, None])


@PAPER.identity(
    "eq11",
    ref="equation (11)",
    tex=r"(1-\eta)\lambda_{t-1}+\eta\lambda^*_t\in\Delta_M",
    on=rc.Space(
        fields={"old": rc.simplex("M"), "star": rc.simplex("M"), "eta": rc.interval()},
        sizes={"M": (1, 4)},
        batched=True,
    ),
)
def eq11(old: Numbers, star: Numbers, eta: Numbers) -> rc.Sides:
    """lambda_t = (1 - eta) lambda_{t-1} + eta lambda*_t stays in the simplex: its sum and the sum
    of its absolute values are one.
    """
    mixed = (1 - eta[:, None]) * old + eta[:, None] * star
    sums = np.stack([mixed.sum(axis=-1), np.abs(mixed).sum(axis=-1)], axis=1)
    return sums, 0 * sums + 1


@PAPER.upper(
    "proj",
    ref="Appendix C, closed form of the projection",
    tex=r"\Pi_{\mathcal H}(w)=\min(1,R_w/\|w\|)w",
    on=rc.Space(
        fields={
            "w": rc.ball("d"),
            "other": rc.ball("d"),
            "inside": rc.ball("d"),
            "radius": rc.positive(),
            "size": rc.positive(),
        },
        sizes={"d": (1, 3)},
        view=_ball,
        batched=True,
        meaning={
            "w": "w over size",
            "other": "another vector over size",
            "inside": "a vector of the ball over its radius",
            "radius": "R_w",
        },
    ),
    note="Of the closed ball: the set as printed, ||w|| < R_w, has no nearest point to any w "
    "outside of it, and the formula, printed without the norm, ends on its boundary.",
)
def proj(w: Numbers, other: Numbers, inside: Numbers, radius: Numbers) -> rc.Sides:
    """min(1, R_w/||w||) w is the nearest point of the ball of radius R_w, and no distance grows
    under this map.
    """
    here, there = projected(w, radius), projected(other, radius)
    measured = norm(here - w), norm(here), norm(here - there)
    bound = norm(inside - w), radius, norm(w - other)
    return np.stack(measured, axis=1), np.stack(bound, axis=1)


# Appendix F.1.2.


@PAPER.upper(
    "eq18",
    ref="equation (18)",
    tex=r"\Big\|\frac1C\sum_cA_c(\lambda^c-\bar\lambda)\Big\|^2\le\frac1C\sum_c\Big(\sum_j"
    r"\|g^{j,c}\||\lambda^{j,c}-\bar\lambda^j|\Big)^2",
    on=WEIGHTS,
    note="Jensen's inequality, the first step, discards that the deviations from lambdabar sum to "
    "zero, and with it most of what there is: see the sharpened form.",
)
def eq18(g: Numbers, lam: Numbers) -> rc.Sides:
    """||(1/C) sum_c A_c (lambda^c - lambdabar)||^2 <= (1/C) sum_c ||A_c (lambda^c - lambdabar)||^2
    <= (1/C) sum_c (sum_j ||g^{j,c}|| |lambda^{j,c} - lambdabar^j|)^2.
    """
    apart = at.centred(lam)
    square = agent_mean(squared(at.combined(g, apart)))
    triangle = agent_mean((norm(g) * np.abs(apart)).sum(axis=-1) ** 2)
    return np.stack([at.disagreement(g, lam), square], axis=1), np.stack([square, triangle], axis=1)


@PAPER.upper(
    "eq18_sharper",
    ref="equation (18) without Jensen's inequality",
    tex=r"\mathcal T^{\rm disagr}_{1,1}\le\Big(\frac1C\sum_c\max_j\|g^{j,c}-\bar g^j\|"
    r"\,\|\lambda^c-\bar\lambda\|_1\Big)^2",
    on=WEIGHTS,
    derivation="sum_c (lambda^c - lambdabar) = 0, so A_c may be replaced by A_c minus the clients' "
    "average in sum_c A_c (lambda^c - lambdabar); then the triangle inequality.",
    sharpens="eq18",
)
def eq18_sharper(g: Numbers, lam: Numbers) -> rc.Sides:
    """The disagreement drift, with lambdabar as in (7), is at most ((1/C) sum_c max_j ||g^{j,c} -
    gbar^j|| ||lambda^c - lambdabar||_1)^2: whatever the weights are.
    """
    apart = norm(at.centred(g)).max(axis=-1)
    return at.disagreement(g, lam), agent_mean(apart * at.spread_of(lam)) ** 2


@PAPER.upper(
    "drift_without_beta",
    ref="Remarks 1 and 3: what the drift is without regularisation",
    printed_as="ours",
    tex=r"\mathcal T^{\rm disagr}_{1,1}\le4(1-\tfrac1C)^2\max_{j,c}\|g^{j,c}-\bar g^j\|^2",
    on=WEIGHTS,
    note="(23) bounds the same term by the first power of the gradients' differences over beta; "
    "Remark 1 reads control by beta, and a challenge growing with M, from it. The term is of "
    "second order whatever beta and M are: O(1/B) and not O(1/sqrt B) from the noise. A "
    "regulariser with the sharpened Lemma 1 makes it of fourth order, M^2 (2 R gap^2 / beta)^2, "
    "gap the largest ||g^{j,c} - g^{j,c'}|| of any step that the weights remember. "
    "This is the drift around the clients' average lambdabar; around another lambda_t, (14), it "
    "contains ||Abar (lambdabar - lambda_t)||^2.",
    uses=["eq18_sharper"],
    derivation="firm.eq18_sharper and ||lambda^c - lambdabar||_1 <= (1/C) sum_{c' != c} "
    "||lambda^c - lambda^c'||_1 <= 2 (1 - 1/C).",
)
def drift_without_beta(g: Numbers, lam: Numbers) -> rc.Sides:
    """The disagreement drift, with lambdabar as in (7), is at most 4 (1 - 1/C)^2 max_{j,c}
    ||g^{j,c} - gbar^j||^2, for any weights, hence without any regulariser.
    """
    clients = g.shape[1]
    apart = norm(at.centred(g)).max(axis=(1, 2))
    return at.disagreement(g, lam), (2 * (clients - 1) * apart / clients) ** 2


@PAPER.upper(
    "S2",
    ref="Appendix F.1.2, below (18)",
    tex=r"S_c=\|\lambda^c-\bar\lambda\|_1\le2,\quad S_c^2\le2S_c",
    on=WEIGHTS,
    note="lambdabar contains lambda^c/C, so 2 (1 - 1/C) is enough.",
)
def S2(lam: rc.Numbers) -> rc.Sides:
    """S_c = ||lambda^c - lambdabar||_1 <= 2 and S_c^2 <= 2 S_c."""
    spread = at.spread_of(lam)
    return np.stack([spread, spread**2], axis=1), np.stack([0 * spread + 2, 2 * spread], axis=1)


@PAPER.upper(
    "eq19_20",
    ref="equations (19) and (20)",
    uses=["eq18", "lemma7", "S2"],
    tex=r"\mathcal T\le\frac{R^2}C\sum_cS_c^2\le\frac{2R^2}C\sum_cS_c\le\frac{2R^2\sqrt M}{C^2}"
    r"\sum_{c,c'}\|\lambda^c-\lambda^{c'}\|_2",
    on=WEIGHTS,
)
def eq19_20(g: Numbers, lam: Numbers, R: Numbers) -> rc.Sides:
    """The drift is at most (R^2/C) sum_c S_c^2 <= (2R^2/C) sum_c S_c <= (2R^2/C^2) sum_{c,c'}
    ||lambda^c - lambda^c'||_1 <= (2R^2 sqrt(M)/C^2) sum_{c,c'} ||lambda^c - lambda^c'||_2.

    S_c = ||lambda^c - lambdabar||_1, distances of all pairs of clients; the last with sqrt(M).
    """
    pairs = _pairs(lam)
    clients, M = lam.shape[1:]
    spread = at.spread_of(lam)
    share = 2 * R**2 / clients**2
    chain = [
        at.disagreement(g, lam),
        R**2 * agent_mean(spread**2),
        2 * R**2 * agent_mean(spread),
        share * _total(np.abs(pairs).sum(axis=-1)),
        share * root(M, R) * _total(norm(pairs)),
    ]
    return np.stack(chain[:-1], axis=1), np.stack(chain[1:], axis=1)


@PAPER.upper(
    "eq21",
    ref="equation (21)",
    tex=r"\|\lambda_t^c-\lambda_t^{c'}\|\le(1-\eta_t)\|\lambda_{t-1}^c-\lambda_{t-1}^{c'}\|+"
    r"\eta_t\|\lambda_t^{*,c}-\lambda_t^{*,c'}\|",
    on=rc.Space(fields={"starts": rc.simplex(2, "M"), **PATHS}, sizes=LENGTHS, batched=True),
)
def eq21(starts: Numbers, stars: Numbers, eta: Numbers) -> rc.Sides:
    """||lambda_t^c - lambda_t^c'|| <= (1 - eta_t) ||lambda_{t-1}^c - lambda_{t-1}^c'|| + eta_t
    ||lambda_t*^c - lambda_t*^c'||.

    Two clients: starts (B, 2, M), stars (B, T, 2, M), eta (B, T); every t, shape (B, T).
    """
    path = at.smoothed(starts, stars, eta)
    gap = norm(path[:, :, 0] - path[:, :, 1])
    optimal = norm(stars[:, :, 0] - stars[:, :, 1])
    return gap[:, 1:], (1 - eta) * gap[:, :-1] + eta * optimal


@PAPER.upper(
    "eq22",
    ref="equation (22)",
    uses=["eq21"],
    tex=r"\|\lambda_t^c-\lambda_t^{c'}\|\le\sum_{i=1}^t\eta_i\prod_{k=i+1}^t(1-\eta_k)"
    r"\|\lambda_i^{*,c}-\lambda_i^{*,c'}\|",
    on=rc.Space(fields={"start": rc.simplex("M"), **PATHS}, sizes=LENGTHS, batched=True),
)
def eq22(start: Numbers, stars: Numbers, eta: Numbers) -> rc.Sides:
    """From one lambda_0: ||lambda_t^c - lambda_t^c'|| <= sum_{i<=t} eta_i prod_{k>i} (1 - eta_k)
    ||lambda_i*^c - lambda_i*^c'||.

    From one start (B, M).
    """
    path = at.smoothed(np.stack([start, start], axis=1), stars, eta)
    optimal = norm(stars[:, :, 0] - stars[:, :, 1])
    bound, kept = 0 * optimal[:, 0], 1 + 0 * optimal[:, 0]
    for i in reversed(range(eta.shape[1])):
        bound = bound + eta[:, i] * kept * optimal[:, i]
        kept = kept * (1 - eta[:, i])
    return norm(path[:, -1, 0] - path[:, -1, 1]), bound


@PAPER.upper(
    "rem2",
    ref="Remark 2",
    printed_as="ours",
    tex=r"\mathcal T^{\rm disagr}_{1,1}\le\frac{4R^3M}{\beta C^2}\sum_{c,c'}\max_j\|g^{j,c}-"
    r"g^{j,c'}\|",
    on=clients({"beta": BETA}),
    note="Here for lambda^c = lambda*^c; a smoothed lambda^c adds the weights of (22), as in (23). "
    "By firm.drift_without_beta even this is far from what the term is.",
    derivation="(20) and the sharpened Lemma 1: 2 R^2 sqrt(M) times 2 R sqrt(M) / beta. So the "
    "sqrt(M) comes from (44) and (45) applied one after the other, not from reinforcement "
    "learning, as the remark suspects.",
)
def rem2(g: Numbers, beta: Numbers, R: Numbers) -> rc.Sides:
    """The factor sqrt(M) beyond the M of Askin et al., whose tightness the remark leaves open, is
    not needed: the drift is at most (4R^3 M/(beta C^2)) sum_{c,c'} max_j ||g^{j,c} - g^{j,c'}||.

    (23) for one step from a common lambda with eta = 1, with M in the place of 2 M^{3/2}.
    """
    count, clients, M, d = g.shape
    A = np.swapaxes(g, -1, -2).reshape(-1, d, M)
    lam = weights(A, np.repeat(beta, clients)).reshape(count, clients, M)
    gaps = _total(norm(_pairs(g)).max(axis=-1))
    return at.disagreement(g, lam), 4 * R**3 * M / (beta * clients**2) * gaps


@PAPER.identity(
    "fedcmoo",
    ref="Section 5 (RQ1) and Remark 4, comparison with a server-side lambda",
    tex=r"\frac1C\sum_c\sum_j\lambda^jg^{j,c}=\sum_j\lambda^j\bar g^j",
    on=clients({"common": rc.simplex("M")}),
)
def fedcmoo(g: Numbers, common: Numbers) -> rc.Sides:
    """With one lambda for all clients the averaged direction is that of the averaged gradients: no
    disagreement.
    """
    shared = common[:, None] + 0 * g[..., 0]
    return agent_mean(at.combined(g, shared)), (agent_mean(g) * common[..., None]).sum(axis=-2)


@PAPER.count(
    "comm",
    ref="Section 1 and Appendix B",
    tex=r"Cd\ \text{ against }\ CMd",
    on=rc.Space(
        fields={
            "clients": rc.whole_numbers(low=1, high=8),
            "objectives": rc.whole_numbers(low=1, high=4),
            "size": rc.whole_numbers(low=1, high=16),
        },
        meaning={"size": "d", "objectives": "M"},
    ),
    note="With K = 1 a round is one step. A client of FIRM sends after K local steps; a server "
    "that resolves objectives between local steps needs the M gradients at each of them, and "
    "FedCMOO, whose clients walk on by themselves, the parameters as well: C (M + 1) d.",
)
def comm(clients: Any, objectives: Any, size: Any) -> rc.Sides:
    """In a round of one step C clients send C d numbers up where each resolves its objectives, C M
    d where the server does.

    Counted in the messages of a round in which server and clients share nothing else.
    """
    C, M, d = int(clients), int(objectives), int(size)
    return np.array(messages.numbers_sent(C, M, d)), np.array([C * d, C * M * d])

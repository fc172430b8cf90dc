"""FIRM, Appendices C and F.1.2: projections, averaged weights and the disagreement drift."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ratecheck as rc
from experiments.firm.claims._spaces import BETA, clients
from experiments.firm.theory import descent, weights as at

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


EQ11 = rc.Claim(
    id="firm.eq11",
    source="FIRM, equation (11)",
    text="lambda_t = (1 - eta) lambda_{t-1} + eta lambda*_t stays in the simplex: its sum and the "
    "sum of its absolute values are one.",
    latex=r"(1-\eta)\lambda_{t-1}+\eta\lambda^*_t\in\Delta_M",
    kind="identity",
    space=rc.Space(
        fields={"old": rc.simplex("M"), "star": rc.simplex("M"), "eta": rc.interval()},
        sizes={"M": (1, 4)},
        batched=True,
    ),
    measure=lambda s: at.eq11(s.old, s.star, s.eta),
)
PROJ = rc.Claim(
    id="firm.proj",
    source="FIRM, Appendix C, closed form of the projection",
    text="min(1, R_w/||w||) w is the nearest point of the ball of radius R_w, and no distance "
    "grows under this map.",
    latex=r"\Pi_{\mathcal H}(w)=\min(1,R_w/\|w\|)w",
    kind="upper",
    space=rc.Space(
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
    measure=lambda s: at.proj(s.w, s.other, s.inside, s.radius),
    note="Of the closed ball: the set as printed, ||w|| < R_w, has no nearest point to any w "
    "outside of it, and the formula, printed without the norm, ends on its boundary.",
)

# Appendix F.1.2.

EQ18 = rc.Claim(
    id="firm.eq18",
    source="FIRM, equation (18)",
    text="||(1/C) sum_c A_c (lambda^c - lambdabar)||^2 <= (1/C) sum_c ||A_c (lambda^c - "
    "lambdabar)||^2 <= (1/C) sum_c (sum_j ||g^{j,c}|| |lambda^{j,c} - lambdabar^j|)^2.",
    latex=r"\Big\|\frac1C\sum_cA_c(\lambda^c-\bar\lambda)\Big\|^2\le\frac1C\sum_c\Big(\sum_j"
    r"\|g^{j,c}\||\lambda^{j,c}-\bar\lambda^j|\Big)^2",
    kind="upper",
    space=WEIGHTS,
    measure=lambda s: at.eq18(s.g, s.lam),
    note="Jensen's inequality, the first step, discards that the deviations from lambdabar sum to "
    "zero, and with it most of what there is: see the sharpened form.",
)
EQ18_SHARPER = rc.Claim(
    id="firm.eq18_sharper",
    source="FIRM, equation (18) without Jensen's inequality",
    text="The disagreement drift, with lambdabar as in (7), is at most ((1/C) sum_c max_j "
    "||g^{j,c} - gbar^j|| ||lambda^c - lambdabar||_1)^2: whatever the weights are.",
    latex=r"\mathcal T^{\rm disagr}_{1,1}\le\Big(\frac1C\sum_c\max_j\|g^{j,c}-\bar g^j\|"
    r"\,\|\lambda^c-\bar\lambda\|_1\Big)^2",
    kind="upper",
    space=WEIGHTS,
    measure=lambda s: at.eq18_sharper(s.g, s.lam),
    derivation="sum_c (lambda^c - lambdabar) = 0, so A_c may be replaced by A_c minus the clients' "
    "average in sum_c A_c (lambda^c - lambdabar); then the triangle inequality.",
)
DRIFT_WITHOUT_BETA = rc.Claim(
    id="firm.drift_without_beta",
    source="FIRM, Remarks 1 and 3: what the drift is without regularisation",
    text="The disagreement drift, with lambdabar as in (7), is at most 4 (1 - 1/C)^2 max_{j,c} "
    "||g^{j,c} - gbar^j||^2, for any weights, hence without any regulariser.",
    latex=r"\mathcal T^{\rm disagr}_{1,1}\le4(1-\tfrac1C)^2\max_{j,c}\|g^{j,c}-\bar g^j\|^2",
    kind="upper",
    space=WEIGHTS,
    measure=lambda s: at.eq18_crude(s.g, s.lam),
    note="(23) bounds the same term by the first power of the gradients' differences over beta; "
    "Remark 1 reads the need of a regulariser, and a challenge growing with M, from it. The term "
    "is of second order whatever beta and M are: O(1/B) and not O(1/sqrt B) from the noise. A "
    "regulariser with the sharpened Lemma 1 makes it of fourth order, M^2 (2 R gap^2 / beta)^2. "
    "This is the drift around the clients' average lambdabar; around another lambda_t, (14), it "
    "contains ||Abar (lambdabar - lambda_t)||^2.",
    derivation="firm.eq18_sharper and ||lambda^c - lambdabar||_1 <= (1/C) sum_{c' != c} "
    "||lambda^c - lambda^c'||_1 <= 2 (1 - 1/C).",
)
S2 = rc.Claim(
    id="firm.S2",
    source="FIRM, Appendix F.1.2, below (18)",
    text="S_c = ||lambda^c - lambdabar||_1 <= 2 and S_c^2 <= 2 S_c.",
    latex=r"S_c=\|\lambda^c-\bar\lambda\|_1\le2,\quad S_c^2\le2S_c",
    kind="upper",
    space=WEIGHTS,
    measure=lambda s: at.S2(s.lam),
    note="lambdabar contains lambda^c/C, so 2 (1 - 1/C) is enough.",
)
EQ19_20 = rc.Claim(
    id="firm.eq19_20",
    source="FIRM, equations (19) and (20)",
    text="The drift is at most (R^2/C) sum_c S_c^2 <= (2R^2/C) sum_c S_c <= (2R^2/C^2) sum_{c,c'} "
    "||lambda^c - lambda^c'||_1 <= (2R^2 sqrt(M)/C^2) sum_{c,c'} ||lambda^c - lambda^c'||_2.",
    latex=r"\mathcal T\le\frac{R^2}C\sum_cS_c^2\le\frac{2R^2}C\sum_cS_c\le\frac{2R^2\sqrt M}{C^2}"
    r"\sum_{c,c'}\|\lambda^c-\lambda^{c'}\|_2",
    kind="upper",
    space=WEIGHTS,
    measure=lambda s: at.eq19_20(s.g, s.lam, s.R),
)
EQ21 = rc.Claim(
    id="firm.eq21",
    source="FIRM, equation (21)",
    text="||lambda_t^c - lambda_t^c'|| <= (1 - eta_t) ||lambda_{t-1}^c - lambda_{t-1}^c'|| + eta_t "
    "||lambda_t*^c - lambda_t*^c'||.",
    latex=r"\|\lambda_t^c-\lambda_t^{c'}\|\le(1-\eta_t)\|\lambda_{t-1}^c-\lambda_{t-1}^{c'}\|+"
    r"\eta_t\|\lambda_t^{*,c}-\lambda_t^{*,c'}\|",
    kind="upper",
    space=rc.Space(fields={"starts": rc.simplex(2, "M"), **PATHS}, sizes=LENGTHS, batched=True),
    measure=lambda s: at.eq21(s.starts, s.stars, s.eta),
)
EQ22 = rc.Claim(
    id="firm.eq22",
    source="FIRM, equation (22)",
    text="From one lambda_0: ||lambda_t^c - lambda_t^c'|| <= sum_{i<=t} eta_i prod_{k>i} (1 - "
    "eta_k) ||lambda_i*^c - lambda_i*^c'||.",
    latex=r"\|\lambda_t^c-\lambda_t^{c'}\|\le\sum_{i=1}^t\eta_i\prod_{k=i+1}^t(1-\eta_k)"
    r"\|\lambda_i^{*,c}-\lambda_i^{*,c'}\|",
    kind="upper",
    space=rc.Space(fields={"start": rc.simplex("M"), **PATHS}, sizes=LENGTHS, batched=True),
    measure=lambda s: at.eq22(s.start, s.stars, s.eta),
)
REM2 = rc.Claim(
    id="firm.rem2",
    source="FIRM, Remark 2",
    text="The factor sqrt(M) beyond the M of Askin et al., whose tightness the remark leaves open, "
    "is not needed: the drift is at most (4R^3 M/(beta C^2)) sum_{c,c'} max_j ||g^{j,c} - "
    "g^{j,c'}||.",
    latex=r"\mathcal T^{\rm disagr}_{1,1}\le\frac{4R^3M}{\beta C^2}\sum_{c,c'}\max_j\|g^{j,c}-"
    r"g^{j,c'}\|",
    kind="upper",
    space=clients({"beta": BETA}),
    measure=lambda s: at.rem2(s.g, s.beta, s.R),
    note="Here for lambda^c = lambda*^c; a smoothed lambda^c adds the weights of (22), as in (23). "
    "By firm.drift_without_beta even this is far from what the term is.",
    derivation="(20) and the sharpened Lemma 1: 2 R^2 sqrt(M) times 2 R sqrt(M) / beta. So the "
    "sqrt(M) comes from (44) and (45) applied one after the other, not from reinforcement "
    "learning, as the remark suspects.",
)
FEDCMOO = rc.Claim(
    id="firm.fedcmoo",
    source="FIRM, Section 4.2, comparison with a server-side lambda",
    text="With one lambda for all clients the averaged direction is that of the averaged "
    "gradients: no disagreement.",
    latex=r"\frac1C\sum_c\sum_j\lambda^jg^{j,c}=\sum_j\lambda^j\bar g^j",
    kind="identity",
    space=clients({"common": rc.simplex("M")}),
    measure=lambda s: at.fedcmoo(s.g, s.common),
)
COMM = rc.Claim(
    id="firm.comm",
    source="FIRM, Section 1 and Appendix B",
    text="In a round C clients send C d numbers up where each resolves its objectives, C M d where "
    "the server does.",
    latex=r"Cd\ \text{ against }\ CMd",
    kind="count",
    space=rc.Space(
        fields={
            "clients": rc.whole_numbers(low=1, high=16),
            "objectives": rc.whole_numbers(low=1, high=8),
            "size": rc.whole_numbers(low=1, high=64),
        }
    ),
    measure=lambda s: descent.comm(int(s.clients), int(s.objectives), int(s.size)),
    note="Per message. A client sends after K local steps, a server that resolves objectives "
    "between local steps needs its M gradients at each of them.",
)

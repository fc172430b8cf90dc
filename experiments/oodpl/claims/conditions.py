"""OOD-PL, Lemma 4 and Theorem 1: whether their conditions on alpha, beta and D can hold together.

All are conditions on c = alpha b mu/e^beta, on the spread B L/(b mu) >= 1, and on M^2 rho^2/L^4;
with b^(1/beta) and B^(1/beta) for b/e^beta and B/e^beta they stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.oodpl.paper import PAPER
from experiments.oodpl.theory import conditions as at
from experiments.oodpl.theory.conditions import Conditions, step_ii
from linsys.linalg import Numbers, logistic

_KAPPA: dict[str, rc.Field] = {"kappa": rc.interval(low=0.001, high=0.999)}


def _view(*, c: Any, wide: Any, bend: Any, **others: Any) -> SimpleNamespace:
    return SimpleNamespace(at=at.Conditions(c=c, spread=1 + wide, bend=bend), **others)


def _met(*, c: Any, wide: Any, room: Any) -> SimpleNamespace:
    spread, kappa = 1 + wide * (2 / c - 2), room * (1 - 3 * (1 - c) ** 2)
    return SimpleNamespace(at=at.Conditions(c=c, spread=spread, bend=1 + 0 * c), kappa=kappa)


def conditions(
    extra: Mapping[str, rc.Field] | None = None,
    given: Mapping[str, Callable[..., Any]] | None = None,
) -> rc.Space:
    """All values of the three numbers, and further ones."""
    fields: dict[str, rc.Field] = {
        "c": rc.positive(low=0.001, high=2.0),
        "wide": rc.positive(low=1e-4, high=1e4),
        "bend": rc.positive(low=1e-4, high=1e4),
        **(extra or {}),
    }
    meaning = {
        "c": "alpha b mu / e^beta",
        "wide": "B L / (b mu), less one",
        "bend": "M^2 rho^2 / L^4",
    }
    credible = {"wide": (0.01, 100.0), "bend": (0.01, 100.0), "kappa": (0.01, 0.9)}
    return rc.Space(
        fields=fields,
        view=_view,
        given=given or {},
        batched=True,
        meaning=meaning,
        credible={name: ends for name, ends in credible.items() if name in fields},
    )


_STABLE: dict[str, Callable[..., Any]] = {"Lemma 5's alpha": lambda s: s.at.stable}
_CONTRACTS: dict[str, Callable[..., Any]] = {"q <= 1 - kappa": lambda s: s.at.contracts(s.kappa)}
_STEP_II: dict[str, Callable[..., Any]] = {"step (ii)": lambda s: s.at.step_ii}
_DEPTH: dict[str, rc.Field] = {
    "q": rc.positive(low=0.01, high=2.9),
    "start": rc.positive(low=1e-3, high=1e3),
    "more": rc.interval(low=0.0, high=20.0),
}


def _both(logit: Numbers, u: Numbers, heavier: Numbers) -> tuple[Numbers, Numbers]:
    """The log-odds after a step on one answer, and on the other."""
    up, down = heavier[..., 0], heavier[..., 1]
    return logit + u * up * logistic(-logit), logit - u * down * logistic(logit)


def _steps_needed(q: Numbers, start: Numbers) -> Numbers:
    """-log(start) / log(q)."""
    return np.asarray(-np.log(start) / np.log(q))


@PAPER.upper(
    "lemma_4_step_ii",
    ref="Lemma 4, step (ii) of its proof",
    tex=r"\frac{6\alpha^2B^2A}{e^{2\beta}}+1-\frac{2\alpha b\mu s}{e^\beta}\le3\Big(1-\frac"
    r"{\alpha b\mu}{e^\beta}\Big)^2",
    on=conditions(
        given={**_STABLE, "the condition on beta": lambda s: s.at.printed_lemma_4},
    ),
    expect="violated",
    note="The condition has the wrong direction. With c = alpha b mu/e^beta and a = B^2 A/(b mu)^2 "
    "it says a c >= 2, a lower bound of c, and the step asks for (6 a - 3) c^2 + (6 - 2 s) c <= 2, "
    "an upper bound: alpha small or beta large. Theorem 1's first condition, 3 a c >= 2 (3 - s), "
    "is a lower bound as well.",
    corrected="lemma_4_step_ii_corrected",
    reading="The step of its proof by itself, with the condition that the proof states for it.",
    printed_as="proof step",
    reading_of="lemma_4",
)
def lemma_4_step_ii(instance: Any) -> rc.Sides:
    """beta <= log(alpha B^2 A/(2 b mu)), A = L^2 + M^2 rho^2/L^2, implies 6 alpha^2 B^2 A / e^(2
    beta) + 1 - 2 alpha b mu s/e^beta <= 3 (1 - alpha b mu/e^beta)^2 for alpha <= 2 e^beta / (b
    mu + B L), s = B L/(b mu + B L).
    """
    return at.step_ii(instance.at)


@PAPER.identity(
    "lemma_4_step_ii_corrected",
    ref="Lemma 4, step (ii) of its proof, corrected",
    tex=r"\frac{\alpha b\mu}{e^\beta}\le\frac2{3-s+\sqrt{(3-s)^2+2(6a-3)}}",
    on=conditions(),
    derivation="The positive root of (6 a - 3) c^2 + (6 - 2 s) c - 2, with a >= 1 and s < 1.",
)
def lemma_4_step_ii_corrected(at: Conditions) -> rc.Sides:
    """Step (ii) of Lemma 4 holds exactly for alpha b mu/e^beta <= 2/(3 - s + sqrt((3 - s)^2 + 2 (6
    a - 3))), a = B^2 A/(b mu)^2, A and s of ood.lemma_4_step_ii: a lower bound of beta.
    """
    return step_ii(replace(at, c=at.largest))


@PAPER.lower(
    "lemma_4_q",
    ref="Lemma 4: what its step (ii) entails",
    tex=r"q=3\Big(1-\frac{\alpha b\mu}{e^\beta}\Big)^2\ge\frac43",
    on=conditions(given=_STEP_II),
    printed_as="ours",
    note="Equality for b mu = B L, rho = 0 and alpha b mu = e^beta/3. For b and B in any reading.",
    derivation="Step (ii) is (6 a - 3) c^2 + (6 - 2 s) c <= 2 with a >= k^2, s = k/(1 + k), k = B "
    "L/(b mu) >= 1. At c = 1/3 the left side is at least 2 + (2 k^2 - 1)/3 - 2 k/(3 (1 + k)) >= 2, "
    "so c <= 1/3, and q >= 3 (2/3)^2.",
    main=True,
)
def lemma_4_q(at: Conditions) -> rc.Sides:
    """Wherever step (ii) holds, q = 3 (1 - alpha b mu/e^beta)^2 is at least 4/3: (36) grows with D
    like (4/3)^D at least.
    """
    return at.q, np.asarray(4 / (3 + 0 * at.c))


@PAPER.lower(
    "lemma_4_young",
    ref="Lemma 4 with any parameter of Young's inequality",
    tex=r"\max\big\{(1+\epsilon)(1-c)^2,\ 2(1+\tfrac1\epsilon)ac^2+1-2cs\big\}\ge1",
    on=conditions({"epsilon": rc.positive(low=1e-4, high=1e4)}),
    printed_as="ours",
    derivation="The first below 1 makes epsilon/(1 + epsilon) < c (2 - c). The second below 1 asks "
    "for a c < s epsilon/(1 + epsilon), so a < s (2 - c) < 2 k/(1 + k) <= k <= k^2 <= a.",
)
def lemma_4_young(at: Conditions, epsilon: Numbers) -> rc.Sides:
    """With 1 + epsilon and 1 + 1/epsilon for the two 3 of the proof, one of the two factors is at
    least 1 for every epsilon, alpha and beta: the weight T^2/beta^2 of ||theta_D - theta_*||^2
    cannot be made to contract.

    ||x + y||^2 <= (1 + epsilon) ||x||^2 + (1 + 1/epsilon) ||y||^2 makes (1 + epsilon) (1 - c)^2 the
    factor of the Jacobian's error, and 2 (1 + 1/epsilon) a c^2 + 1 - 2 c s that of the iterate's.
    The proof's y is a sum of two; to bound it by twice their squares makes the 2 a 4, which is
    worse.
    """
    jacobian = (1 + epsilon) * (1 - at.c) ** 2
    iterate = 2 * (1 + 1 / epsilon) * at.a * at.c**2 + 1 - 2 * at.c * at.s
    return np.asarray(np.maximum(jacobian, iterate)), 1 + 0 * at.c


@PAPER.lower(
    "theorem_1_conditions",
    ref="Theorem 1: what step (ii) of Lemma 4 and q <= 1 - kappa leave",
    tex=r"q\ge1-\kappa+\tfrac13\quad\text{where}\quad"
    r"\frac{6\alpha^2B^2A}{e^{2\beta}}+1-\frac{2\alpha b\mu s}{e^\beta}\le q",
    on=conditions(_KAPPA, _STEP_II),
    printed_as="ours",
    uses=["lemma_4_q"],
    derivation="ood.lemma_4_q: q >= 4/3, and kappa is positive.",
    note="D.1 needs step (ii) and D.2 needs q <= 1 - kappa, so that the proof of Theorem 1 covers "
    "no alpha, beta and kappa at all, whatever the bounds of e^(r/beta) are. Without step (ii): "
    "with b/e^beta the conditions on beta and alpha can be met, for B L/(b mu) < 3.73 "
    "(ood.theorem_1_spread), and there the theorem is false, ood.theorem_1. With b^(1/beta) they "
    "cannot be met by policies of two answers for D >= 2 (ood.theorem_1_two_answers), and where "
    "others may meet them the bound is trivial, ood.theorem_1_noise.",
    main=True,
)
def theorem_1_conditions(instance: Any) -> rc.Sides:
    """Wherever step (ii) of Lemma 4 holds, q is above 1 - kappa by 1/3 and more, for every kappa in
    (0, 1): no alpha and beta meet both step (ii) and q <= 1 - kappa, with which D.2 sums q^t to
    1/kappa.
    """
    return instance.at.q, 1 - instance.kappa + 1 / (3 + 0 * instance.kappa)


# the two conditions solved for the spread and for kappa: they hold up to rounding
# 1 - 1/sqrt(3): below it no kappa is positive
@PAPER.upper(
    "theorem_1_spread",
    ref="Theorem 1's second condition and Lemma 5's step size",
    tex=r"\frac{BL}{b\mu}\le\frac2{1-\sqrt{(1-\kappa)/3}}-1<2+\sqrt3",
    on=rc.Space(
        fields={
            "c": rc.interval(low=0.42265, high=1.0),  # 1 - 1/sqrt(3): below it no kappa is positive
            "wide": rc.interval(low=0.0, high=1.0),
            "room": rc.interval(low=0.0, high=1.0),
        },
        view=_met,
        given={**_STABLE, **_CONTRACTS},
        batched=True,
        meaning={
            "c": "alpha b mu / e^beta",
            "wide": "B L / (b mu), less one, over the most that Lemma 5's alpha leaves",
            "room": "kappa over the most that q leaves",
        },
        constructed="numbers that meet both conditions, which are solved for the spread and kappa",
    ),
    printed_as="ours",
    note="So L/mu times B/b, the condition number of the policy's curvature times the range of "
    "e^r, is below 3.73. With b^(1/beta) and B^(1/beta), which belong in the place of b/e^beta and "
    "B/e^beta, it is the range of e^(r/beta) that is so small. The printed condition on beta also "
    "lacks c <= 1 + sqrt((1 - kappa)/3), which the step size implies.",
    derivation="q <= 1 - kappa is c >= 1 - sqrt((1 - kappa)/3), the step size c <= 2/(1 + k).",
)
def theorem_1_spread(at: Conditions, kappa: Numbers) -> rc.Sides:
    """alpha <= 2 e^beta/(b mu + B L) and q <= 1 - kappa leave B L/(b mu) <= 2/(1 - sqrt((1 -
    kappa)/3)) - 1, less than 2 + sqrt(3).
    """
    return at.spread, np.asarray(2 / (1 - np.sqrt((1 - kappa) / 3)) - 1)


@PAPER.upper(
    "theorem_1_two_answers",
    ref="Theorem 1's second condition with b^(1/beta), policies of two answers",
    tex=r"\alpha b^{1/\beta}\mu\le0.305<1-\tfrac1{\sqrt3}",
    on=rc.Space(
        fields={
            "logit": rc.reals(magnitude=(0.01, 10.0)),
            "u": rc.positive(),
            "heavier": rc.positive(2, low=1.0, high=100.0),
        },
        batched=True,
        meaning={
            "logit": "log-odds of the two answers at theta_0",
            "u": "alpha b^(1/beta) (psi - psi')^2",
            "heavier": "e^(r/beta) / b^(1/beta) of the two answers",
        },
    ),
    printed_as="ours",
    note="Steps of the size that q < 1 asks for leave the region where the policy is that convex. "
    "For D = 1 the largest value is 0.448, which q < 1 allows, with L/mu > 1.7. Any number of "
    "prompts with two answers each, both of which can be sampled.",
    derivation="v = pi (1 - pi) falls with the size of the log-odds x. For x_0 >= 0 sample the "
    "likelier answer twice, x' = x + u w (1 - pi): heavier weights act like a larger u, and only "
    "enlarge x. For u <= 4 the map is increasing, and c <= u v(x_2) from x_0 = 0, at most 0.3045 "
    "at u = 2.80. For u > 4 it has its least value x_1 where v(x) = 1/u and increases from there; "
    "u v(x_2) falls from 0.286 at u = 4 to e^(-1 - 1/e) = 0.255.",
    main=True,
)
def theorem_1_two_answers(logit: Numbers, u: Numbers, heavier: Numbers) -> tuple[Numbers, Numbers]:
    """Where Assumption 1 holds on all iterates that two inner steps can reach, alpha b^(1/beta) mu
    <= 0.305, so that q >= 1.44 and no kappa > 0 has q <= 1 - kappa, from D = 2 on.

    Args:
        logit: log-odds of the answers at theta_0, shape (B,).
        u: alpha b^(1/beta) (psi - psi')^2, shape (B,).
        heavier: e^(r/beta) / b^(1/beta) of both answers, at least one, shape (B, 2).
    """
    reached = [logit]
    for point in (logit, *_both(logit, u, heavier)):
        reached.extend(_both(point, u, heavier))
    curvature = np.stack([logistic(x) * logistic(-x) for x in reached]).min(axis=0)
    return np.asarray(u * curvature), 305 / (1000 + 0 * u)


@PAPER.upper(
    "theorem_1_step_ii",
    ref="Theorem 1: whether its conditions on beta imply step (ii)",
    tex=r"3ac\ge2(3-s),\ q\le1-\kappa,\ c(1+k)\le2\ \Rightarrow\ 6ac^2+1-2cs\le q",
    on=conditions(
        _KAPPA,
        {**_STABLE, **_CONTRACTS, "the first condition": lambda s: s.at.printed_theorem_1},
    ),
    expect="violated",
    note="On no instance that meets them does step (ii) hold, as q < 1.",
    corrected="lemma_4_q",
    reading="Its first condition on beta as what makes step (ii) of Lemma 4 hold, for which D.1 "
    "has one like it (ood.lemma_4_step_ii). In the formula k = B L/(b mu), the rest as there.",
    printed_as="proof step",
    reading_of="theorem_1",
)
def theorem_1_step_ii(instance: Any) -> rc.Sides:
    """Both conditions on beta and Lemma 5's step size imply step (ii) of Lemma 4."""
    return at.step_ii(instance.at)


@PAPER.upper(
    "theorem_1_D",
    ref="Theorem 1's condition on D",
    tex=r"D\ge-\frac{\log(M^2/L^2+\|\theta_0-\theta_*\|^2)}{\log q}\Rightarrow q^D\Big(\frac{M^2}"
    r"{L^2}+\|\theta_0-\theta_*\|^2\Big)\le1",
    on=rc.Space(fields=_DEPTH, batched=True),
    expect="violated",
    note="log q changes its sign at q = 1. For q > 1, where Lemma 4's proof lives, the inequality "
    "turns and the power grows with D. M^2/L^2 is a squared length: whether it is above 1 depends "
    "on the unit of theta.",
    corrected="theorem_1_D_corrected",
    reading="Its condition on D by itself, with the use that D.2 makes of it.",
    printed_as="proof step",
    reading_of="theorem_1",
)
def theorem_1_D(q: Numbers, start: Numbers, more: Numbers) -> rc.Sides:
    """D >= -log(M^2/L^2 + ||theta_0 - theta_*||^2)/log q implies q^D (M^2/L^2 + ||theta_0 -
    theta_*||^2) <= 1.
    """
    D = np.maximum(_steps_needed(q, start), 1 + 0 * q) + more
    return np.asarray(np.exp(D * np.log(q)) * start), 1 + 0 * q


@PAPER.upper(
    "theorem_1_D_corrected",
    ref="Theorem 1's condition on D, corrected",
    tex=r"q<1,\ D\ge\frac{\log(\text{start}/\text{target})}{\log(1/q)}\Rightarrow q^D\,\text"
    r"{start}\le\text{target}",
    on=rc.Space(
        fields={**_DEPTH, "q": rc.positive(low=0.01, high=0.99), "target": rc.positive()},
        batched=True,
    ),
    note="The term 24 M^2 T^2/beta^2 of the theorem is this target times 24 M^2 T^2/beta^2, and "
    "more steps make it as small as one likes at any beta.",
    derivation="Logarithms, with log q < 0.",
)
def theorem_1_D_corrected(q: Numbers, start: Numbers, more: Numbers, target: Numbers) -> rc.Sides:
    """For q < 1 and any target: D >= log(start/target)/log(1/q) implies q^D start <= target."""
    D = np.maximum(_steps_needed(q, start / target), 0 * q) + more
    return np.asarray(np.exp(D * np.log(q)) * start), target


@PAPER.identity(
    "D2_telescoping",
    printed_as="proof step",
    ref="Appendix D.2, the telescoped sum",
    tex=r"\frac\eta2-\eta^2P=\frac1{16P},\quad\frac\eta2+\eta^2P=\frac3{16P}",
    on=rc.Space(fields={"P": rc.positive()}, batched=True),
    note="The arithmetic is right; no eta is missing. What enters it is not: P (ood.D2_P), the "
    "domains (ood.D2_jensen), Lemma 3. For P = 0, all linear rewards, eta is infinite.",
)
def D2_telescoping(P: Numbers) -> rc.Sides:
    """eta = 1/(4P) gives the factors 16 P, 3, 24 and 144.

    The left side solves (eta/2 - eta^2 P) S = gap / K + (eta/2 + eta^2 P) N for S.
    """
    eta = 1 / (4 * P)
    descent, noise = eta / 2 - eta**2 * P, eta / 2 + eta**2 * P
    factors = [1 / descent, noise / descent, 8 * noise / descent, 48 * noise / descent]
    one = 1 + 0 * P
    return np.stack(factors, axis=-1), np.stack([16 * P, 3 * one, 24 * one, 144 * one], axis=-1)

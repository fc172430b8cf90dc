"""FSLoRA, Appendix D.3: the steps of the convergence proof, (11) to (16), round by round."""

from __future__ import annotations

from typing import Any

import ratecheck as rc
from experiments.fslora.claims._rounds import MANY, powers, rounds, smoothness, steady
from experiments.fslora.claims._variants import true_variant
from experiments.fslora.paper import PAPER
from experiments.fslora.theory import chain as at
from experiments.fslora.theory.chain_rates import fixed_step, fresh_step, proof_step
from experiments.fslora.theory.chain_round import Round
from linsys.linalg import Numbers, squared

ANY_STEP = smoothness(0.5)
#: f = L b^2/2 in the sketched entry, as far as a round goes, and two steps.
_SKETCHED: dict[str, Any] = {
    "h": [[1, 0]],
    "o": [[0, 0]],
    "w": [[10, 10]],
    "u": [0],
    "noise": [[0, 0]],
    "X": [1, 0],
    "L": 1,
    "H": 2,
    "share": 0.1,
    "c_h": 1,
}
#: Rounds at the minimum of f^S with a small step size.
_STILL = {"a": -0.5, "w": 10.0, "u": 1.0, "rho": 2.0, "L": 1.0, "bent": 0.99, "share": 0.01}
#: The proof knows nothing else of f_i; of functions of BA only affine ones are L-smooth everywhere.
READING = "Constants are the least at the points that the round visits, for any L-smooth f_i(B, A)."


def _grown(s: Round, share: int) -> Numbers:
    """E f^S(X^{t+1}) - f^S(X) + (gamma H / share) ||G||^2."""
    return s.after - s.value(s.X[:, None])[:, 0] + s.gamma * s.H / share * s.G2


@PAPER.upper(
    "eq11",
    ref="equation (11)",
    tex=r"\mathbb E f^{\mathcal S}(X^{t+1})\le\mathbb E f^{\mathcal S}(X^t)-T_1+"
    r"\frac{\gamma^2L_s}2T_2",
    on=rounds(ANY_STEP),
    printed_as="proof step",
    uses=["prop_d4_iii"],
)
def eq11(step: Round) -> rc.Sides:
    """E f^S(X^{t+1}) <= E f^S(X^t) - T_1 + (gamma^2 L_s/2) T_2, L_s = L mean r/k_i."""
    grown = step.after - step.value(step.X[:, None])[:, 0]
    return grown + step.T1, step.gamma**2 * step.L_s / 2 * step.T2


@PAPER.upper(
    "eq12",
    ref="equation (12)",
    tex=r"-T_1\le-\frac{\gamma H}2\|\nabla f^{\mathcal S}\|^2-\frac\gamma{2H}\mathbb E\Big\|"
    r"\frac1N\sum_{i,h}\nabla f_i^{\mathcal S}(X_i^{t,h})\Big\|^2+\frac{\gamma HL^2}2\frac1{NH}"
    r"\sum_i\frac{r^2}{k_i^2}\sum_h\mathbb E\|X_i^{t,h}-X^t\|^2",
    on=rounds(ANY_STEP, steps=(2, 3)),
    expect="violated",
    note="From h = 1 on X_i^h depends on the sketch of the round, so E grad f~_i(X^h; S) is not E "
    "grad f_i^S(X^h). N = 1, H = 2, f = L b^2/2 in the sketched entry, G = (r/k) L b: E<G, g^0 + "
    "g^1> = G^2 (2 - gamma L r^2/k^2), the proof needs at least G^2 (2 - gamma L r/k - gamma^2 L^2 "
    "(r/k)^3/4): violated for all k < r and gamma L < 4 (r - k) k/r^2. Printed of T_1 itself, and "
    "one line without 1/H in the mean: slips.",
    corrected="eq12_corrected",
    printed_as="proof step",
    uses=["prop_d4_ii"],
    family=[{**_SKETCHED, "rho": [rho]} for rho in (1.5, 2.0, 8.0)],
    main=True,
)
def eq12(step: Round) -> rc.Sides:
    """-T_1 <= -(gamma H/2)||grad f^S||^2 - (gamma/2H) E||(1/N) sum_i sum_h grad f_i^S(X_i^h)||^2 +
    (gamma H L^2/2)(1/(N H)) sum_i (r^2/k_i^2) sum_h E||X_i^h - X||^2, one sketch a round.
    """
    kept = step.gamma / (2 * step.H) * step.second_moment(step.total("field"))
    drift = step.gamma * step.H / 2 * step.L**2 * step.weighed_drift(2)
    return step.gamma * step.H / 2 * step.G2 + kept - step.T1, drift


EQ12_FRESH = true_variant(
    eq12,
    id="fslora.eq12_fresh",
    source="FSLoRA, equation (12) with fresh sketches",
    text=eq12.text.replace("one sketch a round.", "a fresh sketch in every step."),
    space=rounds(ANY_STEP, fresh=True, steps=(2, 3)),
    derivation="E[g^h | X^h] = grad f_i^S(X^h); 2<x, y> = ||x||^2 + ||y||^2 - ||x - y||^2, "
    "Jensen's inequality and Proposition D.4 (ii). As X^0 = X, at most (H - 1)/H of it is met.",
)


@PAPER.upper(
    "eq12_corrected",
    ref="equation (12) for one sketch a round",
    tex=r"-T_1\le-\frac{\gamma H}2\|\nabla f^{\mathcal S}\|^2-\frac\gamma{2H}\Big\|\mathbb E"
    r"\frac1N\sum_{i,h}\nabla\tilde f_i(X_i^{t,h};S_i^t)\Big\|^2+\frac{\gamma HL^2}2\frac1{NH}"
    r"\sum_i\frac{r^4}{k_i^4}\sum_h\mathbb E\|X_i^{t,h}-X^t\|^2",
    on=rounds(ANY_STEP, steps=(2, 3)),
    derivation="grad f~_i(X; S) at the start of the round has the mean grad f_i^S(X), and f~_i(.; "
    "S) is L r^2/k_i^2-smooth; then as in (12).",
)
def eq12_corrected(step: Round) -> rc.Sides:
    """-T_1 <= -(gamma H/2)||grad f^S||^2 - (gamma/2H)||E (1/N) sum_i sum_h grad f~_i(X_i^h;
    S_i)||^2 + (gamma H L^2/2)(1/(N H)) sum_i (r^4/k_i^4) sum_h E||X_i^h - X||^2.
    """
    kept = step.gamma / (2 * step.H) * squared(step.average(step.total("sketched")))
    drift = step.gamma * step.H / 2 * step.L**2 * step.weighed_drift(4)
    return step.gamma * step.H / 2 * step.G2 + kept - step.T1, drift


@PAPER.upper(
    "eq13",
    ref="equation (13)",
    tex=r"T_2\le3H\frac{\sigma_g^2+\sigma_s^2}N+3\mathbb E\Big\|\frac1N\sum_{i,h}"
    r"\nabla f_i^{\mathcal S}(X_i^{t,h})\Big\|^2",
    on=steady(ANY_STEP, 16),
    expect="violated",
    note="Lemma D.2 is applied to grad f~_i(X^h; S) - grad f_i^S(X^h), h = 0, 1, ..., with one S: "
    "these are not martingale differences but nearly the same vector H times. f = l a^2/2 + u "
    "tau(a) psi(b) of fslora.thm4_4, whose assumptions hold for all X, at the minimum of f^S: T_2 "
    "-> H^2 sigma_s^2 as gamma -> 0, against 3 H sigma_s^2: violated for H > 3. The theorem so "
    "loses its factor H in sigma_s^2. (13) has no condition on gamma; the family's steps are "
    "below the learning rate of Theorem 4.4.",
    corrected="eq13_corrected",
    printed_as="proof step",
    uses=["lemma_d1", "lemma_d2"],
    family=[{**_STILL, "H": H} for H in (5, 8, 16)],
    main=True,
)
def eq13(step: Round) -> rc.Sides:
    """T_2 <= 3 H (sigma_g^2 + sigma_s^2)/N + 3 E||(1/N) sum_i sum_h grad f_i^S(X_i^h)||^2, one
    sketch a round.
    """
    noise = 3 * step.H * (step.sigma_g2 + step.sigma_s2("visited")) / step.rho.shape[1]
    return step.T2, noise + 3 * step.second_moment(step.total("field"))


EQ13_FRESH = true_variant(
    eq13,
    id="fslora.eq13_fresh",
    source="FSLoRA, equation (13) with fresh sketches",
    text=eq13.text.replace("one sketch a round.", "a fresh sketch in every step."),
    space=rounds(ANY_STEP, fresh=True, steps=(1, 2)),
    note=READING,
    derivation="The three parts as printed; with fresh sketches the first two are martingale "
    "differences over h, and the devices are independent given X.",
)


@PAPER.upper(
    "eq13_corrected",
    ref="equation (13) for one sketch a round",
    tex=r"T_2\le\Big\|\mathbb E\frac1N\sum_{i,h}\nabla\tilde f_i\Big\|^2+\frac2N(H^2\sigma_s^2+H"
    r"\sigma_g^2)+\frac{2H^2L^2}N\frac1{NH}\sum_i\frac{r^4}{k_i^4}\sum_h\mathbb E"
    r"\|X_i^{t,h}-X^t\|^2",
    on=rounds(ANY_STEP),
    derivation="The devices' variance over N; sum_h g^h - H grad f_i^S(X) is H (grad f~_i(X; S) - "
    "grad f_i^S(X)) and the samples' parts, uncorrelated, plus what X^h - X makes.",
)
def eq13_corrected(step: Round) -> rc.Sides:
    """T_2 <= ||E (1/N) sum_i sum_h grad f~_i||^2 + (2/N)(H^2 sigma_s^2 + H sigma_g^2) + (2 H^2
    L^2/N)(1/(N H)) sum_i (r^4/k_i^4) sum_h E||X_i^h - X||^2.
    """
    N = step.rho.shape[1]
    noise = 2 * (step.H**2 * step.sigma_s2("start") + step.H * step.sigma_g2) / N
    drift = 2 * step.H**2 * step.L**2 * step.weighed_drift(4) / N
    return step.T2, squared(step.average(step.total("sketched"))) + noise + drift


@PAPER.upper(
    "eq14",
    ref="equation (14)",
    tex=r"\mathbb E f^{\mathcal S}(X^{t+1})\le\mathbb E f^{\mathcal S}(X^t)-\frac{\gamma H}2"
    r"\|\nabla f^{\mathcal S}\|^2+\frac{3\gamma^2L_s}2H\frac{\sigma_g^2+\sigma_s^2}N+"
    r"\frac{\gamma HL^2}2T_3",
    on=steady(smoothness(3), 32),
    expect="violated",
    note="Of any f_i(B, A), as Appendix D.3 reads it; this one is no loss of BA. (12) and (13) "
    "fail. f = l a^2/2 + u tau(a) psi(b) of fslora.thm4_4 at the minimum of f^S: the change is l "
    "gamma^2 H^2 sigma_s^2/2 as gamma -> 0, the bound 3 gamma^2 L (r/k) H sigma_s^2/2: violated "
    "for H > 3 (r/k) L/l; the family's steps are below the learning rate of Theorem 4.4. The "
    "first line has L_s^2 for the weights r^2/k_i^2 of the second, and T_3 includes gamma H L^2/2 "
    "in (14) but not in (15): slips.",
    corrected="eq14_corrected",
    printed_as="proof step",
    uses=["eq11", "eq12", "eq13"],
    family=[{**_STILL, "H": H} for H in (8, 16, 32)],
    main=True,
)
def eq14(step: Round) -> rc.Sides:
    """E f^S(X^{t+1}) <= E f^S(X^t) - (gamma H/2)||grad f^S||^2 + (3 gamma^2 L_s/2) H (sigma_g^2 +
    sigma_s^2)/N + (gamma H L^2/2) T_3 for gamma <= 1/(3 H L_s), one sketch a round.
    """
    noise = (
        3
        * step.gamma**2
        * step.L_s
        / 2
        * step.H
        * (step.sigma_g2 + step.sigma_s2("visited"))
        / step.rho.shape[1]
    )
    drift = step.gamma * step.H / 2 * step.L**2 * step.weighed_drift(2)
    return _grown(step, 2), noise + drift


EQ14_FRESH = true_variant(
    eq14,
    id="fslora.eq14_fresh",
    source="FSLoRA, equation (14) with fresh sketches",
    text=eq14.text.replace("one sketch a round.", "a fresh sketch in every step."),
    space=rounds(smoothness(3), fresh=True, steps=(1, 2)),
    note="T_3 is that of (15), without the gamma H L^2/2 that the brace of (14) has in it. "
    + READING,
    derivation="(11), (12) and (13) with fresh sketches; gamma <= 1/(3 H L_s) removes E||(1/N) "
    "sum_i sum_h grad f_i^S||^2.",
)


@PAPER.upper(
    "eq14_corrected",
    ref="equation (14) for one sketch a round",
    tex=r"\mathbb E f^{\mathcal S}(X^{t+1})\le\mathbb E f^{\mathcal S}(X^t)-\frac{\gamma H}2"
    r"\|\nabla f^{\mathcal S}\|^2+\gamma^2L_s\frac{H^2\sigma_s^2+H\sigma_g^2}N+\gamma HL^2"
    r"\frac1{NH}\sum_i\frac{r^4}{k_i^4}\sum_h\mathbb E\|X_i^{t,h}-X^t\|^2",
    on=rounds(smoothness(2)),
    uses=["eq11", "eq12_corrected", "eq13_corrected"],
    derivation="(11) with the corrected (12) and (13); gamma H L_s <= 1/2 removes ||m||^2 and "
    "leaves at most gamma H of the drift.",
)
def eq14_corrected(step: Round) -> rc.Sides:
    """E f^S(X^{t+1}) <= E f^S(X^t) - (gamma H/2)||grad f^S||^2 + gamma^2 L_s (H^2 sigma_s^2 + H
    sigma_g^2)/N + gamma H L^2 (1/(N H)) sum_i (r^4/k_i^4) sum_h E||X_i^h - X||^2 for gamma <=
    1/(2 H L_s).
    """
    noise = step.H**2 * step.sigma_s2("start") + step.H * step.sigma_g2
    drift = step.gamma * step.H * step.L**2 * step.weighed_drift(4)
    return _grown(step, 2), drift + step.gamma**2 * step.L_s * noise / step.rho.shape[1]


@PAPER.upper(
    "eq15",
    ref="equation (15)",
    tex=r"T_3\le3R\gamma^2H(\sigma_g^2+\sigma_s^2)+9R\gamma^2H^2(\sigma_h^2+(c_h+1)"
    r"\|\nabla f^{\mathcal S}\|^2)+9\gamma^2L^2H^2T_3",
    on=steady(powers(18, 0), 32),
    expect="violated",
    printed_as="proof step",
    note="With one sketch the sum over tau < h of grad f~_i - grad f_i^S has h^2 sigma_s^2, not h "
    "sigma_s^2. f = l a^2/2 + u tau(a) psi(b) of fslora.thm4_4 at the minimum of f^S, gamma -> 0: "
    "T_3 has (H - 1)(2 H - 1)/6 against 3 H: violated from H = 11. One line drops r^2/k_i^2; for "
    "L in the place of L r/k_i see fslora.eq15_smoothness.",
    corrected="eq15_16_corrected",
    main=True,
    uses=["lemma_d2", "eq15_smoothness"],
    family=[{**_STILL, "H": H} for H in (16, 24, 32)],
)
def eq15(step: Round, c_h: Numbers) -> rc.Sides:
    """T_3 <= 3 R gamma^2 H (sigma_g^2 + sigma_s^2) + 9 R gamma^2 H^2 (sigma_h^2 + (c_h + 1)||grad
    f^S||^2) + 9 gamma^2 L^2 H^2 T_3 for gamma <= 1/(sqrt(18) H L), R = mean r^2/k_i^2, one sketch
    a round.
    """
    return at.eq15(step, c_h)


@PAPER.upper(
    "eq16",
    ref="equation (16)",
    tex=r"T_3\le6R\gamma^2H^2(\sigma_g^2+\sigma_s^2+3\sigma_h^2)+18R(c_h+1)\gamma^2H^2"
    r"\|\nabla f^{\mathcal S}\|^2",
    on=MANY,
    expect="violated",
    reading="sigma_s^2 bounds the variance at the points that the round visits, where (15) uses it "
    "and where a loss of W0 + BA can have a bound at all (fslora.a42). With the largest variance "
    "over all X these functions obey (16), fslora.eq16_whole; whether all functions do is open.",
    note="It has H^2 sigma_s^2, so that a sketch kept for the round is no reason by itself; but "
    "X^h depends on the sketch, and E||grad f~(X^h; S) - grad f^S(X^h)||^2 is no variance. f = "
    "sum phi(b_j), phi' = -L b up to |b| = w and constant from there on, k = 1, from b_j near 0: "
    "the selected b_j runs away, with the slope r L w after a few steps, whichever j it is, so "
    "that T_3 is r^2 (gamma H)^2 (r L w)^2/3 less what the first steps take, while at any one "
    "point of the round a single component is out there and sigma_s^2 is (r - 1)(L w)^2: a ratio "
    "of r^2/(18 (r - 1)) less that part. As gamma is bounded, it is not small: with the step size "
    "of Theorem 4.4 a ratio above one was found from r/k = 29 on. r = 64, H = 10 and this step "
    "size: 1.7 times the bound. It says nothing of r/k <= 8, which the experiments have.",
    corrected="eq15_16_corrected",
    main=True,
    uses=["eq15"],
    family=[
        {"r": 64, "L": 1.0, "H": H, "share": 1.0, "w": 1.0, "part": part}
        for H, part in ((8, 0.1), (10, 0.01), (16, 0.01))
    ],
)
def eq16(
    r: Numbers, H: Numbers, gamma: Numbers, path: tuple[Numbers, Numbers], visited: Numbers
) -> rc.Sides:
    """T_3 <= 6 R gamma^2 H^2 (sigma_g^2 + sigma_s^2 + 3 sigma_h^2) + 18 R (c_h + 1) gamma^2 H^2
    ||grad f^S||^2 for gamma <= 1/(sqrt(18) H L) and that of Theorem 4.4, R = mean r^2/k_i^2, one
    sketch a round.
    """
    moved, slopes = path
    gradient = 18 * r * slopes[:, 0] ** 2
    return at.one_component_drift(r, H, moved), (r * gamma * H) ** 2 * (6 * visited + gradient)


@PAPER.upper(
    "eq16_whole",
    ref="equation (16) with sigma_s^2 for all X, on the functions that refute it otherwise",
    tex=r"T_3\le\frac{r^2}{k^2}\gamma^2\frac{(H-1)(2H-1)}6\frac r{r-1}\sup_X\sigma_s^2(X)\le"
    r"6\frac{r^2}{k^2}\gamma^2H^2\sup_X\sigma_s^2(X)",
    on=MANY,
    printed_as="ours",
    derivation="For k = 1 and a function of B alone the gradient of f~(.; j) depends on b_j alone, "
    "so that one X has all entries where the r sketches have theirs in a given step. There E||grad "
    "f~||^2 = r sum_j g_j^2 and the variance is (r - 1) sum_j g_j^2, g_j the slope of f in r b_j. "
    "The Cauchy-Schwarz inequality over the h steps, and sum_{h < H} h^2. Attained where the slope "
    "is constant.",
)
def eq16_whole(
    r: Numbers, H: Numbers, gamma: Numbers, path: tuple[Numbers, Numbers], top: Numbers
) -> rc.Sides:
    """For k = 1 and the functions of B of fslora.eq16, T_3 <= (r gamma)^2 ((H - 1)(2 H - 1)/6)
    (r/(r - 1)) sigma_s^2 if sigma_s^2 is the largest variance over all X, which is at most a ninth
    of what (16) has.
    """
    everywhere = (r - 1) * r * top**2
    steps = (H - 1) * (2 * H - 1) / 6
    bound = (r * gamma) ** 2 * steps * r / (r - 1) * everywhere
    return at.one_component_drift(r, H, path[0]), bound


@PAPER.upper(
    "eq15_smoothness",
    ref="equation (15), the smoothness of f_i^S",
    tex=r"\sum_h\mathbb E\|\nabla f_i^{\mathcal S}(X_i^{t,h})-\nabla f_i^{\mathcal S}(X^t)\|^2\le "
    r"L^2\sum_h\mathbb E\|X_i^{t,h}-X^t\|^2",
    on=rounds(proof_step, fresh=True),
    expect="violated",
    note="f_i^S is L r/k_i-smooth, which (12) uses: f = L b^2/2 has the gradient (r/k) L b. The "
    "line before drops r^2/k_i^2, read here as a misprint, as the terms with c_h and sigma_h have "
    "it again. Read as it stands, its equality is the false step, and L^2 r^2/k_i^2 is right with "
    "the smoothness L r/k_i: either way a factor r^2/k_i^2 is lost. The step size is one of "
    "Theorem 4.4 and of its proof. The condition gamma <= 1/(sqrt(18) H L) of (16) becomes "
    "1/(sqrt(18) H L max r/k_i); 1/(3 H L max r/k_i) is enough.",
    corrected="eq15_smoothness_corrected",
    printed_as="proof step",
    uses=["prop_d4_ii"],
)
def eq15_smoothness(step: Any) -> rc.Sides:
    """(1/H) sum_h E||grad f_i^S(X_i^h) - grad f_i^S(X)||^2 <= L^2 (1/H) sum_h E||X_i^h - X||^2, as
    9 gamma^2 L^2 (...) with the weights r^2/k_i^2 of T_3 needs it.
    """
    return at.eq15_smoothness(step, 0)


@PAPER.upper(
    "eq15_smoothness_corrected",
    ref="equation (15), the smoothness of f_i^S, corrected",
    on=eq15_smoothness.space,
    tex=eq15_smoothness.latex.replace("L^2", r"L^2\frac{r^2}{k_i^2}"),
    derivation="Proposition D.4 (ii). Attained.",
)
def eq15_smoothness_corrected(step: Round) -> rc.Sides:
    """(1/H) sum_h E||grad f_i^S(X_i^h) - grad f_i^S(X)||^2 <= L^2 (r^2/k_i^2) (1/H) sum_h E||X_i^h
    - X||^2.
    """
    return at.eq15_smoothness(step, 2)


@PAPER.upper(
    "eq15_16_fresh",
    ref="equations (15) and (16) with fresh sketches",
    tex=r"T_3\le3R\gamma^2H(\sigma_g^2+\sigma_s^2)+6R\gamma^2H^2(\sigma_h^2+(c_h+1)"
    r"\|\nabla f^{\mathcal S}\|^2)",
    on=rounds(powers(9, 1), fresh=True),
    printed_as="ours",
    note=READING + " Less than what (16) prints.",
    derivation="(15) with L r/k_i, sum_h h <= H^2/2, sum_h h^2 <= H^3/3 and sum_h h sum_{tau < h} "
    "a_tau <= (H^2/2) sum a_tau: (9/2)(gamma H L r/k_i)^2 <= 1/2.",
)
def eq15_16_fresh(step: Round, c_h: Numbers) -> rc.Sides:
    """With a fresh sketch in every step, T_3 <= 3 R gamma^2 H (sigma_g^2 + sigma_s^2) + 6 R
    gamma^2 H^2 (sigma_h^2 + (c_h + 1) ||grad f^S||^2) for gamma <= 1/(3 H L max r/k_i), R = mean
    r^2/k_i^2.
    """
    noise = 3 * step.H * (step.sigma_g2 + step.sigma_s2("visited"))
    apart = 6 * step.H**2 * (step.sigma_h2(c_h) + (c_h + 1) * step.G2)
    return step.weighed_drift(2), step.gamma**2 * step.powers(2) * (noise + apart)


@PAPER.upper(
    "eq15_16_corrected",
    ref="equations (15) and (16) for one sketch a round",
    tex=r"\frac1{NH}\sum_i\frac{r^4}{k_i^4}\sum_h\mathbb E\|X_i^{t,h}-X^t\|^2\le2\gamma^2"
    r"\overline{r^4/k^4}\,(H\sigma_g^2+\tfrac23H^2(\sigma_s^2+2\sigma_h^2+2(c_h+1)"
    r"\|\nabla f^{\mathcal S}\|^2))",
    on=rounds(powers(2, 2)),
    derivation="X^h - X is -gamma times the samples' parts, h grad f~_i(X; S), the first two "
    "uncorrelated, and parts of size L (r^2/k_i^2)||X^tau - X||; ||x + y||^2 <= 2||x||^2 + "
    "2||y||^2.",
)
def eq15_16_corrected(step: Round, c_h: Numbers) -> rc.Sides:
    """(1/(N H)) sum_i (r^4/k_i^4) sum_h E||X_i^h - X||^2 <= 2 gamma^2 mean(r^4/k_i^4) (H sigma_g^2
    + (2/3) H^2 (sigma_s^2 + 2 sigma_h^2 + 2 (c_h + 1)||grad f^S||^2)) for gamma <= 1/(sqrt(2) H
    L max r^2/k_i^2).
    """
    apart = step.sigma_s2("start") + 2 * step.sigma_h2(c_h) + 2 * (c_h + 1) * step.G2
    bound = (
        2 * step.gamma**2 * step.powers(4) * (step.H * step.sigma_g2 + 2 * step.H**2 * apart / 3)
    )
    return step.weighed_drift(4), bound


@PAPER.upper(
    "one_round_fresh",
    ref="Theorem 4.4 with fresh sketches, before it is telescoped",
    tex=r"\mathbb E f^{\mathcal S}(X^{t+1})\le\mathbb E f^{\mathcal S}(X^t)-\frac{\gamma H}4"
    r"\|\nabla f^{\mathcal S}\|^2+\frac{3\gamma^2L_sH}{2N}(\sigma_g^2+\sigma_s^2)+"
    r"\frac{\gamma^3H^2L^2R}2(3\sigma_g^2+3\sigma_s^2+6H\sigma_h^2)",
    on=rounds(fresh_step, fresh=True, steps=(1, 2)),
    printed_as="ours",
    note=READING,
    uses=["eq14_fresh", "eq15_16_fresh"],
    derivation="fslora.eq14_fresh and fslora.eq15_16_fresh; 3 (gamma H L)^2 (c_h + 1) R <= 3/16.",
)
def one_round_fresh(step: Round, c_h: Numbers) -> rc.Sides:
    """With a fresh sketch in every step, E f^S(X^{t+1}) <= E f^S(X^t) - (gamma H/4)||grad f^S||^2
    + (3 gamma^2 L_s H/(2N)) (sigma_g^2 + sigma_s^2) + (gamma^3 H^2 L^2 R/2)(3 sigma_g^2 + 3
    sigma_s^2 + 6 H sigma_h^2) for gamma <= min{1/(3 H L max r/k_i), 1/(4 H L sqrt((c_h + 1)
    R))}, R = mean r^2/k_i^2.
    """
    noise = step.sigma_g2 + step.sigma_s2("visited")
    first = 3 * step.gamma**2 * step.L_s * step.H * noise / (2 * step.rho.shape[1])
    drift = (
        step.gamma**3
        * step.H**2
        * step.L**2
        * step.powers(2)
        * (3 * noise + 6 * step.H * step.sigma_h2(c_h))
        / 2
    )
    return _grown(step, 4), first + drift


@PAPER.upper(
    "one_round_corrected",
    ref="Theorem 4.4 for one sketch a round, before it is telescoped",
    tex=r"\mathbb E f^{\mathcal S}(X^{t+1})\le\mathbb E f^{\mathcal S}(X^t)-\frac{\gamma H}4"
    r"\|\nabla f^{\mathcal S}\|^2+\frac{\gamma^2L_s}N(H\sigma_g^2+H^2\sigma_s^2)+2\gamma^3HL^2"
    r"\overline{r^4/k^4}\,(H\sigma_g^2+\tfrac23H^2(\sigma_s^2+2\sigma_h^2))",
    on=rounds(fixed_step),
    printed_as="ours",
    note=READING,
    uses=["eq14_corrected", "eq15_16_corrected"],
    derivation="fslora.eq14_corrected and fslora.eq15_16_corrected; (8/3)(gamma H L)^2 (c_h + 1) "
    "mean(r^4/k^4) <= 1/6.",
)
def one_round_corrected(step: Round, c_h: Numbers) -> rc.Sides:
    """E f^S(X^{t+1}) <= E f^S(X^t) - (gamma H/4)||grad f^S||^2 + (gamma^2 L_s/N)(H sigma_g^2 + H^2
    sigma_s^2) + 2 gamma^3 H L^2 mean(r^4/k_i^4) (H sigma_g^2 + (2/3) H^2 (sigma_s^2 + 2
    sigma_h^2)) for gamma <= 1/(4 H L max(r^2/k_i^2) sqrt(c_h + 1)).
    """
    sigma_s2 = step.sigma_s2("start")
    first = (
        step.gamma**2
        * step.L_s
        * (step.H**2 * sigma_s2 + step.H * step.sigma_g2)
        / step.rho.shape[1]
    )
    apart = step.H * step.sigma_g2 + 2 * step.H**2 * (sigma_s2 + 2 * step.sigma_h2(c_h)) / 3
    drift = 2 * step.gamma**3 * step.H * step.L**2 * step.powers(4) * apart
    return _grown(step, 4), first + drift

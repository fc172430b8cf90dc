"""P-ShareLoRA, proof of Theorem B.3, (B.9) to (B.11): what curvature bounds, and smoothness not."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.psharelora.claims.quadratic_forms import CURVED, comparing
from experiments.psharelora.paper import PAPER
from experiments.psharelora.theory import quadratic as at
from experiments.psharelora.theory.fitted import Fitted
from experiments.psharelora.theory.preference import log_logistic, slope
from linsys.linalg import Numbers, logistic, norm

_SIZE = (0.1, 3.0)


def _as_likely(s: Any) -> Any:
    return s.system.f(s.w) >= s.system.f(s.diamond)


def _in_the_ball(s: Any) -> Any:
    """Up to rounding."""
    return norm(s.user.diamond) * 10**9 <= s.user.radius * (10**9 + 1)


def _not_less_likely(s: Any) -> Any:
    """Up to rounding of a mean of logarithms, which are at most max|x| B + 1 in size."""
    user = s.user
    rewards = [(user.x @ w[..., None])[..., 0] for w in (user.hat, user.diamond)]
    estimated, true = [
        (user.o * log_logistic(r) + (1 - user.o) * log_logistic(-r)).mean(axis=1) for r in rewards
    ]
    size = 1 + np.abs(rewards).max(axis=(0, 2))
    return (true - estimated) * 10**9 <= size


FITTED = rc.Space(
    fields={
        "a": rc.reals("n", magnitude=_SIZE),
        "y": rc.reals("n", 1, magnitude=_SIZE),
        "o": rc.whole_numbers("n", low=0, high=1),
        "radius": rc.positive(low=0.1, high=10.0),
        "share": rc.ball(2),
        "shift": rc.positive(low=1e-4, high=10.0),
    },
    sizes={"n": (1, 3)},
    view=lambda *, shift, **parts: SimpleNamespace(user=Fitted(**parts), shift=shift),
    assumes={
        "||w_diamond|| <= B": _in_the_ball,
        "w_hat is at least as likely as w_diamond": _not_less_likely,
    },
    batched=True,
    meaning={
        "a": "features along w_hat",
        "y": "features across it, before the gradient there is made zero across",
        "o": "labels",
        "radius": "B, of the ball over which w_hat maximises f",
        "share": "w_diamond / B",
        "shift": "lambda",
    },
)


def _one_comparison(radius: float, share: float) -> dict[str, Any]:
    """o = 1 and x = 1: w_hat is the radius, and w_diamond is ``share`` of it."""
    return {
        "a": [1.0],
        "y": [[0.0]],
        "o": [1.0],
        "radius": radius,
        "share": [share, 0.0],
        "shift": 1.0,
    }


@PAPER.upper(
    "eq_B9",
    ref="equation (B.9)",
    tex=r"c_1c_2\|\hat w-w^\diamond\|^2_{\Sigma^\diamond}-c_3L_2\|\hat w-w^\diamond\|^2\le"
    r"\nabla f(w^\diamond)^\top(w^\diamond-\hat w)",
    on=FITTED,
    expect="violated",
    note="A sign: f(w_hat) >= f(w_diamond) and (B.7) give grad f(w_diamond)'(w_hat - w_diamond) on "
    "the right. f is concave for linear rewards, so the printed right side never is positive. One "
    "comparison o = 1, x = 1, w_diamond = 0, B = 1: 0.197 against -1/2. (B.11) takes its absolute "
    "value and repairs the sign. The bend term needs 2 L2 (two trajectories), and (B.7)'s 1/2.",
    corrected="eq_B9_corrected",
    printed_as="proof step",
    family=[_one_comparison(radius, 0.0) for radius in (1.0, 0.1)],
    uses=["eq_B6", "eq_B7", "eq_B8"],
)
def eq_B9(user: Any) -> rc.Sides:
    """c1 c2 ||d||^2_Sigma - c3 L2 ||d||^2 <= grad f(w_diamond)'(w_diamond - w_hat); linear rewards
    (c1 = 1, L2 = 0), w_hat the maximiser of f over the ball.
    """
    return user.eq_B9(-1)


@PAPER.upper(
    "eq_B9_corrected",
    ref="equation (B.9), corrected",
    tex=r"\frac{c_2}2(\|\delta\|_{\Sigma^\diamond}-2L_2\|\delta\|^2)_+^2-c_3L_2\|\delta\|^2\le"
    r"\nabla f(w^\diamond)^\top(\hat w-w^\diamond)",
    on=replace(
        CURVED,
        given={"f(w_hat) >= f(w_diamond)": _as_likely},
    ),
    note="Empty unless the bend is small beside the curvature: L2 ||d||^2 against ||d||_Sigma.",
    uses=["eq_B8_corrected"],
    derivation="0 <= grad f'd + d'grad^2 f(w) d/2. The Hessian's first term is at most 2 c3 L2 "
    "||d||^2, its second one at most -c2 ||d||^2_Sigma(w), where psl.eq_B8_corrected applies.",
)
def eq_B9_corrected(system: Any, w: Any, diamond: Any) -> rc.Sides:
    """(c2/2) (||d||_Sigma - 2 L2 ||d||^2)_+^2 - c3 L2 ||d||^2 <= grad f(w_diamond)'(w_hat -
    w_diamond) for every w_hat with f(w_hat) >= f(w_diamond), d = w_hat - w_diamond.
    """
    return at.eq_B9(system, w, diamond, np.sqrt(np.maximum((w**2).sum(-1), (diamond**2).sum(-1))))


@PAPER.upper(
    "eq_B9_linear",
    ref="equation (B.9), for linear rewards",
    on=eq_B9.space,
    tex=r"c_2\|\hat w-w^\diamond\|^2_\Sigma\le\nabla f(w^\diamond)^\top(\hat w-w^\diamond)",
    note="With factor one, although (B.7) lacks 1/2.",
    derivation="(grad f(w_diamond) - grad f(w_hat))'d >= c2 ||d||^2_Sigma, and grad f(w_hat)'d >= "
    "0 because w_hat maximises f over a convex set that holds w_diamond.",
    printed_as="ours",
)
def eq_B9_linear(user: Any) -> rc.Sides:
    """c2 ||w_hat - w_diamond||^2_Sigma <= grad f(w_diamond)'(w_hat - w_diamond) for the maximiser
    w_hat over the ball, inside of it or on its boundary.
    """
    return user.eq_B9(1)


@PAPER.upper(
    "eq_B10",
    ref="equation (B.10)",
    tex=r"\|\hat w-w^\diamond\|^2\le\frac2{L_2'}\nabla f(w^\diamond)^\top(w^\diamond-\hat w)",
    on=FITTED,
    expect="violated",
    main=True,
    note="The inequality is turned round: 0 <= grad f'd + L2'||d||^2/2 says that (2/L2') grad "
    "f'(-d) is at most ||d||^2. The printed right side is not positive where f is concave, so "
    "that (B.10) says w_hat = w_diamond. No smoothness bounds ||d||: features that do not span "
    "leave w_hat undetermined. It takes curvature, lambda_min(Sigma) > 0, which nothing in the "
    "paper's assumptions gives. With the sign mended, as for (B.9), it is still false: one "
    "comparison o = 1, x = 1, B = 5, so that w_hat = 5, and w_diamond = 1 have L2' = 1/4 and 16 "
    "against 8 (1 - Phi(1)) 4 = 8.6. (B.10) carries the step to (B.11) and all of Step 2 wherever "
    "L2 > 0: for non-linear rewards Theorem B.3 has no proof, for linear ones (B.11) holds "
    "without it.",
    corrected="eq_B10_corrected",
    printed_as="proof step",
    family=[_one_comparison(radius, 0.2) for radius in (5.0, 10.0)],
)
def eq_B10(user: Any) -> rc.Sides:
    """||w_hat - w_diamond||^2 <= (2/L2') grad f(w_diamond)'(w_diamond - w_hat) from smoothness L2'
    of f and f(w_hat) >= f(w_diamond); linear rewards.
    """
    return user.eq_B10()


@PAPER.upper(
    "eq_B10_corrected",
    ref="equation (B.10), corrected",
    on=eq_B10.space,
    tex=r"c_2\lambda_{\min}(\Sigma)\|\hat w-w^\diamond\|^2\le\nabla f(w^\diamond)^\top(\hat w"
    r"-w^\diamond)",
    uses=["eq_B9_linear"],
    derivation="psl.eq_B9_linear, and lambda_min(Sigma) ||d||^2 <= ||d||^2_Sigma.",
)
def eq_B10_corrected(user: Any) -> rc.Sides:
    """c2 lambda_min(Sigma) ||w_hat - w_diamond||^2 <= grad f(w_diamond)'(w_hat - w_diamond); linear
    rewards, w_hat the maximiser over the ball.
    """
    return user.eq_B10_corrected()


def _maximised(*, psi: Any, R: Any, o: Any, radius: Any, share: Any) -> SimpleNamespace:
    """Second trajectories without reward, and w_hat the maximiser of f over [-radius, radius]."""
    view = comparing(psi=np.concatenate([psi, 0 * psi], axis=2), R=R, o=o)
    view.w, view.diamond = at.maximiser(view.system, radius), (radius * share)[:, None]
    view.radius = radius
    return view


def _bent_not_flat(s: Any) -> Any:
    """Where tanh is flat to rounding float64 cannot tell which w is the maximiser."""
    return s.radius * np.abs(s.system.psi).max(axis=(1, 2, 3)) <= 5 * s.system.R


@PAPER.upper(
    "eq_B11",
    ref="equation (B.11)",
    tex=r"c_1c_2\|\delta\|^2_{\Sigma^\diamond}\le\Big(1+\frac{2c_3L_2}{L_2'}\Big)\|\nabla "
    r"f(w^\diamond)\|_{(\Sigma^\diamond+\lambda I)^{-1}}\|\delta\|_{\Sigma^\diamond+\lambda I}",
    on=rc.Space(
        fields={
            "psi": rc.reals("n", 1, 1, magnitude=_SIZE),
            "R": rc.positive(low=0.1, high=10.0),
            "o": rc.whole_numbers("n", low=0, high=1),
            "radius": rc.positive(low=0.1, high=3.0),
            "share": rc.interval(low=-1.0, high=1.0),
        },
        sizes={"n": (1, 2)},
        view=_maximised,
        assumes={"||w_diamond|| <= B": lambda s: np.abs(s.diamond[:, 0]) <= s.radius},
        given={"radius max|psi| <= 5 R": _bent_not_flat, "f(w_hat) >= f(w_diamond)": _as_likely},
        batched=True,
        meaning={
            "psi": "features of the first trajectory; the second one has reward zero",
            "R": "of the reward R tanh(w psi/R)",
            "o": "labels",
            "radius": "B, of the ball over which w_hat maximises f",
            "share": "w_diamond / B",
        },
        constructed="the second trajectory of every comparison has reward zero",
    ),
    expect="violated",
    main=True,
    printed_as="proof step",
    uses=["eq_B9", "eq_B10"],
    note="f has other stationary points than its maximiser: there the right side is zero. Two "
    "comparisons, psi = 2 with o = 1 and psi = 1 with o = 0, R = 1: f has its maximum at w_hat = "
    "0.30 and a minimum at w_diamond = -0.87: no L2' helps there, while the instance that the "
    "search keeps is one for the L2' named above and not for the least one. The proof's "
    "smoothness step would exclude it (psl.eq_B10). For non-linear rewards it takes a w_hat "
    "near w_diamond to begin with. For linear rewards (B.11) holds, with factor one.",
    corrected="eq_B11_corrected",
    family=[
        {"psi": [[[2.0]], [[1.0]]], "R": 1.0, "o": [1.0, 0.0], "radius": 1.0, "share": -0.87},
    ],
)
def eq_B11(system: at.Comparing, w: Numbers, diamond: Numbers, radius: Numbers) -> rc.Sides:
    """c1 c2 ||d||^2_Sigma <= (1 + 2 c3 L2/L2') ||grad f(w_diamond)|| ||d|| in dual norms of Sigma +
    lambda I, d = w_hat - w_diamond and w_hat = argmax f over the ball of radius B, c1 of (B.8) for
    this ball. Here for rewards R tanh, one parameter, any lambda, which cancels, and L2' = L1^2/4 +
    c3 L2, with which f is smooth.

    Then |x'| falls with |w|, so that c1 Sigma_diamond is Sigma at the edge of the ball; a gap in
    rewards is at most R. f is smooth with L2' = max|psi|^2 / 4 + c3 L2, by which both sides are
    multiplied.
    """
    d = (w - diamond)[:, 0]
    edge = system.steps(radius[:, None])[..., 0]
    steepest = (system.psi**2).max(axis=(1, 2, 3)) / 4
    bent = logistic(system.R) * system.smooth
    left = slope(system.R) * (edge**2).mean(axis=1) * d**2
    rise = np.abs(system.gradient(diamond)[:, 0] * d)
    return (steepest + bent) * left, (steepest + 3 * bent) * rise


@PAPER.upper(
    "eq_B11_corrected",
    ref="equation (B.11), corrected",
    on=eq_B9_linear.space,
    tex=r"c_2\|\delta\|^2_\Sigma\le\|\nabla f(w^\diamond)\|_{(\Sigma+\lambda I)^{-1}}"
    r"\|\delta\|_{\Sigma+\lambda I}",
    uses=["eq_B9_linear"],
    derivation="psl.eq_B9_linear and the inequality of Cauchy and Schwarz.",
)
def eq_B11_corrected(user: Any, shift: Any) -> rc.Sides:
    """c2 ||d||^2_Sigma <= ||grad f(w_diamond)|| ||d|| in dual norms of Sigma + lambda I, d =
    w_hat - w_diamond; linear rewards, w_hat the maximiser over the ball.
    """
    return user.eq_B11(shift)

"""FSLoRA, Assumptions 4.1 and 4.2."""

from __future__ import annotations

from typing import Any

import ratecheck as rc
from experiments.fslora.claims._spaces import (
    AFFINE,
    DIRECTION,
    DIRECTIONS,
    SINGLE,
    least_squares,
)
from experiments.fslora.theory import smoothness as at
from experiments.fslora.theory.sketching import Devices

_RANGE = (0.1, 10.0)
_ONE = {"N": (1, 1)}
POINTS = least_squares(DIRECTION, meaning=DIRECTIONS)
#: Constants that a reader might hope for.
CONSTANT = rc.positive(low=0.01, high=1e4)
#: A point of a ball around (B, A), and a direction there.
NEAR = least_squares(
    {
        **DIRECTION,
        "P": rc.reals("m", "r", magnitude=_RANGE),
        "Q": rc.reals("r", "n", magnitude=_RANGE),
    },
    meaning={
        **DIRECTIONS,
        "B": "of the ball's centre",
        "A": "of the ball's centre",
        "P": "the B part of a point less the centre",
        "Q": "its A part",
    },
)
BOUNDED = least_squares({"L": CONSTANT}, _ONE)
VARIANCES = least_squares({"sigma_s": CONSTANT, "sigma_g": CONSTANT}, _ONE)
FAR = least_squares(
    {"L": CONSTANT},
    _ONE,
    given={"BA is not zero on all inputs": lambda s: _seen(s.devices) > 1e-6},
)


def _seen(devices: Devices) -> Any:
    """||BA x||^2 of the first device."""
    P = devices.B @ devices.A
    return (P @ devices.M[:, 0] * P).sum(axis=(-2, -1))


ALONE = least_squares(**SINGLE)
ALONE_FAR = least_squares(
    {"sigma": CONSTANT},
    given={"BA is not zero on all inputs": lambda s: _seen(s.devices) > 1e-6},
    **SINGLE,
)


LOGISTIC = rc.Space(
    fields={
        "x": rc.reals("s", "n", magnitude=_RANGE),
        "d": rc.reals("s", "m", magnitude=_RANGE),
        "B": rc.reals("m", "r"),
        "A": rc.reals("r", "n"),
        "change": rc.reals("r", "n"),
        "scale": rc.positive(low=1.0, high=1000.0),
    },
    sizes={"s": (1, 2), "m": (1, 2), "n": (1, 2), "r": (1, 2)},
    batched=True,
    meaning={"d": "W0 x", "change": "E", "scale": "s"},
)


# Assumption 4.1.

A41 = rc.Claim(
    id="fslora.a41",
    source="FSLoRA, Assumption 4.1",
    text="f_i(B, A) = E l(W0 + BA) has Lipschitz gradients on the whole space: here with a "
    "constant L, for X and Y = 0.",
    latex=r"\|\nabla f_i(X)-\nabla f_i(Y)\|\le L\|X-Y\|\quad\forall X,Y",
    kind="upper",
    space=BOUNDED,
    measure=lambda s: at.a41(s.devices, s.L),
    expect="violated",
    note="The gradient of least squares is cubic in X, and no L is large enough. For any loss: a "
    "differentiable f(B, A) = g(BA) has Lipschitz gradients if and only if f = g(0) + <C, BA>, see "
    "fslora.a41_any. Theorem 4.4 needs f^S bounded from below as well, and then f^S is constant: "
    "as printed it is about grad f^S = 0 alone. On balls it can be met, fslora.a41_ball.",
    corrected="fslora.a41_corrected",
    main=True,
)
A41_CORRECTED = rc.Claim(
    id="fslora.a41_corrected",
    source="FSLoRA, Assumption 4.1 for least squares",
    text="For every L and every X with BA x not zero, t X violates it, with t^2 = max(1, (L "
    "||X||^2/2 - <C, BA>) / ||BA x||^2).",
    latex=r"\|\nabla f_i(tX)-\nabla f_i(0)\|\ge L\|tX\|,\quad t^2\ge\frac{L\|X\|^2/2-\langle C,"
    r"BA\rangle}{\|BAx\|^2}",
    kind="lower",
    space=FAR,
    measure=lambda s: at.a41(at.far(s.devices, s.L), s.L),
    derivation="<grad f(tX), X> = d/dt f(tX) = 2 t <C, BA> + 2 t^3 ||BA x||^2, at least t L "
    "||X||^2 from this t on, and Cauchy-Schwarz.",
)
A41_ANY = rc.Claim(
    id="fslora.a41_any",
    source="FSLoRA, Assumption 4.1 for any loss of W0 + BA",
    text="X = (sB, A/s) and Y = (sB, (A + E)/s) have ||grad f(X) - grad f(Y)|| >= s^2 (||B'(G - "
    "G')|| / ||E||) ||X - Y||, G and G' the slopes of the loss at BA and B(A + E); for least "
    "squares and for the logistic loss.",
    latex=r"\|\nabla f(X)-\nabla f(Y)\|\ge s^2\frac{\|B^\top(G-G')\|}{\|E\|}\|X-Y\|",
    kind="lower",
    space=LOGISTIC,
    measure=lambda s: at.a41_any(s.x, s.d, s.B, s.A, s.change, s.scale),
    derivation="The A part of the gradient is s B'G, and ||X - Y|| = ||E||/s. With s to infinity, "
    "Lipschitz gradients need B'G(B(A + E)) = B'G(BA) for all E: f is affine in A for each B, "
    "hence f(B, A) = g(0) + <G(0), BA>.",
)
A41_AFFINE = rc.Claim(
    id="fslora.a41_affine",
    source="FSLoRA, Assumption 4.1: what satisfies it",
    text="f = <C, BA> satisfies it with L = ||C||, the operator norm.",
    latex=r"\|\nabla f(X)-\nabla f(Y)\|\le\|C\|\|X-Y\|,\quad f=\langle C,BA\rangle",
    kind="upper",
    space=AFFINE,
    measure=lambda s: at.a41_affine(s.C, s.U, s.V),
    derivation="The gradient is (CA', B'C). Attained by the singular vectors of C.",
)
A41_POINT = rc.Claim(
    id="fslora.a41_point",
    source="FSLoRA, Assumption 4.1 at a point, for least squares",
    text="The Hessian of f_i at X is at most ||M|| (||A||^2 + ||B||^2) + ||C + BA M||, operator "
    "norms, C + BA M being the slope of the loss at W0 + BA.",
    latex=r"\|\nabla^2f_i(X)\|\le\|M_i\|(\|A\|^2+\|B\|^2)+\|\nabla\ell(W_0+BA)\|",
    kind="upper",
    space=POINTS,
    measure=lambda s: at.a41_point(s.devices, s.U, s.V),
    derivation="Along (U, V) it is ||(UA + BV) x||^2 + 2 <C + BA M, UV>, with ||UA + BV|| <= "
    "sqrt(||A||^2 + ||B||^2) ||(U, V)|| and 2 ||U|| ||V|| <= ||(U, V)||^2.",
)
A41_BALL = rc.Claim(
    id="fslora.a41_ball",
    source="FSLoRA, Assumption 4.1 on a ball, for least squares",
    text="In the ball of radius rho around 0 the Hessian of f_i is at most (3/2) rho^2 ||M|| + "
    "||C||.",
    latex=r"\|\nabla^2f_i(X)\|\le\tfrac32\rho^2\|M_i\|+\|C_i\|\quad(\|X\|\le\rho)",
    kind="upper",
    space=POINTS,
    measure=lambda s: at.a41_ball(s.devices, s.U, s.V),
    derivation="fslora.a41_point with ||A||^2 + ||B||^2 <= rho^2 and ||BA|| <= rho^2/2. The "
    "largest value for M = mu I: B = (rho/sqrt 2) u e_1', A = (rho/sqrt 2) e_1 v' and a direction "
    "of the same form, u and v the first singular vectors of C; with one input and output 3 "
    "rho^2/2 + |d|. Around another centre: fslora.a41_ball_centre.",
)
A41_BALL_CENTRE = rc.Claim(
    id="fslora.a41_ball_centre",
    source="FSLoRA, Assumption 4.1 on a ball around any centre, for least squares",
    text="In the ball of radius rho around X^0 the Hessian of f_i is at most (3/2) (rho_0 + rho)^2 "
    "||M|| + ||C||, rho_0^2 = ||A^0||^2 + ||B^0||^2 with operator norms.",
    latex=r"\|\nabla^2f_i(X)\|\le\tfrac32(\rho_0+\rho)^2\|M_i\|+\|C_i\|\quad"
    r"(\|X-X^0\|\le\rho),\quad\rho_0^2=\|A^0\|^2+\|B^0\|^2",
    kind="upper",
    space=NEAR,
    measure=lambda s: at.a41_ball_centre(s.devices, s.P, s.Q, s.U, s.V),
    derivation="With X = X^0 + (P, Q), (||A||, ||B||) is at most (||A^0||, ||B^0||) + (||Q||, "
    "||P||), hence ||A||^2 + ||B||^2 <= (rho_0 + rho)^2 and ||BA|| <= (rho_0 + rho)^2/2 in "
    "fslora.a41_point. Attained for M = mu I if X^0 is one component along the first singular "
    "vectors of C, of two equal parts; not at other centres, where "
    "linsys.sketching.balls.smoothness has the exact value.",
)

# Assumption 4.2.

A42 = rc.Claim(
    id="fslora.a42",
    source="FSLoRA, Assumption 4.2",
    text="The variances of the gradient by the sketch and by the data are at most sigma_s^2 and "
    "sigma_g^2 for all X.",
    latex=r"\mathbb E\|\nabla\tilde f_i(X;S)-\nabla f_i^{\mathcal S}(X)\|^2\le\sigma_s^2,\quad"
    r"\mathbb E\|\nabla\tilde\ell(X,\xi;S)-\nabla\tilde f_i(X;S)\|^2\le\sigma_g^2\quad\forall X",
    kind="upper",
    space=VARIANCES,
    measure=lambda s: at.a42(s.devices, s.sigma_s, s.sigma_g),
    expect="violated",
    note="Both grow as ||X||^6, as squares of cubic gradients, so that no constants bound them for "
    "all X: fslora.a42_corrected. They are bounded on balls, fslora.a42_ball.",
    corrected="fslora.a42_corrected",
    main=True,
)
A42_CORRECTED = rc.Claim(
    id="fslora.a42_corrected",
    source="FSLoRA, Assumption 4.2 for least squares",
    text="For every sigma and k < r the variance by the sketch is at least sigma^2 at t X, X of "
    "one component with BA x not zero, t^2 >= 2 |<C, BA>| / (kappa q) and t^3 >= sigma ||X|| / "
    "(sqrt(kappa - 1) kappa q), kappa = r/k, q = ||BA x||^2.",
    latex=r"\mathbb E\|\nabla\tilde f(tX;S)-\nabla f^{\mathcal S}(tX)\|^2\ge\sigma^2",
    kind="lower",
    space=ALONE_FAR,
    measure=lambda s: at.a42_far(s.devices, s.sigma),
    derivation="fslora.a42_one and ||Y|| ||X|| >= <Y, X> = 2 t <C, BA> + 2 kappa t^3 q >= kappa "
    "t^3 q.",
)
A42_ONE = rc.Claim(
    id="fslora.a42_one",
    source="FSLoRA, Assumption 4.2: its exact value where one component is not zero",
    text="The variance by the sketch is (r/k - 1) (||GA'||^2 + ||B'G||^2), G = C + (r/k) BA M.",
    latex=r"\Big(\frac rk-1\Big)\big(\|GA^\top\|^2+\|B^\top G\|^2\big),\quad G=C+\tfrac rkBAM",
    kind="identity",
    space=ALONE,
    measure=lambda s: at.a42_one(s.devices),
    derivation="The gradient is r/k times (GA', B'G) with chance k/r, and zero otherwise.",
)
A42_BALL = rc.Claim(
    id="fslora.a42_ball",
    source="FSLoRA, Assumption 4.2 on a ball, the sketch, for least squares",
    text="For ||X|| <= rho and kappa = r/k, sigma_s^2 <= kappa rho^2 (||C|| + kappa rho^2 "
    "||M||/2)^2.",
    latex=r"\sigma_s^2\le\kappa\rho^2\big(\|C\|+\tfrac\kappa2\rho^2\|M\|\big)^2",
    kind="upper",
    space=least_squares(sizes={"N": (1, 1), "r": (1, 4)}),
    measure=lambda s: at.a42_ball(s.devices),
    derivation="A variance is at most the second moment, E||G A'S||^2 <= max ||G||^2 kappa "
    "||A||^2 by (9), and ||BSA|| <= kappa rho^2/2. With one component of equal parts along the "
    "first singular vectors it is 1 - k/r times the bound, by fslora.a42_one.",
)
A42_BALL_DATA = rc.Claim(
    id="fslora.a42_ball_data",
    source="FSLoRA, Assumption 4.2 on a ball, the data, for least squares",
    text="For ||X|| <= rho, kappa = r/k and batches of one sample, sigma_g^2 <= kappa^2 rho^2 "
    "mean_s |x|^2 (|d| + kappa rho^2 |x|/2)^2.",
    latex=r"\sigma_g^2\le\kappa^2\rho^2\,\overline{|x|^2\big(|d|+\tfrac\kappa2\rho^2|x|\big)^2}",
    kind="upper",
    space=least_squares(sizes={"N": (1, 1), "r": (1, 4)}),
    measure=lambda s: at.a42_ball_data(s.devices),
    derivation="The same with (8) and the slope of one sample. Attained by two samples whose "
    "gradients cancel.",
)

"""FSLoRA, Assumptions 4.1 and 4.2."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.fslora.claims._spaces import (
    AFFINE,
    DIRECTION,
    DIRECTIONS,
    SINGLE,
    SKETCHED,
    least_squares,
)
from experiments.fslora.paper import PAPER
from experiments.fslora.theory import smoothness as at
from experiments.fslora.theory.sketching import Devices, gradient, join, slope
from linsys.linalg import Numbers, norm, operator_norm, squares, transpose

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
VARIANCES = least_squares({"sigma_s": CONSTANT, "sigma_g": CONSTANT}, **SKETCHED)
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


def logistic_slope(x: Numbers, d: Numbers, W: Numbers) -> Numbers:
    """The gradient of the mean of log(1 + exp(z)) over samples, summed over z = W x + d."""
    weights = 1 / (1 + np.exp(-(x @ transpose(W) + d)))
    return np.asarray(transpose(weights) @ x / x.shape[-2])


def data_variance(devices: Devices) -> Numbers:
    """The largest E||grad l~(X, xi; S) - grad f~_i(X; S)||^2 over S, (B', N)."""
    x, d = (part[:, :, None, :, None, :] for part in (devices.x, devices.d))
    G = slope(x, d, devices.products[:, :, :, None])
    B, A = (part[:, None, None, None] for part in (devices.B, devices.A))
    each = join(*gradient(G, B, A, devices.dense[:, :, :, None]))
    apart = each - devices.each_gradient[:, :, :, None]
    variance = (apart * apart).sum(axis=(-2, -1)) / devices.x.shape[-2]
    return np.asarray(np.where(devices.chance > 0, variance, 0 * variance).max(axis=-1))


@PAPER.upper(
    "a41",
    ref="Assumption 4.1",
    tex=r"\|\nabla f_i(X)-\nabla f_i(Y)\|\le L\|X-Y\|\quad\forall X,Y",
    on=BOUNDED,
    expect="violated",
    printed_as="assumption",
    note="An assumption that no loss of BA meets but an affine one. The gradient of least squares "
    "is cubic in X, and no L is large enough. For any loss: a differentiable f(B, A) = g(BA) has "
    "Lipschitz gradients if and only if f = g(0) + <C, BA>, see fslora.a41_any. Theorem 4.4 needs "
    "f^S bounded from below as well, and then f^S is constant: as printed it is about grad f^S = "
    "0 alone. On balls it can be met, fslora.a41_ball.",
    corrected="a41_corrected",
    main=True,
)
def a41(devices: Devices, L: rc.Numbers) -> rc.Sides:
    """f_i(B, A) = E l(W0 + BA) has Lipschitz gradients on the whole space: here with a constant L,
    for X and Y = 0.
    """
    return norm(devices.gradients), (L * at.length(devices.B, devices.A))[:, None]


@PAPER.lower(
    "a41_corrected",
    ref="Assumption 4.1 for least squares",
    tex=r"\|\nabla f_i(tX)-\nabla f_i(0)\|\ge L\|tX\|,\quad t^2\ge\frac{L\|X\|^2/2-\langle C,"
    r"BA\rangle}{\|BAx\|^2}",
    on=FAR,
    derivation="<grad f(tX), X> = d/dt f(tX) = 2 t <C, BA> + 2 t^3 ||BA x||^2, at least t L "
    "||X||^2 from this t on, and Cauchy-Schwarz.",
)
def a41_corrected(devices: Any, L: Any) -> rc.Sides:
    """For every L and every X with BA x not zero, ||grad f(tX) - grad f(0)|| >= L ||tX|| for t^2 =
    max(1, (L ||X||^2/2 - <C, BA>) / ||BA x||^2), ||BA x||^2 the mean over the data and C = E (W0 x
    - y) x'; for every larger t it is more than L ||tX||.
    """
    return a41(at.far(devices, L), L)


@PAPER.lower(
    "a41_any",
    ref="Assumption 4.1 for any loss of W0 + BA",
    tex=r"\|\nabla f(X)-\nabla f(Y)\|\ge s^2\frac{\|B^\top(G-G')\|}{\|E\|}\|X-Y\|",
    on=LOGISTIC,
    printed_as="ours",
    derivation="The A part of the gradient is s B'G, and ||X - Y|| = ||E||/s. With s to infinity, "
    "Lipschitz gradients need B'G(B(A + E)) = B'G(BA) for all E: f is affine in A for each B, "
    "hence f(B, A) = g(0) + <G(0), BA>.",
)
def a41_any(
    x: Numbers, d: Numbers, B: Numbers, A: Numbers, change: Numbers, scale: Numbers
) -> rc.Sides:
    """X = (sB, A/s) and Y = (sB, (A + E)/s) have ||grad f(X) - grad f(Y)|| >= s^2 (||B'(G - G')|| /
    ||E||) ||X - Y||, G and G' the slopes of the loss at BA and B(A + E); for least squares and
    for the logistic loss.

    X = (sB, A/s) and Y = (sB, (A + E)/s); G and G' are the loss's slopes at BA and B (A + E), here
    of least squares and of the logistic loss.
    """
    scale = scale[:, None, None]
    eye = np.eye(A.shape[-2], dtype=int)
    left, right = [], []
    for slope_at in (slope, logistic_slope):
        one, two = slope_at(x, d, B @ A), slope_at(x, d, B @ (A + change))
        apart = join(*gradient(one, scale * B, A / scale, eye)) - join(
            *gradient(two, scale * B, (A + change) / scale, eye)
        )
        left.append(norm(apart))
        right.append(scale[:, 0, 0] * np.sqrt(squares(transpose(B) @ (one - two))))
    return np.stack(left, axis=1), np.stack(right, axis=1)


@PAPER.upper(
    "a41_affine",
    ref="Assumption 4.1: what satisfies it",
    tex=r"\|\nabla f(X)-\nabla f(Y)\|\le\|C\|\|X-Y\|,\quad f=\langle C,BA\rangle",
    on=AFFINE,
    printed_as="ours",
    derivation="The gradient is (CA', B'C). Attained by the singular vectors of C.",
)
def a41_affine(C: Numbers, U: Numbers, V: Numbers) -> rc.Sides:
    """f = <C, BA> satisfies it with L = ||C||, the operator norm."""
    return norm(join(C @ transpose(V), transpose(U) @ C)), at.spectral(C) * at.length(U, V)


@PAPER.upper(
    "a41_point",
    ref="Assumption 4.1 at a point, for least squares",
    tex=r"\|\nabla^2f_i(X)\|\le\|M_i\|(\|A\|^2+\|B\|^2)+\|\nabla\ell(W_0+BA)\|",
    on=POINTS,
    printed_as="ours",
    derivation="Along (U, V) it is ||(UA + BV) x||^2 + 2 <C + BA M, UV>, with ||UA + BV|| <= "
    "sqrt(||A||^2 + ||B||^2) ||(U, V)|| and 2 ||U|| ||V|| <= ||(U, V)||^2.",
)
def a41_point(devices: Devices, U: rc.Numbers, V: rc.Numbers) -> rc.Sides:
    """The Hessian of f_i at X is at most ||M|| (||A||^2 + ||B||^2) + ||C + BA M||, operator norms,
    with M = E xx' and C = E (W0 x - y) x', so that C + BA M is the slope of the loss at W0 + BA.
    """
    B, A, C, M = devices.B[:, None], devices.A[:, None], devices.C, devices.M
    eye = np.eye(devices.r, dtype=int)
    action = at.hessian_action(C, M, B, A, eye, U[:, None], V[:, None])
    top = operator_norm(M) * (at.spectral(B) ** 2 + at.spectral(A) ** 2) + at.spectral(
        C + B @ A @ M
    )
    return norm(action), top * at.length(U, V)[:, None]


@PAPER.upper(
    "a41_ball",
    ref="Assumption 4.1 on a ball, for least squares",
    tex=r"\|\nabla^2f_i(X)\|\le\tfrac32\rho^2\|M_i\|+\|C_i\|\quad(\|X\|\le\rho)",
    on=POINTS,
    printed_as="ours",
    uses=["a41_point"],
    derivation="fslora.a41_point with ||A||^2 + ||B||^2 <= rho^2 and ||BA|| <= rho^2/2. The "
    "largest value for M = mu I: B = (rho/sqrt 2) u e_1', A = (rho/sqrt 2) e_1 v' and a direction "
    "of the same form, u and v the first singular vectors of C; for m = n = 1 and x = 1 it is 3 "
    "rho^2/2 + |d|. Around another centre: fslora.a41_ball_centre.",
)
def a41_ball(devices: Devices, U: Numbers, V: Numbers) -> rc.Sides:
    """For least squares, M = E x x' and C = E (W0 x - y) x', in the ball of radius rho around 0 the
    Hessian of f_i is at most (3/2) rho^2 ||M|| + ||C||, in operator norms.
    """
    radius = at.length(devices.B, devices.A)[:, None]
    top = at.ball_constant(devices.C, devices.M, radius)
    return a41_point(devices, U, V)[0], top * at.length(U, V)[:, None]


@PAPER.upper(
    "a41_ball_centre",
    ref="Assumption 4.1 on a ball around any centre, for least squares",
    tex=r"\|\nabla^2f_i(X)\|\le\tfrac32(\rho_0+\rho)^2\|M_i\|+\|C_i\|\quad"
    r"(\|X-X^0\|\le\rho),\quad\rho_0^2=\|A^0\|^2+\|B^0\|^2",
    on=NEAR,
    printed_as="ours",
    uses=["a41_point"],
    derivation="With X = X^0 + (P, Q), (||A||, ||B||) is at most (||A^0||, ||B^0||) + (||Q||, "
    "||P||), hence ||A||^2 + ||B||^2 <= (rho_0 + rho)^2 and ||BA|| <= (rho_0 + rho)^2/2 in "
    "fslora.a41_point. Attained for M = mu I if X^0 is one component along the first singular "
    "vectors of C, of two equal parts; not at other centres, where "
    "linsys.sketching.balls.smoothness has the exact value.",
)
def a41_ball_centre(devices: Devices, P: Numbers, Q: Numbers, U: Numbers, V: Numbers) -> rc.Sides:
    """In the ball of radius rho around X^0 the Hessian of f_i is at most (3/2) (rho_0 + rho)^2
    ||M|| + ||C||, rho_0^2 = ||A^0||^2 + ||B^0||^2, M = E xx' and C = E (W0 x - y) x', with operator
    norms.

    s = sqrt(||A^0||^2 + ||B^0||^2) + ||(P, Q)||, with operator norms.
    """
    there = replace(devices, B=devices.B + P, A=devices.A + Q)
    centre = np.sqrt(at.spectral(devices.B) ** 2 + at.spectral(devices.A) ** 2)
    top = at.ball_constant(devices.C, devices.M, (centre + at.length(P, Q))[:, None])
    return a41_point(there, U, V)[0], top * at.length(U, V)[:, None]


# Assumption 4.2.


@PAPER.upper(
    "a42",
    ref="Assumption 4.2",
    tex=r"\mathbb E\|\nabla\tilde f_i(X;S)-\nabla f_i^{\mathcal S}(X)\|^2\le\sigma_s^2,\quad"
    r"\mathbb E\|\nabla\tilde\ell(X,\xi;S)-\nabla\tilde f_i(X;S)\|^2\le\sigma_g^2\quad\forall X",
    on=VARIANCES,
    expect="violated",
    printed_as="assumption",
    note="Where k < r no loss of BA meets this assumption unless every f~(.; S) is constant; for "
    "k = r the sketches have no variance. The "
    "variances of least squares grow as ||X||^6, as squares of cubic gradients: "
    "fslora.a42_corrected. For any loss with slope G, the A part of a gradient at (tB, A/t) is "
    "t S B'G(BSA), with BSA the same for all t. If its variance is bounded, S B'G(BSA) is the same "
    "for all S, hence zero, as its row j is where S leaves out j. Then <G(BSA), BSA> = 0 for all B "
    "and A, so that f~(.; S) is constant. On balls they are bounded, fslora.a42_ball.",
    corrected="a42_corrected",
    main=True,
)
def a42(devices: Devices, sigma_s: Numbers, sigma_g: Numbers) -> rc.Sides:
    """The variances of the gradient by the sketch and by the data are at most sigma_s^2 and
    sigma_g^2 for all X; here for k < r.
    """
    variances = np.stack([at.sketch_variance(devices), data_variance(devices)], axis=1)
    return variances, np.stack([sigma_s**2, sigma_g**2], axis=1)[..., None]


@PAPER.lower(
    "a42_corrected",
    ref="Assumption 4.2 for least squares",
    tex=r"\mathbb E\|\nabla\tilde f(tX;S)-\nabla f^{\mathcal S}(tX)\|^2\ge\sigma^2",
    on=ALONE_FAR,
    uses=["a42_one"],
    derivation="fslora.a42_one at t X, and ||Y|| ||X|| >= <Y, X> = 2 t <C, BA> + 2 kappa t^3 q >= "
    "kappa t^3 q with Y = t (GA', B'G), G = C + kappa t^2 BA M.",
)
def a42_corrected(devices: Devices, sigma: Numbers) -> rc.Sides:
    """For every sigma and k < r the variance by the sketch is at least sigma^2 at t X, X of one
    component with BA x not zero, t^2 >= 2 |<C, BA>| / (kappa q) and t^3 >= sigma ||X|| /
    (sqrt(kappa - 1) kappa q), kappa = r/k, q = E||BA x||^2, C = E (W0 x - y) x'.
    """
    B, A, kappa = devices.B, devices.A, devices.kappa[:, 0]
    P = B @ A
    q = (P @ devices.M[:, 0] * P).sum(axis=(-2, -1))
    slant = np.abs((devices.C[:, 0] * P).sum(axis=(-2, -1)))
    root = sigma * at.length(B, A) / (np.sqrt(kappa - 1) * kappa * q)
    t = np.maximum(np.sqrt(2 * slant / (kappa * q)), np.exp(np.log(root) / 3))[:, None, None]
    there = Devices(x=devices.x, d=devices.d, B=t * B, A=t * A, k=devices.k)
    return at.sketch_variance(there)[:, 0], sigma**2


@PAPER.identity(
    "a42_one",
    ref="Assumption 4.2: its exact value where one component is not zero",
    tex=r"\Big(\frac rk-1\Big)\big(\|GA^\top\|^2+\|B^\top G\|^2\big),\quad G=C+\tfrac rkBAM",
    on=ALONE,
    printed_as="ours",
    derivation="The gradient is r/k times (GA', B'G) with chance k/r, and zero otherwise.",
)
def a42_one(devices: Devices) -> rc.Sides:
    """For least squares, where all components but one are zero, the variance by the sketch is (r/k
    - 1) (||GA'||^2 + ||B'G||^2), G = C + (r/k) BA M, M = E xx' and C = E (W0 x - y) x'.
    """
    B, A = devices.B[:, None], devices.A[:, None]
    G = devices.C + devices.kappa[..., None, None] * (B @ A) @ devices.M
    size = squares(G @ transpose(A)) + squares(transpose(B) @ G)
    return at.sketch_variance(devices), (devices.kappa - 1) * size


@PAPER.upper(
    "a42_ball",
    ref="Assumption 4.2 on a ball, the sketch, for least squares",
    tex=r"\sigma_s^2\le\kappa\rho^2\big(\|C\|+\tfrac\kappa2\rho^2\|M\|\big)^2",
    on=least_squares(sizes={"N": (1, 1), "r": (1, 4)}),
    printed_as="ours",
    uses=["a42_one"],
    derivation="A variance is at most the second moment, E||G A'S||^2 <= max ||G||^2 kappa "
    "||A||^2 by (9), and ||BSA|| <= kappa rho^2/2. With one component of equal parts along the "
    "first singular vectors of C and M = mu I it is 1 - k/r times the bound, by fslora.a42_one.",
)
def a42_ball(devices: Devices) -> rc.Sides:
    """For ||X|| <= rho and kappa = r/k, sigma_s^2 <= kappa rho^2 (||C|| + kappa rho^2 ||M||/2)^2, M
    = E xx' and C = E (W0 x - y) x'.
    """
    reach = devices.kappa * (squares(devices.B) + squares(devices.A))[:, None]
    g = at.spectral(devices.C) + reach * operator_norm(devices.M) / 2
    return at.sketch_variance(devices), reach * g * g


@PAPER.upper(
    "a42_ball_data",
    ref="Assumption 4.2 on a ball, the data, for least squares",
    tex=r"\sigma_g^2\le\kappa^2\rho^2\,\overline{|x|^2\big(|d|+\tfrac\kappa2\rho^2|x|\big)^2}",
    on=least_squares(sizes={"N": (1, 1), "r": (1, 4)}),
    printed_as="ours",
    derivation="The second moment again, with (8) and the slope of one sample. Approached by two "
    "samples whose gradients cancel, with kappa rho^2 |x| small against |d|.",
)
def a42_ball_data(devices: Devices) -> rc.Sides:
    """For ||X|| <= rho, kappa = r/k and batches of one sample, sigma_g^2 <= kappa^2 rho^2 mean_s
    |x|^2 (|d| + kappa rho^2 |x|/2)^2.
    """
    reach = devices.kappa * (squares(devices.B) + squares(devices.A))[:, None]
    x, d = norm(devices.x), norm(devices.d)
    each = x * x * (d + reach[..., None] * x / 2) ** 2
    return data_variance(devices), devices.kappa * reach * each.sum(axis=-1) / x.shape[-1]

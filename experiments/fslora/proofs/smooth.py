"""FSLoRA, Assumption 4.1 and Proposition D.4: how smooth a function of (B, A) is.

Modules are vectors of one space, (B, A) side by side; with sketches they are random vectors, each
sketch times the root of its chance.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from experiments.fslora.claims.proposition_d4 import scalings
from experiments.fslora.theory import smoothness as at
from experiments.fslora.theory.sketching import Devices, join
from linsys.linalg import Numbers, operator_norm, transpose
from ratecheck import gram as g


def _parts(devices: Devices, U: Numbers, V: Numbers) -> dict[str, Any]:
    """(Z A', B'Z) with Z = (U A + B V) M, and (G V', U'G) with the slope G = C + BA M."""
    B, A, M = devices.B[:, None], devices.A[:, None], devices.M
    image, slope = (U[:, None] @ A + B @ V[:, None]) @ M, devices.C + B @ A @ M
    return {
        "curved": join(image @ transpose(A), transpose(B) @ image),
        "slanted": join(slope @ transpose(V[:, None]), transpose(U[:, None]) @ slope),
        "M": operator_norm(M),
        "v": at.length(U, V)[:, None],
    }


def _point(devices: Devices, U: Numbers, V: Numbers) -> dict[str, Any]:
    B, A = devices.B[:, None], devices.A[:, None]
    return {
        **_parts(devices, U, V),
        "reach": np.sqrt(at.spectral(B) ** 2 + at.spectral(A) ** 2),
        "slope": at.spectral(devices.C + B @ A @ devices.M),
    }


def _ball(devices: Devices, U: Numbers, V: Numbers) -> dict[str, Any]:
    reach = at.length(devices.B, devices.A)[:, None]
    return {**_parts(devices, U, V), "reach": reach, "slope": at.spectral(devices.C)}


def _near(devices: Devices, P: Numbers, Q: Numbers, U: Numbers, V: Numbers) -> dict[str, Any]:
    there = replace(devices, B=devices.B + P, A=devices.A + Q)
    centre = np.sqrt(at.spectral(devices.B) ** 2 + at.spectral(devices.A) ** 2)
    reach = (centre + at.length(P, Q))[:, None]
    return {**_parts(there, U, V), "reach": reach, "slope": at.spectral(devices.C)}


def _hessian(p: g.Problem, share: Any, moves: str, slopes: str) -> None:
    """||curved + slanted|| <= (||M|| reach^2 + slope + share ||M|| reach^2) ||(U, V)||, squared."""
    curved, slanted = p.vectors("curved slanted", "modules")
    M, reach, slope, v = p.parameters_named("M reach slope v")
    p.bounded(curved, M * reach**2 * v, moves)
    p.bounded(slanted, (slope + share * M * reach**2) * v, slopes)
    p.cauchy_schwarz(curved, slanted, "Cauchy-Schwarz")
    p.show((curved + slanted).squared <= (((1 + share) * M * reach**2 + slope) * v) ** 2)


@g.theorem("fslora.a41_point", at=_point, power=2)
def a41_point(p: g.Problem) -> None:
    """||Hess f_i (U, V)|| <= (||M|| (||A||^2 + ||B||^2) + ||G||) ||(U, V)||, squared."""
    moves = "||(Z A', B'Z)|| <= reach ||Z||, ||Z|| <= ||M|| ||U A + B V||, at most reach ||(U, V)||"
    _hessian(p, 0, moves, "||(G V', U'G)|| <= ||G|| ||(U, V)||")


_HALF, _MOVES = "||G|| <= ||C|| + ||BA|| ||M||, ||BA|| <= rho^2/2", "the same, in the ball"


@g.theorem("fslora.a41_ball", at=_ball, power=2)
def a41_ball(p: g.Problem) -> None:
    """||Hess f_i (U, V)|| <= ((3/2) rho^2 ||M|| + ||C||) ||(U, V)||, squared."""
    _hessian(p, Fraction(1, 2), f"fslora.a41_point, {_MOVES}", _HALF)


@g.theorem("fslora.a41_ball_centre", at=_near, power=2)
def a41_ball_centre(p: g.Problem) -> None:
    """The same with rho_0 + rho around any centre."""
    _hessian(p, Fraction(1, 2), f"fslora.a41_point, {_MOVES} around X^0", _HALF)


def _far(devices: Devices, L: Numbers) -> dict[str, Any]:
    there = at.far(devices, L)
    X = join(there.B, there.A)
    return {"slope": there.gradients, "X": X[:, None] + 0 * there.gradients, "L": L[:, None]}


@g.theorem("fslora.a41_corrected", at=_far, power=2)
def a41_corrected(p: g.Problem) -> None:
    """||grad f(tX)|| >= L ||tX|| from <grad f(tX), tX> >= L ||tX||^2, squared."""
    slope, X = p.vectors("slope X", "modules")
    L = p.parameter("L")
    p.assume(slope @ X >= L * X.squared, "2 t <C, BA> + 2 t^3 ||BA x||^2 >= t L ||X||^2")
    p.show(L**2 * X.squared <= slope.squared)


# Proposition D.4. T = diag(S, I) or its like, with ||T|| <= r/k and E T^2 <= (r/k) I.


def _sketched(s: Any) -> dict[str, Any]:
    """T g, g and T v for every sketch, g what the gradient of f_i changes by from T Y to T X."""
    T, chance = scalings(s.k, s.v.shape[-1] // 2)

    def slopes(point: Numbers) -> Numbers:
        along = (T * point[:, None, None]) @ transpose(s.V) - s.o[:, :, None]
        w = s.w[:, :, None]
        clipped = np.minimum(np.maximum(along, -w), w)
        return np.asarray((s.h[:, :, None] * clipped) @ s.V)

    change = slopes(s.Y + s.v) - slopes(s.Y)
    return {"T": T, "chance": chance, "change": change, "moved": T * s.v[:, None, None]}


def _each(s: Any) -> dict[str, Any]:
    known = _sketched(s)
    return {
        "sketched": known["T"] * known["change"],
        "change": known["change"],
        "moved": known["moved"],
        "v": s.v[:, None, None],
        "ratio": (s.v.shape[-1] // 2 / s.k)[..., None],
        "L": s.L[..., None],
    }


@g.theorem("fslora.prop_d4_i", at=_each, power=2)
def prop_d4_i(p: g.Problem) -> None:
    """||T (g(T X) - g(T Y))|| <= (r/k)^2 L ||X - Y||, squared."""
    sketched, change, moved, v = p.vectors("sketched change moved v", "modules")
    ratio, L = p.parameters_named("ratio L")
    p.assume(sketched.squared <= ratio**2 * change.squared, "||T|| <= r/k")
    p.assume(change.squared <= L**2 * moved.squared, "f_i is L-smooth")
    p.assume(moved.squared <= ratio**2 * v.squared, "||T|| <= r/k, of X - Y")
    p.show(sketched.squared <= ratio**4 * L**2 * v.squared)


def _averaged(s: Any, chance: Numbers, ratio: Numbers, L: Numbers) -> dict[str, Any]:
    """The mean m of T g, and T m, g and T v under the chances of all that is averaged."""
    known = _sketched(s)
    lead = ratio.shape

    def flat(values: Numbers) -> Numbers:
        return np.asarray((np.sqrt(chance)[..., None] * values).reshape(*lead, -1))

    weighed = chance[..., None] * known["T"] * known["change"]
    mean = weighed.reshape(*lead, -1, weighed.shape[-1]).sum(axis=-2)
    wide = mean.reshape(*lead, *[1] * (chance.ndim - len(lead)), -1)
    v = s.v.reshape(len(s.v), *[1] * (len(lead) - 1), -1)
    return {
        "mean": mean,
        "image": flat(known["T"] * wide),
        "change": flat(known["change"] + 0 * known["T"]),
        "moved": flat(known["moved"]),
        "v": v + 0 * mean,
        "ratio": ratio,
        "L": L,
    }


def _device(s: Any) -> dict[str, Any]:
    ratio = s.v.shape[-1] // 2 / s.k
    return _averaged(s, scalings(s.k, s.v.shape[-1] // 2)[1], ratio, s.L)


def _all_devices(s: Any) -> dict[str, Any]:
    ratio = (s.v.shape[-1] // 2 / s.k).sum(axis=1) / s.k.shape[1]
    chance = scalings(s.k, s.v.shape[-1] // 2)[1] / s.k.shape[1]
    return _averaged(s, chance, ratio, s.L.max(axis=1))


def _mean(p: g.Problem) -> None:
    """(r/k) ||m||^2 <= (r/k)^3 L^2 ||X - Y||^2, m the mean of T (g(T X) - g(T Y))."""
    mean, v = p.vectors("mean v", "modules")
    image, change, moved = p.vectors("image change moved", "E modules")
    ratio, L = p.parameters_named("ratio L")
    p.equal(image @ change, mean.squared, "what a mean is, as T is symmetric")
    p.assume(image.squared <= ratio * mean.squared, "E T^2 <= r/k")
    p.assume(change.squared <= L**2 * moved.squared, "f_i is L-smooth")
    p.assume(moved.squared <= ratio * v.squared, "E T^2 <= r/k, of X - Y")
    p.show(ratio * mean.squared <= ratio**3 * L**2 * v.squared)


def _ratio(s: Any) -> Numbers:
    return np.asarray(s.v.shape[-1] // 2 / s.k)


prop_d4_ii = g.theorem("fslora.prop_d4_ii", at=_device, power=2, scale=_ratio)(_mean)
prop_d4_iii = g.theorem(
    "fslora.prop_d4_iii",
    at=_all_devices,
    power=2,
    scale=lambda s: _ratio(s).sum(axis=1) / s.k.shape[1],
)(_mean)

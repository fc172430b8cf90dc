"""Newton's method for the factor of Delta_i = B W_i: :mod:`linsys.preference.profile` has phi(B).

Conjugate gradients solve for the step V, preconditioned by the Kronecker product of the features'
second moments and sum_i W_i W_i', which is the Hessian itself when the features are independent. A
step ends with an orthonormal basis of B + V, and the heads start from where the step predicts them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from linsys.preference import kernels
from linsys.preference.profile import STILL, Heads, Profile, basis, orthogonal
from linsys.validate import Array

__all__ = ["Maximum", "maximise"]

#: A predicted gain below this part of the objective is rounding of the gradient.
_NO_GAIN = 1e-20
#: Rounding of a sum of log-likelihoods.
_ROUNDING = 1e-13
#: Part of the predicted gain that a step must bring.
_SUFFICIENT = 1e-4
#: While the factor moves, heads are solved until their last step is at most this.
_ROUGH = 1e-2


@dataclass(frozen=True)
class Maximum:
    """Where the iteration ended; users ``left_out`` (N,) had no part in the factor."""

    heads: Heads
    left_out: NDArray[np.bool_]
    iterations: int
    gradient_norm: float
    converged: bool


def maximise(
    profile: Profile, B: Array, left_out: NDArray[np.bool_], tol: float, limit: int
) -> Maximum:
    """The maximum of phi from B (d1, k): see the module.

    Converged where the preconditioned gradient, which is about the next step, would turn B by less
    than ``tol`` (radians), or gain nothing that a gradient in double precision could show. Users
    that are separated at some iterate have no maximum there, and are left out from then on.
    """
    N, d2 = profile.data.users, profile.data.shape[1]
    B = basis(B)[0]
    rest = _ROUGH
    here = profile.heads(B, np.zeros((N, d2, B.shape[1])), left_out, rest=rest)
    for iteration in range(limit + 1):
        if (here.status == kernels.SEPARATED).any():
            left_out = left_out | (here.status == kernels.SEPARATED)
            here = profile.heads(here.B, here.W, left_out, rest=rest)
        value, (G, inside) = profile.objective(here), profile.gradients(here)
        gradient = G.reshape(-1, len(B)).T @ here.W.reshape(-1, B.shape[1])
        size = float(np.linalg.norm(gradient))
        left, right = profile.preconditioner(here)
        angle = float(np.linalg.norm(orthogonal(here.B, left @ gradient @ right)))
        if angle <= tol or angle * size <= _NO_GAIN * abs(value):
            if rest == STILL or rest**2 <= tol:
                return Maximum(here, left_out, iteration, math.hypot(size, inside), True)
            rest = STILL  # the factor has come to rest before the heads
            here = profile.heads(here.B, here.W, left_out, rest=rest)
            continue
        if iteration == limit:
            break
        # A Newton step leaves about angle^2: more precision than that, or than tol asks for, is
        # wasted.
        forcing = min(0.1, max(angle, 0.1 * tol / angle))
        V, response = _newton_step(profile, here, G, gradient, (left, right), forcing)
        gain = float((gradient * V).sum())
        # the next step is about angle^2; the error of the heads has to be smaller
        rest = min(_ROUGH, max(STILL, 0.1 * angle))
        part, better = 1.0, None
        while part > 1e-10 and better is None:
            Q, R = basis(here.B + part * V)
            trial = profile.heads(Q, (here.W + part * response) @ R.T, left_out, rest=rest)
            least = value + _SUFFICIENT * part * gain - _ROUNDING * abs(value)
            better = trial if profile.objective(trial) >= least else None
            part *= 0.5
        if better is None:
            break
        here = better
    return Maximum(here, left_out, iteration, math.hypot(size, inside), False)


def _newton_step(
    profile: Profile,
    heads: Heads,
    G: Array,
    gradient: Array,
    preconditioner: tuple[Array, Array],
    forcing: float,
) -> tuple[Array, Array]:
    """The step V and the heads' derivative along it, by preconditioned conjugate gradients.

    Ends at a direction of negative curvature, with what was found before it.
    """
    left, right = preconditioner
    V, response = np.zeros_like(gradient), np.zeros_like(heads.W)
    residual = gradient
    scaled = orthogonal(heads.B, left @ residual @ right)
    along, now = scaled, float((residual * scaled).sum())
    start = now
    for turn in range(gradient.size):
        if not now > forcing**2 * start * (turn > 0):
            break
        image, answer = profile.product(heads, G, along)
        curvature = float((along * image).sum())
        if not curvature > 0.0:
            return (V, response) if turn else (along, answer)
        length = now / curvature
        V, response = V + length * along, response + length * answer
        residual = residual - length * image
        scaled = orthogonal(heads.B, left @ residual @ right)
        now, before = float((residual * scaled).sum()), now
        along = scaled + (now / before) * along
    return V, response

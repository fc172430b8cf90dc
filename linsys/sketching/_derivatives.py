"""Upper bounds of a loss's second, third and fourth derivatives along unit directions, on a ball.

Along X + t E, |E| = 1 and |X| <= rho, the matrix W0 + scale B A has ||W'|| <= scale rho and ||W''||
<= scale, and none after that. The rules of Leibniz and of the chain carry such bounds through a
loss. A symmetric multilinear form has its norm on the diagonal (Banach), so that the fourth one is
a Lipschitz constant of the Hessian's derivative. The outputs enter by bounds of four derivatives:

* ||z - y||^2 / 2: ||z - y||, one, zero, zero;
* cross entropy: ||p - y|| <= sqrt 2; then the cumulants of a variable with a range of sqrt 2: a
  variance of at most 1/2, sqrt 2 times that, and the larger one of 2 and 3/2 times that;
* tanh: 1, 4 / (3 sqrt 3), 2, and 4.1 (4.086 at tanh^2 = (5 - sqrt 10) / 10).
"""

from __future__ import annotations

import numpy as np

from linsys.sketching.systems import LeastSquares, Logistic, MatrixSystem, TwoLayer
from linsys.validate import Array, InputError

__all__ = ["check_least_squares", "largest_derivatives", "moment_and_slope"]

_TANH = (1.0, 4.0 / (3.0 * np.sqrt(3.0)), 2.0, 4.1)


def check_least_squares(system: object) -> None:
    """Refuse other losses, where formulas for least squares would give wrong numbers in silence."""
    if not isinstance(system, LeastSquares):
        raise InputError(f"`system` must be LeastSquares; found {type(system).__name__}")


def largest_derivatives(
    system: MatrixSystem, device: int, size: float, scale: float = 1.0
) -> tuple[float, float, float]:
    """Bounds of derivatives two to four of f_i at W0 + scale B A for |X| <= size."""
    if isinstance(system, TwoLayer):
        return _two_layers(system, device, size, scale)
    assert isinstance(system, LeastSquares | Logistic)
    M, C = (float(np.linalg.norm(part, 2)) for part in moment_and_slope(system, device))
    # the mean of |z'|^2 is at most z1^2 M, that of |z''|^2 at most z2^2 M
    z1, z2 = scale * size, scale
    if isinstance(system, LeastSquares):
        slope = C + scale * size**2 / 2 * M
        return z1**2 * M + z2 * slope, 3 * z1 * z2 * M, 3 * z2**2 * M
    longest = float(np.sqrt((system.inputs[device] ** 2).sum(axis=1).max()))
    slope = min(np.sqrt(2.0 * M), C + scale * size**2 / 4 * M)
    root = longest / np.sqrt(2.0)
    return (
        float(z1**2 / 2 * M + z2 * slope),
        float((z1**3 * root + 1.5 * z1 * z2) * M),
        float((z1**4 * longest**2 + 6 * z1**2 * z2 * root + 1.5 * z2**2) * M),
    )


def moment_and_slope(system: LeastSquares | Logistic, device: int) -> tuple[Array, Array]:
    """M, the second moment of the inputs (n, n), and C, the slope of the loss at W0 (m, n)."""
    x, y = system.inputs[device], system.targets[device]
    return x.T @ x / len(x), system._slope(x @ system.W0.T, y).T @ x / len(x)


def _two_layers(
    system: TwoLayer, device: int, size: float, scale: float
) -> tuple[float, float, float]:
    x, y = system.inputs[device], system.targets[device]
    length, add = np.sqrt((x**2).sum(axis=1)), scale * size**2 / 2
    u1, u2 = scale * size * length, scale * length
    t1, t2, t3, t4 = _TANH
    h = (
        np.minimum(
            np.sqrt(len(system.U0)),
            np.sqrt((np.tanh(x @ system.U0.T) ** 2).sum(axis=1)) + add * length,
        ),
        t1 * u1,
        t2 * u1**2 + t1 * u2,
        t3 * u1**3 + 3 * t2 * u1 * u2,
        t4 * u1**4 + 6 * t3 * u1**2 * u2 + 3 * t2 * u2**2,
    )
    V = (float(np.linalg.norm(system.V0, 2)) + add, scale * size, scale)
    # Leibniz, V having two derivatives
    z = [V[0] * h[j] + j * V[1] * h[j - 1] + j * (j - 1) / 2 * V[2] * h[j - 2] for j in range(5)]
    e = z[0] + np.sqrt((y**2).sum(axis=1))
    return (
        float((z[1] ** 2 + e * z[2]).mean()),
        float((3 * z[1] * z[2] + e * z[3]).mean()),
        float((3 * z[2] ** 2 + 4 * z[1] * z[3] + e * z[4]).mean()),
    )

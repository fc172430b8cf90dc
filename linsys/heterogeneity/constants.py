"""The constants of Section 1.2 and their variants: G, sigma, lambda, kappa, nu.

Suprema are infinite for a Gaussian system with noise (eps > 0). ``definition="second-moment"``
replaces them by root mean squares, the largest over the agents' environments, which is what enters
a variance; ``definition=None`` does so only where the suprema are infinite. See
:mod:`linsys.heterogeneity.objectives` for the definitions of G_b.
"""

from __future__ import annotations

import numpy as np

from linsys.heterogeneity._measured import Measured, MeasuredArray, from_replicates
from linsys.heterogeneity._view import (
    FEATURES,
    Definition,
    Features,
    System,
    chosen_definition,
    view_of,
)
from linsys.heterogeneity.objectives import G_b
from linsys.validate import Array, InputError, check_choice

__all__ = [
    "G_A",
    "G_x",
    "kappa",
    "kappa_agent",
    "lambda_agent",
    "lambda_b",
    "lambda_c",
    "lambda_min",
    "nu",
    "nu_agent",
    "sigma",
    "sigma_rms",
]


def G_A(system: System, definition: Definition | None = None) -> Measured:
    """G_A = sup_s ||A(s)|| (Section 1.2), or a root mean square under "second-moment".

    The latter, max_i ||E_{mu^i} A(s)'A(s)||^(1/2), is the smallest G with E_{mu^i} ||A(s) x||^2 <=
    G^2 ||x||^2 for all i and x.

    >>> from linsys import sample_gaussian_system
    >>> float(G_A(sample_gaussian_system(0), "objective"))
    inf
    """
    view = view_of(system)
    if chosen_definition(view, definition) == "second-moment":
        squares = np.linalg.norm(view.feature_second_moment("A"), ord=2, axis=(-2, -1))
        return Measured(float(np.sqrt(squares.max())), 0.0, view.method)
    return Measured(view.feature_bound("A"), 0.0, view.method)


def G_x(system: System, central: bool = True) -> Measured:
    """G_x = max{max_i ||x_*^i||, ||x_*^c||} (Appendix C.6).

    Without ``central``, max_i ||x_*^i|| alone (Section 1.2). The proofs of Lemma D.1 (i) and Lemma
    D.2 need the one with x_*^c: where the agents' matrices differ, x_*^c can be much longer than
    every x_*^i.
    """
    view = view_of(system)
    lengths = np.linalg.norm(view.system.x_star, axis=-1)
    longest = float(lengths.max())
    if central:
        longest = max(longest, float(np.linalg.norm(view.system.x_star_central)))
    return Measured(longest, 0.0, view.method)


def sigma(
    system: System, definition: Definition | None = None, *, central: bool = True
) -> Measured:
    """Scale sigma = 2 max{G_A G_x, G_b} (Section 1.2), a bound of the noise ||g^i(x_*^i)||.

    Args:
        system: what is measured.
        definition: of G_A and G_b.
        central: whether G_x includes x_*^c; see :func:`G_x`.

    Raises:
        InputError: an unknown definition, or "weights" for objectives that are not of the form
            Phi(s) theta^i.
    """
    view = view_of(system)
    chosen = chosen_definition(view, definition)
    solutions = float(G_x(view, central))
    # Zero solutions make no noise, however large A(s) is.
    noise = float(G_A(view, chosen)) * solutions if solutions > 0 else 0.0
    return Measured(2.0 * max(noise, float(G_b(view, chosen))), 0.0, view.method)


def sigma_rms(system: System) -> MeasuredArray:
    """Root mean square noise at the solutions, (E_{mu^i} ||g^i(x_*^i)||^2)^(1/2), shape (n,).

    This is the noise of an agent that learns alone, and at most sigma. Exact for finite systems,
    from Gaussian fourth moments in closed form for Gaussian ones.
    """
    view = view_of(system)
    mean_square = view.residual_mean_square(view.system.x_star)
    return MeasuredArray.of(np.sqrt(np.maximum(mean_square, 0.0)), method=view.method)


def _monotonicity(matrices: Array) -> Array:
    """lambda_min(sym(M)) of each matrix."""
    symmetric = 0.5 * (matrices + np.swapaxes(matrices, -1, -2))
    return np.asarray(np.linalg.eigvalsh(symmetric)[..., 0])


def lambda_agent(system: System) -> MeasuredArray:
    """lambda^i = lambda_min(sym(Abar^i)), shape (n,) (Section 6.3)."""
    view = view_of(system)
    return MeasuredArray.of(_monotonicity(view.system.A_bar), method=view.method)


def lambda_min(system: System, *, objective: bool = False) -> Measured:
    """lambda = min_i lambda_min(sym(Abar^i)) (Section 1.2).

    With ``objective``, the minimum also runs over sym(Phibar^i), as in the proof of Lemma D.1 (f)
    and (j); it is not positive where some Phibar^i is not, since only their average has to be.
    """
    view = view_of(system)
    smallest = _monotonicity(view.system.A_bar).min()
    if objective:
        smallest = min(smallest, _monotonicity(view.system.Phi_bar).min())
    return Measured(float(smallest), 0.0, view.method)


def lambda_b(system: System) -> Measured:
    """lambda^b = lambda_min(sym(Phibar^0)), of central objective estimation (Lemma E.1)."""
    view = view_of(system)
    return Measured(float(_monotonicity(view.system.Phi_bar0)), 0.0, view.method)


def lambda_c(system: System) -> Measured:
    """lambda^c = lambda_min(sym(Abar^0)), the rate of central decision learning (Lemma F.1)."""
    view = view_of(system)
    return Measured(float(_monotonicity(view.system.A_bar0)), 0.0, view.method)


def kappa(
    system: System, definition: Definition | None = None, *, central: bool = True
) -> Measured:
    """Condition number kappa = sigma / lambda (Section 1.2); arguments as in :func:`sigma`."""
    view = view_of(system)
    scale = sigma(view, definition, central=central)
    return Measured(scale.value / lambda_min(view).value, 0.0, view.method)


def kappa_agent(
    system: System, definition: Definition | None = None, *, central: bool = True
) -> MeasuredArray:
    """kappa^i = sigma / lambda^i, shape (n,) (equation 9); arguments as in :func:`sigma`."""
    view = view_of(system)
    scale = sigma(view, definition, central=central)
    return MeasuredArray.of(scale.value / lambda_agent(view).value, method=view.method)


def nu_agent(system: System, features: Features = "A") -> MeasuredArray:
    """nu^i = ||Dbar^i (Abar^i)^{-1}||, shape (n,), with D(s) = sqrt(A(s)'A(s)) (Definition 3).

    At least 1, since the singular values of Dbar^i sum to at least those of Abar^i; at most G_A /
    lambda^i. ``features="Phi"`` puts Phi in the place of A, which the second half of Lemma D.2
    needs.

    Finite: exact. Gaussian with eps > 0: scrambled Sobol points; the error is one standard error.

    Raises:
        InputError: unknown features, or a singular Phibar^i.
    """
    check_choice("features", features, FEATURES)
    view = view_of(system)
    means = view.system.A_bar if features == "A" else view.system.Phi_bar
    if features == "Phi" and (np.linalg.cond(means) > 1.0 / np.finfo(np.float64).eps).any():
        worst = int(np.linalg.cond(means).argmax())
        raise InputError(f"`Phi_bar`[{worst}] must be invertible for nu; found a singular matrix")
    stretch, method = view.mean_stretch(features)
    # ||D A^{-1}|| = ||(A')^{-1} D'||, with D symmetric.
    transposed = np.swapaxes(means, -1, -2)
    norms = np.linalg.norm(np.linalg.solve(transposed, stretch), ord=2, axis=(-2, -1))
    if len(stretch) == 1:
        return MeasuredArray.of(norms[0], method=method)
    # The norm is not linear: it is taken of the pooled mean, its error from the spread over
    # scrambles.
    pooled = np.linalg.norm(np.linalg.solve(transposed, stretch.mean(axis=0)), ord=2, axis=(-2, -1))
    return MeasuredArray.of(pooled, from_replicates(norms).error, method)


def nu(system: System, features: Features = "A") -> Measured:
    """Stochastic condition number nu = max_i nu^i (Definition 3); see :func:`nu_agent`.

    >>> import numpy as np
    >>> from linsys import GaussianSystem
    >>> aligned = GaussianSystem(np.zeros((2, 2)), np.ones((2, 2)), np.eye(2), np.eye(2), eps_A=0)
    >>> print(nu(aligned))
    1 (closed form)
    """
    return nu_agent(system, features).max()

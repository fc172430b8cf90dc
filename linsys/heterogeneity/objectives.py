"""Objective heterogeneity, under both of the paper's definitions and one for unbounded states.

===============  =======================================  ================================
definition       G_b                                      distance of two objectives
===============  =======================================  ================================
"objective"      max_i sup_s ||b^i(s)|| (Section 1.2)     sup_s ||b^i(s) - b^j(s)||
"weights"        max{max_i ||theta^i||, ||theta^c||}      ||theta^i - theta^j||
"second-moment"  max_ik (E_{mu^k} ||b^i||^2)^(1/2)        max_k (E_{mu^k} ||b^i - b^j||^2)^(1/2)
===============  =======================================  ================================

"objective" is Definition 1, "weights" Section 4.
Suprema run over the states that some agent visits; others can be left out of S without any effect.
"weights" presumes ||Phi(s)|| <= 1, which the paper takes without loss of generality: where sup_s
||Phi(s)|| = c > 1, lengths of theta are multiplied by c, as if Phi had been divided by it.
"second-moment" is what is left where the objectives are unbounded (Gaussian states); the bounds of
Lemma D.1 are proved for the other two only. ``definition=None`` takes "objective" where A and b are
bounded and "second-moment" where they are not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from linsys.heterogeneity._measured import (
    Measured,
    MeasuredArray,
    from_centre,
    least_certain,
    maximum,
)
from linsys.heterogeneity._view import (
    Definition,
    System,
    View,
    chosen_definition,
    objective_weights,
    view_of,
)
from linsys.validate import Array

__all__ = ["G_b", "delta_cen", "delta_obj", "delta_obj_agent"]


def _geometry(
    view: View, definition: Definition | None
) -> tuple[Array, Array, float, Callable[[Array], Array]]:
    """Objectives (n, K, d), those that enter G_b, their scale, and a function for lengths."""
    chosen = chosen_definition(view, definition)
    if chosen == "weights":
        theta = objective_weights(view)
        bounded = np.concatenate([theta, view.system.theta_star_central[None]])
        scale = max(1.0, view.feature_bound("Phi"))
        return theta[:, None], bounded[:, None], scale, _largest
    values, scale = view.objective_values()
    if chosen == "objective":
        return values, values, scale, _largest
    return values, values, 1.0, lambda v: np.sqrt(view.mean_square(v).max(axis=0))


def _largest(values: Array) -> Array:
    """max_k ||v_k||, shape (m,), of vectors (m, K, d)."""
    return np.asarray(np.linalg.norm(values, axis=-1).max(axis=-1))


def _share(distance: Array, bound: float) -> Array:
    """distance / (2 G_b), in [0, 1] also after rounding; zero objectives do not differ."""
    return np.minimum(1.0, distance / (2.0 * bound)) if bound > 0 else np.zeros_like(distance)


def G_b(system: System, definition: Definition | None = None) -> Measured:
    """Bound G_b of the objectives: see the table of :mod:`linsys.heterogeneity.objectives`.

    Infinite for a Gaussian system with eps_b > 0 under the paper's two definitions.

    Raises:
        InputError: an unknown definition, or "weights" for objectives that are not of the form
            Phi(s) theta^i.
    """
    view = view_of(system)
    _, bounded, scale, length = _geometry(view, definition)
    largest = float(length(bounded).max())
    return Measured(scale * largest if largest > 0 else 0.0, 0.0, view.method)


def delta_obj(system: System, definition: Definition | None = None) -> Measured:
    """Objective heterogeneity delta_obj = max_ij (distance of b^i and b^j) / (2 G_b) in [0, 1].

    ``definition="objective"`` is Definition 1, ``"weights"`` Section 4; the module's table has all
    three. For a Gaussian system, Definition 1 is the ratio of the suprema over |s| <= R, the same
    for every R.

    Raises:
        InputError: an unknown definition, or "weights" for objectives that are not of the form
            Phi(s) theta^i.

    >>> import numpy as np
    >>> from linsys import FiniteSystem
    >>> system = FiniteSystem(
    ...     A=np.ones((1, 1, 1)), Phi=np.ones((1, 1, 1)), b=[[[1.0]], [[0.5]]], mu=np.ones((2, 1))
    ... )
    >>> print(delta_obj(system))
    0.25 (exact)
    """
    view = view_of(system)
    values, bounded, _, length = _geometry(view, definition)
    widest = np.array([length(values - one).max() for one in values]).max()
    return Measured(float(_share(widest, float(length(bounded).max()))), 0.0, view.method)


def delta_obj_agent(system: System, definition: Definition | None = None) -> MeasuredArray:
    """delta_obj^i = (distance of b^i and b^0) / (2 G_b), shape (n,) (Lemma D.1).

    b^0 = mean_j b^j; by convexity, at most delta_obj.

    Raises:
        InputError: as :func:`delta_obj`.
    """
    view = view_of(system)
    values, bounded, _, length = _geometry(view, definition)
    distance = length(from_centre(values))
    return MeasuredArray.of(_share(distance, float(length(bounded).max())), method=view.method)


def delta_cen(system: System, definition: Definition | None = None) -> MeasuredArray:
    """delta_cen^i = max{||mu^i - mu^0||_TV, ||bbar^i - bbar^0|| / (2 G_b)} (Section 6.3).

    The distance from agent i to the virtual central agent, in [0, 1], shape (n,). ``definition`` is
    that of
    G_b: with the paper's two, G_b is infinite for a Gaussian system with eps_b > 0 and only the
    distance of environments is left.

    Raises:
        InputError: as :func:`delta_obj`.
    """
    view = view_of(system)
    gap = np.linalg.norm(from_centre(view.system.b_bar), axis=-1)
    environments = view.mixture_divergences[0]
    farther = maximum(environments, _share(gap, float(G_b(view, definition))))
    return MeasuredArray.of(
        farther.value, farther.error, least_certain(environments.method, view.method)
    )

"""What has to be known about a system to measure it; one implementation per kind of system."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import singledispatch
from typing import Any, Literal, Protocol, TypeAlias

from linsys.heterogeneity._measured import Integration, MeasuredArray, Method
from linsys.systems.finite import FiniteSystem
from linsys.systems.gaussian import GaussianSystem
from linsys.validate import Array, InputError, check_choice

__all__ = ["Definition", "Features", "System", "View", "view_of"]

#: "objective": Section 1.2 and Definition 1, suprema of b^i; "weights": Section 4, lengths of
#: theta^i; "second-moment": suprema over states replaced by the largest of the agents' root mean
#: squares.
Definition = Literal["objective", "weights", "second-moment"]
DEFINITIONS = ("objective", "weights", "second-moment")

#: Which feature matrices a quantity is about: A(s) or Phi(s).
Features = Literal["A", "Phi"]
FEATURES = ("A", "Phi")


class View(ABC):
    """A system as the heterogeneity functions see it; they take a view wherever they take a system.

    A view keeps the integrals it has computed, so asking many functions about one view computes
    each of them once.

    Args:
        system: what is measured.
        integration: how integrals without a closed form are computed.
    """

    def __init__(self, system: Any, integration: Integration) -> None:
        self.system = system
        self.integration = integration
        self._stretch: dict[Features, tuple[Array, Method]] = {}

    @property
    def n(self) -> int:
        """Number of agents."""
        return int(self.system.n)

    @property
    def method(self) -> Method:
        """How quantities that need no integration are obtained."""
        return "closed form"

    @property
    @abstractmethod
    def tv_matrix(self) -> MeasuredArray:
        """||mu^i - mu^j||_TV, shape (n, n)."""

    @property
    @abstractmethod
    def chi2_matrix(self) -> MeasuredArray:
        """chi^2(mu^i, mu^j), shape (n, n)."""

    @property
    @abstractmethod
    def mixture_divergences(self) -> tuple[MeasuredArray, MeasuredArray]:
        """||mu^i - mu^0||_TV and chi^2(mu^i, mu^0), shapes (n,)."""

    @property
    @abstractmethod
    def ratio_bound(self) -> MeasuredArray:
        """sup_s rho^i(s), shape (n,)."""

    @abstractmethod
    def feature_bound(self, features: Features) -> float:
        """sup_s ||A(s)|| or sup_s ||Phi(s)||; infinite where there is none."""

    @abstractmethod
    def feature_second_moment(self, features: Features) -> Array:
        """E_{mu^i} A(s)'A(s) or E_{mu^i} Phi(s)'Phi(s), shape (n, d, d)."""

    @abstractmethod
    def _mean_stretch(self, features: Features) -> tuple[Array, Method]:
        """Compute :meth:`mean_stretch`."""

    def mean_stretch(self, features: Features) -> tuple[Array, Method]:
        """Dbar^i = E_{mu^i} sqrt(A(s)'A(s)), shape (R, n, d, d); R = 1 or R scrambles."""
        if features not in self._stretch:
            self._stretch[features] = self._mean_stretch(features)
        return self._stretch[features]

    @abstractmethod
    def objective_values(self) -> tuple[Array, float]:
        """Vectors v^i, shape (n, K, d), and a scale c that carry the suprema.

        sup_s ||sum_i w_i b^i(s)|| = c max_k ||sum_i w_i v^i_k|| for all weights w.
        """

    @abstractmethod
    def mean_square(self, values: Array) -> Array:
        """E_{mu^j} ||f(s)||^2, shape (n, m), of m functions f = sum_i w_i b^i.

        They are given as sum_i w_i v^i, shape (m, K, d), with v^i of :meth:`objective_values`.
        """

    @abstractmethod
    def residual_mean_square(self, x: Array) -> Array:
        """E_{mu^i} ||A(s) x^i - b^i(s)||^2, shape (n,), for x of shape (n, d)."""


class _Convertible(Protocol):
    """A system that can be written as a finite one."""

    def to_finite_system(self) -> FiniteSystem: ...


#: What every function of this package takes.
System: TypeAlias = FiniteSystem | GaussianSystem | View | _Convertible


@singledispatch
def view_of(system: Any, integration: Integration | None = None) -> View:
    """See a system as the heterogeneity functions do, with a chosen accuracy and a memory.

    Args:
        system: a :class:`linsys.FiniteSystem`, a :class:`linsys.GaussianSystem`, a view, or a
            system with a method ``to_finite_system``, as Markov reward processes have. Any other
            kind is made measurable by ``view_of.register``.
        integration: number of points, scrambles and seed where an integral has no closed form.

    Raises:
        InputError: another kind of object.

    >>> from linsys import sample_gaussian_system
    >>> from linsys.heterogeneity import Integration, delta_env_agent
    >>> system = sample_gaussian_system(0, n=4, d=3, delta_env=0.2)
    >>> fine = view_of(system, Integration(points=4096))
    >>> bool((delta_env_agent(fine).error < 1e-4).all())
    True
    """
    if hasattr(system, "to_finite_system"):
        return view_of(system.to_finite_system(), integration)
    raise InputError(
        "`system` must be a FiniteSystem, a GaussianSystem or have a to_finite_system(); "
        f"found {type(system).__name__}"
    )


@view_of.register
def _(system: View, integration: Integration | None = None) -> View:
    return system if integration is None else view_of(system.system, integration)


def chosen_definition(view: View, definition: Definition | None) -> Definition:
    """The definition to use: the paper's where its suprema are finite, else root mean squares."""
    if definition is None:
        bounded = view.feature_bound("A") < float("inf") and view.objective_values()[1] < float(
            "inf"
        )
        return "objective" if bounded else "second-moment"
    check_choice("definition", definition, DEFINITIONS)
    return definition


def objective_weights(view: View) -> Array:
    """theta_*^i of b^i(s) = Phi(s) theta_*^i; an error where objectives have no such form."""
    theta: Array | None = view.system.theta
    if theta is None:
        raise InputError(
            "`theta` must be given for definition 'weights'; found None: "
            "build the system with theta, or use definition 'objective'"
        )
    return theta

"""Algorithms 1 and 2 of OOD-PL: learn a reward over domains, then fine-tune a policy with it.

*Problem* (11), (12). L(phi) = E_T L_PL^T(theta_*^T(phi)), with theta_*^T(phi) the minimiser of the
fine-tuning loss (10) of domain T. Equation (12) prints the preference loss for the inner one.

*Algorithm 1.* In round k a domain T is drawn, the policy restarts from theta_0 and makes D steps of
size alpha on the fine-tuning loss, and phi moves by eta against the derivative of the preference
loss through these steps. The paper's loops run to K and D inclusive, its analysis and ours make K
rounds of D steps.

*Algorithm 2.* A policy is fine-tuned on a new domain with the reward learned.

*Guarantee.* Theorem 1, with constants that do not hold as printed; see the claims on this paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeGuard

from linsys.bilevel import kernels
from linsys.bilevel.arrays import finite, namespace, projected
from linsys.bilevel.domains import TASK, Domain, check_domains, uniforms
from linsys.bilevel.hypergradient import adjoint, first_order, implicit, unrolled
from linsys.bilevel.inner import Path, descend
from linsys.bilevel.oracle import DomainOracle, Oracle
from linsys.rounds import rounds
from linsys.validate import (
    InputError,
    check_choice,
    check_flag,
    check_indexed,
    check_integer,
    check_number,
)

__all__ = ["Adapted", "MetaTraining", "OracleSource", "Report", "Start", "State", "meta_test"]


def _implicit(oracle: Oracle, phi: Any, path: Path, z: Any) -> Any:
    """The implicit derivative where the loop ended, as if that were the optimum."""
    return implicit(oracle, phi, path.theta[-1, :], z)


#: Derivatives of the outer loss that a round can follow.
WAYS = {
    "adjoint": adjoint,
    "unrolled": unrolled,
    "first_order": first_order,
    "implicit": _implicit,
}


class OracleSource(Protocol):
    """A domain of any kind that says what its losses are, such as one of texts."""

    def oracle(
        self, *, beta: float, inner_batch: int | None, outer_batch: int | None, seed: int
    ) -> Oracle:
        """Its losses and samples; the arguments are those of :class:`DomainOracle`."""


class Start(NamedTuple):
    """Where training starts: the reward phi_0 (q,), and where inner loops do, theta_0 (p,)."""

    phi_0: Any
    theta_0: Any


class State(NamedTuple):
    """What training carries from round to round.

    phi: the reward, shape (q,). theta_0: where inner loops start, shape (p,). t: rounds made, k in
    the paper.
    """

    phi: Any
    theta_0: Any
    t: int = 0


class Report(NamedTuple):
    """What happened in a round.

    tasks: numbers of the domains. thetas: theta_{k,D} of each, shape (p,). hypergradient: what phi
    moved along, shape (q,).
    """

    tasks: tuple[int, ...]
    thetas: tuple[Any, ...]
    hypergradient: Any


@dataclass(frozen=True, kw_only=True)
class MetaTraining:
    """Algorithm 1; its oracle is one :class:`linsys.bilevel.Oracle` for each training domain.

    Args:
        alpha: inner step size.
        beta: factor of the reward in (10).
        D: inner steps.
        eta: outer step size.
        K: rounds of :meth:`run`.
        inner_batch: samples of an inner step; the exact expectation with None.
        outer_batch: pairs of an outer step; the exact expectation with None.
        every_task: all domains in every round, their mean, in the place of a sampled one.
        way: the derivative: "adjoint" or "unrolled" (the same numbers), "first_order", "implicit".
        theta_radius: of a ball that inner steps are projected on.
        phi_radius: of a ball that outer steps are projected on.
        seed: of domains and samples; those of round k are functions of (seed, k) alone.

    >>> import numpy as np
    >>> from linsys.bilevel import meta_distribution
    >>> domains = meta_distribution(0).train
    >>> training = MetaTraining(alpha=0.1, beta=2.0, D=20, eta=0.5, K=5)
    >>> oracles = training.oracles(domains)
    >>> state = training.init(Start(np.zeros(4), np.zeros(4)), oracles)
    >>> state, report = training.round(state, oracles)
    >>> state.t, len(report.tasks)
    (1, 1)
    >>> training.run(state, oracles)[-1].t
    6
    """

    alpha: float
    beta: float
    D: int
    eta: float
    K: int
    inner_batch: int | None = 1
    outer_batch: int | None = 1
    every_task: bool = False
    way: str = "adjoint"
    theta_radius: float | None = None
    phi_radius: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for label in ("alpha", "beta", "eta"):
            check_number(label, getattr(self, label), low=0.0, low_open=True)
        check_integer("D", self.D, low=1)
        check_integer("K", self.K, low=1)
        for label in ("theta_radius", "phi_radius"):
            if (radius := getattr(self, label)) is not None:
                check_number(label, radius, low=0.0, low_open=True)
        for label in ("inner_batch", "outer_batch"):
            if (size := getattr(self, label)) is not None:
                check_integer(label, size, low=1)
        check_integer("seed", self.seed, high=(1 << 128) - 1)
        check_flag("every_task", self.every_task)
        check_choice("way", self.way, tuple(WAYS))

    def oracles(self, domains: Sequence[Domain] | Sequence[OracleSource]) -> tuple[Oracle, ...]:
        """What training asks: the losses and samples of every domain, by the settings above.

        Raises:
            InputError: no domain, or something else.
        """
        given: Any = domains
        if not (isinstance(given, Sequence) and any(hasattr(domain, "oracle") for domain in given)):
            check_domains(given)
        settings: dict[str, Any] = {
            "beta": self.beta,
            "inner_batch": self.inner_batch,
            "outer_batch": self.outer_batch,
            "seed": self.seed,
        }
        return tuple(
            DomainOracle(domain=domain, **settings)
            if isinstance(domain, Domain)
            else domain.oracle(**settings)
            for domain in given
        )

    def init(self, start: Start, oracle: Sequence[Oracle]) -> State:
        """The state before the first round.

        Raises:
            InputError: no domain, one without pairs, NaN, parameters that do not fit.
        """
        if not len(check_indexed("oracle", oracle, "a list of the domains' oracles")):
            raise InputError("`oracle` must hold at least one domain's; found none")
        phi_0, theta_0 = start
        finite("phi_0", phi_0)
        finite("theta_0", theta_0)
        for one in oracle:
            one.outer_grads(phi_0, theta_0, None)  # refuses a domain that does not fit
        return State(phi_0, theta_0)

    def round(self, state: State, oracle: Sequence[Oracle]) -> tuple[State, Report]:
        """One outer step.

        Raises:
            InputError: an inner loop or the reward diverges.
        """
        tasks = self.tasks(state, len(oracle))
        outcomes = [self.hypergradient(state, oracle[task]) for task in tasks]
        mean = sum(gradient for gradient, _ in outcomes) / len(outcomes)
        phi, _ = projected(state.phi - self.eta * mean, self.phi_radius)
        if not bool(namespace(phi).all(namespace(phi).isfinite(phi))):
            raise InputError(
                f"the reward must stay finite; found an overflow in round {state.t}: "
                f"lower `eta`, found {self.eta:g}"
            )
        report = Report(tasks, tuple(theta for _, theta in outcomes), mean)
        return state._replace(phi=phi, t=state.t + 1), report

    def run(self, state: State, oracle: Sequence[Oracle]) -> list[State]:
        """The states before, between and after K rounds, K + 1 of them."""
        return [state, *(after for after, _ in rounds(self, oracle, state, self.K))]

    def tasks(self, state: State, domains: int) -> tuple[int, ...]:
        """Which of so many domains take part in the coming round, by their numbers from 0 on."""
        if self.every_task:
            return tuple(range(domains))
        return (int(uniforms(self.seed, TASK, state.t, 0, 1, 1)[0, 0] * domains),)

    def hypergradient(self, state: State, oracle: Oracle) -> tuple[Any, Any]:
        """The derivative (q,) of a domain's preference loss in this round, and theta_{k,D}."""
        path = _descend(
            oracle,
            state.phi,
            state.theta_0,
            alpha=self.alpha,
            D=self.D,
            k=state.t,
            radius=self.theta_radius,
        )
        z = oracle.draw_outer(state.t)
        if self.way == "adjoint" and _compiled(oracle, state.phi, state.theta_0):
            return kernels.adjoint(oracle, state.phi, path, z), path.theta[-1, :]
        return WAYS[self.way](oracle, state.phi, path, z), path.theta[-1, :]


def _compiled(oracle: Oracle, phi: Any, theta: Any) -> TypeGuard[DomainOracle]:
    """Whether the compiled bodies take this."""
    return isinstance(oracle, DomainOracle) and kernels.serves(phi, theta)


def _descend(oracle: Oracle, phi: Any, theta_0: Any, **options: Any) -> Path:
    if _compiled(oracle, phi, theta_0):
        return kernels.descend(oracle, phi, theta_0, **options)
    return descend(oracle, phi, theta_0, **options)


class Adapted(NamedTuple):
    """The policy after Algorithm 2, its steps, and the norm of the expected gradient there."""

    theta: Any
    steps: int
    gradient_norm: float


#: Steps of Algorithm 2 between two looks at the expected gradient.
_BLOCK = 100


def meta_test(
    oracle: Oracle,
    phi: Any,
    theta_0: Any,
    *,
    alpha: float,
    steps: int = 10_000,
    tolerance: float = 1e-10,
    radius: float | None = None,
) -> Adapted:
    """Algorithm 2: fine-tune a policy on a domain with the reward phi; it needs no preferences.

    Every hundred steps it looks at the gradient of the expected loss, and stops at ``tolerance`` or
    after ``steps``. Where it converges it ends at :func:`linsys.bilevel.inner.optimum`.

    Args:
        oracle: of the domain; it decides between exact and stochastic steps.
        phi: the reward.
        theta_0: where the policy starts.
        alpha: the step size.
        steps: at most so many.
        tolerance: of the norm of the expected gradient.
        radius: of a ball that steps are projected on.

    Raises:
        InputError: a loop that diverges.

    >>> import numpy as np
    >>> from linsys.bilevel import meta_distribution
    >>> oracle = DomainOracle(domain=meta_distribution(0).held_out[0], beta=2.0)
    >>> adapted = meta_test(oracle, np.zeros(4), np.zeros(4), alpha=0.3, tolerance=1e-8)
    >>> adapted.steps, adapted.gradient_norm < 1e-8
    (300, True)
    """
    check_integer("steps", steps, low=1)
    check_number("tolerance", tolerance, low=0.0)
    xp, theta, done = namespace(finite("theta_0", theta_0)), theta_0, 0
    while True:
        D = min(_BLOCK, steps - done)
        path = _descend(oracle, phi, theta, alpha=alpha, D=D, k=done // _BLOCK, radius=radius)
        theta, done = path.theta[-1, :], done + D
        norm = float(xp.linalg.vector_norm(oracle.inner_grad(phi, theta, None)))
        if norm <= tolerance or done == steps:
            return Adapted(theta, done, norm)

"""Proposition 1 and Theorem 1 of AffPCL with every constant written out.

The paper states them as O~(.). Its one-step corollaries (E.1, F.1, F.2, G.2), put into Lemma D.4
with the weights that the lemma defines and then into Lemma D.5, give constants; they are computed
here and held against exact errors after t = 2^k rounds (:mod:`experiments.affpcl.theory.joint`).

The corollaries ask for small steps. With alpha^k = ln t / (lambda^k t) that is a condition on t,

    ln t / t <= limit,      limit = min over the modules of (largest alpha^k) lambda^k,

so that the bounds speak of t >= :func:`first_doublings` (limit). Statements return
(measured, bound) of the first agent, shape (B,).
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from experiments.affpcl.theory.joint import affpcl_maps, first_square, run, second_moment_operator
from experiments.affpcl.theory.one_step import PersonalStack
from linsys.linalg import Numbers


class Horizon(NamedTuple):
    """t = 2^doublings, ln t and the common step alpha = ln t / t; each (B,)."""

    doublings: NDArray[np.int64]
    t: Numbers
    log_t: Numbers

    @property
    def alpha(self) -> Numbers:
        """alpha = ln t / t."""
        return np.asarray(self.log_t / self.t)


def horizon(doublings: NDArray[np.int64], like: Numbers) -> Horizon:
    """t = 2^doublings in the arithmetic of ``like`` (B,)."""
    two = 2 + 0 * like
    return Horizon(doublings, two**doublings, doublings * np.log(two))


def first_doublings(limit: Numbers) -> NDArray[np.int64]:
    """The smallest k >= 2 with ln(2^k) / 2^k <= limit, which later k meet as well; shape (B,).

    >>> first_doublings(np.array([0.025, 1e-4])).tolist()
    [8, 17]
    """
    doublings = np.full(limit.shape, 2)
    while True:
        early = np.asarray(horizon(doublings, limit).alpha > limit, dtype=bool)
        if not early.any():
            return doublings
        doublings = doublings + early


class RunStack(PersonalStack):
    """A :class:`PersonalStack` at the start of a run of 2^(first + later) rounds.

    ``dx``, ``dx_c`` and ``dtheta`` are the errors at the start; ``later`` (B,) are the doublings
    beyond the first time at which a statement speaks.
    """

    later: Numbers

    def horizon(self, limit: Numbers) -> Horizon:
        """The time of the statement with this limit of ln t / t."""
        return horizon(first_doublings(limit) + self.later.astype(int), limit)

    def limit(self, own: int | None, centre: int, objective: int | None = 4) -> Numbers:
        """Largest ln t / t with alpha^i <= lambda^i / (own G_A^2), alpha^c <= .., alpha^b <= ...

        None leaves a module out.
        """
        square = self.G_A**2
        result = self.lambda_c**2 / (centre * square)
        if own is not None:
            result = np.minimum(result, self.lambda_agent[:, 0] ** 2 / (own * square))
        if objective is not None:
            result = np.minimum(result, self.lambda_b**2 / objective)
        return np.asarray(result)

    def _maps(
        self, at: Horizon, direction: str, rate: Numbers | None = None
    ) -> tuple[Numbers, Numbers]:
        rates = (self.lambda_agent[:, 0], self.lambda_c, self.lambda_b)
        steps = [at.alpha / (own if rate is None else rate) for own in rates]
        return affpcl_maps(self, (steps[0], steps[1], steps[2]), direction)

    @cached_property
    def lambda_all(self) -> Numbers:
        """The smallest of lambda^i and lambda^b, which is at most lambda^c, shape (B,)."""
        return np.asarray(np.minimum(self.lambda_agent.min(axis=1), self.lambda_b))

    def error(self, at: Horizon, direction: str, rate: Numbers | None = None) -> Numbers:
        """E||x_t^i - x_*^i||^2 of the first agent, exact, shape (B,).

        alpha^k lambda^k = ln t / t, or with a common ``rate`` alpha^k rate = ln t / t.
        """
        shares, single = self._maps(at, direction, rate)
        operator = second_moment_operator(self.mu, shares, single, self.copies[:, 0])
        start = np.concatenate([self.dx[:, 0], self.dx_c, self.dtheta, self._one], axis=1)
        return first_square(run(operator, start, at.doublings), self.d)

    def central_error(self, at: Horizon) -> Numbers:
        """E||x_t^c - x_*^c||^2 of (4), exact, shape (B,)."""
        keep = np.r_[self.d : 2 * self.d, 3 * self.d]
        shares = self._maps(at, "objective")[0][..., keep, :][..., keep]
        operator = second_moment_operator(self.mu, shares, copies=self.copies[:, 0])
        start = np.concatenate([self.dx_c, self._one], axis=1)
        return first_square(run(operator, start, at.doublings), self.d)

    @property
    def _one(self) -> Numbers:
        return np.asarray(1 + 0 * self.dx_c[:, :1])


class Constants(NamedTuple):
    """What a one-step bound of x^i says, and how far its step may go."""

    own: int
    centre: int
    objective: int
    rate: int
    affinity: int


#: Corollary G.2: alpha^2 (64 G_A^2 .. + 96 .. + sigma^2 (144 / n + 288 deltatilde)).
PAPER = Constants(own=40, centre=64, objective=96, rate=144, affinity=288)
#: The sharper one-step bound for a known density ratio.
SHARPER = Constants(own=4, centre=32, objective=32, rate=8, affinity=72)


def theorem1_weights(
    stack: RunStack, alpha: Numbers, constants: Constants, direction: str
) -> tuple[Numbers, Numbers]:
    """Lemma D.4's weights of x^c and theta^c at the common step alpha, each (B,)."""
    square = stack.lambda_agent[:, 0] ** 2
    centre = 2 * constants.centre * alpha * stack.G_A**2 / square
    objective = 2 * constants.objective * alpha / square
    if direction == "estimate":
        objective = objective + 16 * centre / stack.lambda_c**2
    return np.asarray(centre), np.asarray(objective)


def theorem1(
    stack: RunStack,
    direction: str = "objective",
    constants: Constants = PAPER,
    effective: str = "printed",
) -> rc.Sides:
    """E||x_t^i - x_*^i||^2 <= (L_0 + C ln t) / t, with known density ratio.

    L_0 = ||dx_0^i||^2 + w^c ||dx_0^c||^2 + w^b ||dtheta_0||^2; C is that of :func:`noise`.
    """
    at = _theorem1_horizon(stack, direction, constants)
    centre, objective = theorem1_weights(stack, at.alpha, constants, direction)
    start = stack.own_error[:, 0] + centre * (stack.dx_c**2).sum(axis=1)
    start = start + objective * stack.objective_error[:, 0]
    slope = noise(stack, direction, constants, effective)
    return stack.error(at, direction), (start + slope * at.log_t) / at.t


def noise(
    stack: RunStack,
    direction: str = "objective",
    constants: Constants = PAPER,
    effective: str = "printed",
) -> Numbers:
    """C = (sigma / lambda^i)^2 (rate / n + affinity deltatilde^i), shape (B,).

    With what x^c and theta^c add, rate is 304 for (22-1) with the paper's constants, 72 with the
    sharper ones, and 304 + min{512 / lambda_b^2, 102.4 (lambda^i / (lambda_b lambda_c))^2} for
    (22-2).
    """
    slope = stack.lambda_agent[:, 0]
    rate: Numbers = (304 if constants is PAPER else 72) + 0 * stack.lambda_b
    if direction == "estimate":
        paper = 512 * (slope / (stack.lambda_b * stack.lambda_c)) ** 2 / 5
        rate = rate + np.minimum(512 / stack.lambda_b**2, paper)
    affinity = constants.affinity * stack.effective(effective)[:, 0]
    return np.asarray(stack.sigma**2 * (rate * stack.rate[:, 0] + affinity) / slope**2)


def noise_of_weights(
    stack: RunStack, direction: str = "objective", constants: Constants = PAPER
) -> rc.Sides:
    """C as Lemma D.4's weights give it, against :func:`noise`; both with the safe affinity.

    It is sigma^2 times

        (rate / n + affinity deltatilde^i) / (lambda^i)^2
            + (v w^c / lambda_c^2 + 2 w^b / lambda_b^2) / n

    with v = 2 for (22-1) and 4 for (22-2).
    """
    at = _theorem1_horizon(stack, direction, constants)
    factor = 2 if direction == "objective" else 4
    centre, objective = theorem1_weights(stack, at.alpha, constants, direction)
    rate = stack.rate[:, 0]
    own = constants.rate * rate + constants.affinity * stack.effective("safe")[:, 0]
    own = own / stack.lambda_agent[:, 0] ** 2
    modules = factor * centre / stack.lambda_c**2 + 2 * objective / stack.lambda_b**2
    measured = np.asarray(stack.sigma**2 * (own + modules * rate))
    return measured, noise(stack, direction, constants, "safe")


def theorem1_common(stack: RunStack) -> rc.Sides:
    """Section 5's form, corrected, with the same step ln t / (lambda t) in all modules.

    E||x_t^i - x_*^i||^2 <= L_0 / t + (sigma / lambda)^2 (ln t / t) (247 / n + 288 (min{1, nu'
    delta_env} + min{1, nu' delta_obj})), lambda the smallest of lambda^i and lambda^b, where
    ln t / t is at most lambda^2 / (40 G_A^2) and lambda^2 / 4. L_0 = ||dx_0^i||^2 + (ln t / t)
    (128 G_A^2 ||dx_0^c||^2 + 192 ||dtheta_0||^2) / lambda^2.
    """
    square = stack.lambda_all**2
    at = stack.horizon(np.minimum(square / (40 * stack.G_A**2), square / 4))
    nu = np.maximum(stack.nu, stack.nu_Phi)
    apart = np.minimum(1, nu * stack.delta_env) + np.minimum(1, nu * stack.delta_obj)
    central = 128 * stack.G_A**2 * (stack.dx_c**2).sum(axis=1) + 192 * stack.objective_error[:, 0]
    start = stack.own_error[:, 0] + at.alpha * central / square
    slope = stack.sigma**2 * (247 * stack.rate[:, 0] + 288 * apart) / square
    return stack.error(at, "objective", stack.lambda_all), (start + slope * at.log_t) / at.t


def _theorem1_horizon(stack: RunStack, direction: str, constants: Constants) -> Horizon:
    return stack.horizon(stack.limit(constants.own, 4 if direction == "objective" else 8))


def theorem1_as_printed(stack: RunStack, *, any_t: bool) -> rc.Sides:
    """E||x_t^i - x_*^i||^2 <= 592 sigma^2 ln t / ((lambda^i)^2 t) max{1/n, deltatilde^i}.

    From x_0 = 0 and theta_0 = 0. Either at every t = 2^(2 + later), or only where the step size
    meets its condition.
    """
    limit = stack.limit(40, 4)
    at = horizon(2 + stack.later.astype(int), limit) if any_t else stack.horizon(limit)
    noise = np.maximum(stack.rate[:, 0], stack.effective("safe")[:, 0])
    slope = stack.lambda_agent[:, 0]
    bound = 592 * stack.sigma**2 * noise * at.alpha / slope**2
    return stack.error(at, "objective"), bound


def independent_bound(stack: RunStack, direction: str = "objective") -> Numbers:
    """What the same argument gives a single agent at the same time: (||dx_0||^2 + C ln t) / t.

    C = 2 sigma^2 / (lambda^i)^2, as alpha <= lambda / (4 G_A^2) gives E||dx_+||^2 <=
    (1 - (3/2) alpha lambda) ||dx||^2 + 2 alpha^2 sigma^2.
    """
    at = _theorem1_horizon(stack, direction, PAPER)
    noise = 2 * stack.sigma**2 / stack.lambda_agent[:, 0] ** 2
    return np.asarray((stack.own_error[:, 0] + noise * at.log_t) / at.t)

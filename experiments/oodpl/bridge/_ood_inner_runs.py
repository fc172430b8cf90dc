"""What ``bridge/ood_inner`` computes: hypergradients of loops of D steps, and that of the minimum.

The inner problem of an instance in three cases, the loops on it, and the minimum by Newton's method
with conjugate gradients, which tell the least curvature that they meet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

import ratecheck as rc
from experiments.bridge._models import threads
from experiments.oodpl._domains import columns
from experiments.oodpl.bridge._ood import OneBetaConfig
from experiments.oodpl.bridge._ood_texts import domains
from linsys import InputError
from linsys.bilevel import Path, adjoint, descend, first_order

if TYPE_CHECKING:
    from lora_bridge.bilevel import TextDomain, TextOracle

LAST, LORA, BARE = "last layer", "LoRA", "LoRA, no ridge"
CASES = (LAST, LORA, BARE)
#: Loops of so many eighths of 8 tau steps.
EIGHTHS = (1, 2, 4, 8, 12, 16, 20, 24)


@dataclass(frozen=True, kw_only=True)
class OODInnerConfig(OneBetaConfig):
    """The set-up."""

    ridge: float = rc.param(0.2, above=0.0, doc="rho / Lambda.")
    step: float = rc.param(
        1.0, above=0.0, below=2.0, doc="alpha (Lambda + rho) on the last layer, below 2."
    )
    lora_step: float = rc.param(
        0.25, above=0.0, below=2.0, doc="alpha (Lambda + rho) for LoRA, below 2."
    )
    size: float = rc.param(0.2, above=0.0, doc="standard deviation of the reward's score head.")
    newton: int = rc.param(8, low=1, doc="steps of Newton's method.")
    cg: int = rc.param(
        80, low=1, doc="steps of conjugate gradients in each step of Newton's method."
    )
    rank: int = 4
    prompts: int = 6
    tests: int = 1
    instances: int = 8
    dtype: Literal["float32", "float64", "bfloat16"] = "float64"

    def __post_init__(self) -> None:
        super().__post_init__()
        if "lm_head" not in self.targets:
            raise InputError(f"`targets` must hold lm_head, the last layer; found {self.targets}")

    @property
    def tau(self) -> float:
        """Steps in which the ridge's curvature alone contracts by e, on the last layer."""
        return float(-1.0 / np.log1p(-self.step * self.ridge / (1.0 + self.ridge)))

    @property
    def unit(self) -> int:
        """8 tau steps, a multiple of 8."""
        return int(8 * np.ceil(self.tau))


def compute(config: OODInnerConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Errors of the adjoint and sizes of the first-order derivative for all D."""
    with threads(context):
        return columns(rows(config, str(block["case"]), int(block["instance"])))


class Problem(NamedTuple):
    """One case of one instance.

    oracle: with the ridge of the case. phi, theta_0: the reward, and where loops start. top:
    Lambda. rho: the ridge of the other cases where this one has none. alpha: the step size.
    """

    oracle: TextOracle
    phi: Any
    theta_0: Any
    top: float
    rho: float
    alpha: float


def rows(config: OODInnerConfig, case: str, instance: int) -> list[dict[str, Any]]:
    """What is measured of a case, one row for every D."""
    drawn = domains(config, instance)
    made = _problem(config, drawn.known[0], case, instance)
    oracle, phi, unit = made.oracle, made.phi, config.unit
    path = descend(oracle, phi, made.theta_0, alpha=made.alpha, D=3 * unit)
    loops = {D: _prefix(path, D) for D in (e * unit // 8 for e in EIGHTHS)}
    found = {D: adjoint(oracle, phi, loop) for D, loop in loops.items()}
    sums = {D: first_order(oracle, phi, loop) for D, loop in loops.items()}
    end = path.theta[-1, :]
    if case == BARE:  # there is no minimum to compare with
        least, exact = np.inf, found[3 * unit]  # no curvature is looked for
    else:
        end, least, exact = _minimum(config, oracle, phi, end)
    slope, first = (oracle.inner_grad(phi, theta, None) for theta in (end, made.theta_0))
    second, before = sums[3 * unit] - sums[2 * unit], sums[2 * unit] - sums[unit]
    return [
        {
            "D": D,
            "error": float((found[D] - exact).norm() / exact.norm()),
            "first": float(sums[D].norm() / exact.norm()),
            "same": float(second.norm() / before.norm()),
            "least": least / made.rho,
            "left": float(slope.norm() / first.norm()),
            "alpha": made.alpha,
            "top": made.top,
            "p": oracle.models.p,
            "what": drawn.name,
        }
        for D in loops
    ]


def _problem(config: OODInnerConfig, first: TextDomain, case: str, instance: int) -> Problem:
    import torch

    domain = _adapted(config, first, case)
    theta_0, phi = domain.models.theta(), domain.models.phi()
    generator = torch.Generator().manual_seed(config.derive("reward", instance) % 2**32)
    noise = torch.randn(domain.models.width, generator=generator, dtype=torch.float64)
    phi[domain.models.reward.size :] = config.size * noise.to(phi)
    if case == LAST:
        top = _bound(domain, phi, config.beta)
    else:
        top = _largest(domain.oracle(beta=config.beta), phi, theta_0)
    rho = config.ridge * top
    ridge = 0.0 if case == BARE else rho
    domain = replace(domain, models=replace(domain.models, ridge=ridge))
    alpha = (config.step if case == LAST else config.lora_step) / (top + rho)
    return Problem(domain.oracle(beta=config.beta), phi, theta_0, top, rho, alpha)


def _adapted(config: OODInnerConfig, domain: TextDomain, case: str) -> TextDomain:
    """The domain with the policy of a case; the up factors away from zero for LoRA."""
    import torch

    policy = domain.models.policy
    if case == LAST:
        bank = policy.bank.with_options(targets=["lm_head"])
        m = bank.modules.shapes[0][0]
        rng = np.random.default_rng(config.derive("last", domain.name))
        start = torch.from_numpy(bank.modules.start(config.rank, rng)).to(policy.start)
        policy = replace(policy, bank=bank, start=start, columns=torch.arange(bank.width) < m)
    return replace(domain, models=replace(domain.models, policy=policy))


def _prefix(path: Path, D: int) -> Path:
    """The first D steps."""
    return path._replace(
        theta=path.theta[: D + 1], samples=path.samples[:D], shrink=path.shrink[:D]
    )


def _bound(domain: TextDomain, phi: Any, beta: float) -> float:
    """Lambda of the last layer, for every theta."""
    import torch

    policy, (x, y) = domain.models.policy, np.nonzero(domain.law)
    W = domain.law[x, y] * np.exp(domain.reward(phi)[x, y] / beta)
    batch = {name: value[None] for name, value in domain.batch(x, y).items()}

    def inside(output: Any, flat: Any) -> Any:
        return output.hidden * (flat["target_places"] >= 0)[..., None]

    h = policy.bank.read(policy.start[None], batch, inside)[0]
    A = policy.start[:, policy.bank.modules.shapes[0][0] :]
    seen = policy.bank.scaling * h.to(A) @ A.mT  # (samples, tokens, r)
    total = torch.einsum("s,stj,stk->jk", torch.from_numpy(W).to(seen), seen, seen)
    return 0.5 * float(torch.linalg.eigvalsh(total)[-1])


def _largest(oracle: TextOracle, phi: Any, theta: Any) -> float:
    """The Hessian's largest eigenvalue, by 30 power iterations."""
    v = oracle.inner_grad(phi, theta, None)
    for _ in range(30):
        v = v / v.norm()
        v = oracle.inner_hvp(phi, theta, None, v)
    return float(v.norm())


class Solved(NamedTuple):
    """H^-1 v by conjugate gradients, and the least curvature on the way."""

    solution: Any
    least: float


def _solve(oracle: TextOracle, phi: Any, theta: Any, v: Any, steps: int) -> Solved:
    solution, residual, direction = 0.0 * v, v, v
    square, least = float(v @ v), np.inf
    target = 1e-26 * square
    for _ in range(steps):
        turned = oracle.inner_hvp(phi, theta, None, direction)
        curvature = float(direction @ turned)
        least = min(least, curvature / float(direction @ direction))
        if curvature <= 0.0 or square <= target:
            break
        length = square / curvature
        solution, residual = solution + length * direction, residual - length * turned
        previous, square = square, float(residual @ residual)
        direction = residual + (square / previous) * direction
    return Solved(solution, least)


def _minimum(config: OODInnerConfig, oracle: TextOracle, phi: Any, theta: Any) -> Any:
    """theta_*, the least curvature met there, and the derivative of (38)."""
    for _ in range(config.newton):
        slope = oracle.inner_grad(phi, theta, None)
        if float(slope.norm()) < 1e-13:
            break
        step, least = _solve(oracle, phi, theta, slope, config.cg)
        if least <= 0.0:
            break
        theta = theta - step
    direct, v = oracle.outer_grads(phi, theta, None)
    solved, least = _solve(oracle, phi, theta, v, config.cg)
    return theta, least, direct - oracle.mixed_vjp(phi, theta, None, solved)

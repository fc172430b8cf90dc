"""Error of the hypergradient against the number D of inner steps, on a language model.

Problem: OOD-PL's inner loop fine-tunes a policy theta from theta_0 on (10), -log pi of a domain's
data weighted by exp(r_phi / beta), and its outer loop needs the derivative of the preference loss
L_PL (7) at the end by the reward's phi. Here the domain is the first generated one (or that of the
user's file) with its whole data in every inner step, and the reward is random. Measured is the
error of d L_PL(theta_D)/d phi as a derivative of L_PL(theta_*), relative to that.

Algorithm: D steps of gradient descent on (10) with a ridge rho / 2 ||theta - theta_0||^2, and the
derivative through them by the adjoint, or by first order. theta_* is found by Newton's method from
the end of the longest loop, the derivative there by conjugate gradients from (38).

Cases: *last layer*: theta are the up factors B of the vocabulary's matrix, A fixed: log pi is
concave in B, the sum over tokens of exponential families, and with the ridge the inner loss is
strongly convex (and (10) alone has no minimum: the logits of tokens that no answer has fall for
ever). *LoRA*: all of A and B of all target modules, with the same ridge: nothing is convex, and
B A = (B M)(M^-1 A) for every invertible M makes (10) itself flat in as many directions. *LoRA, no
ridge*: (10) as it is.

alpha is ``step`` / (Lambda + rho). On the last layer Lambda bounds the Hessian of (10) wherever
theta is: that of a token's -log softmax by the logits is at most 1/2 (Popoviciu, for numbers sqrt 2
apart), so that Lambda is half of s^2 times the largest eigenvalue of sum W (A h)(A h)', with s the
factor of B A and h the hidden states at the answers' tokens. For LoRA there is no such bound, as
curvature grows with A and B: Lambda is the Hessian's largest eigenvalue at theta_0 then, by power
iteration, alpha has ``lora_step``, and with ``lora_step`` = 1 loops jump about instead of
descending.

Derived (experiments/oodpl/rates/rate_inner.py), with tau = -1 / log(1 - alpha rho) steps:

- Last layer: theta_D contracts by 1 - alpha lambda_min(H) per step, or faster, with lambda_min(H)
  at least rho: it is the curvature of the ridge, to which the data adds in the directions that they
  tell. The hypergradient's error is D times this, so that from 8 tau to 12 tau -tau log of the
  measured factor is at least 1 - log(1.5) / 4. (The window: after 8 tau the squares of theta_D -
  theta_* are below e^-8; and a model with a norm in single precision, as Llama's, has errors of
  1e-7 in its rewards' gradients, which e^-12 is a hundred times above.)
- First order: with all matrices near theta_* alike, it adds the same vector in every step, so that
  its size grows like D where there are contractions at all: from 8 tau on, exponent 1.
- LoRA: no statement. Near a minimum with a positive definite Hessian the same law holds with that
  Hessian's least eigenvalue; whether descent reaches one is measured: the least Rayleigh quotient
  that Newton's conjugate gradients met, and the gradient at the end.

Measured with the built-in model, eight instances. Last layer: -tau log of the factor is 0.98 to
1.11, and the error ends at 3e-8 to 5e-8, that of single-precision norms. LoRA with the ridge: in
two instances Newton's method goes on from the loop's end to a stationary point, where conjugate
gradients meet curvatures down to 0.38 and 0.56 of the ridge's, as (10) bends the other way there;
D = 144 leaves 67 % and 3 % of error. In the other six they meet negative curvature, Newton's method
stops with 4 to 7 % of the first gradient left, and there is nothing to compare with (the error is
shown all the same). So the rate on adapters is set by a curvature that nothing bounds from below,
and no D can be named in advance.

On SmolLM2-135M-Instruct with the laptop profile (three instances, rho = Lambda, adapters of the
last layer and the head): on the head alone -tau log of the factor is 1.0003 to 1.0012, the least
curvature that is met is the ridge's, and the error falls to 1e-11 in 24 steps. With all adapters
and the ridge no instance reaches a stationary point: with ten conjugate gradients a step Newton's
method leaves the loop's end and meets negative curvature, -0.02 to -0.20 of the ridge's. Without
the ridge gradients grow five-fold in the 24 steps.

References: OOD-PL, Lemmas 3 to 5 and Theorem 1; experiments/oodpl/authors.md.

The picture shows geometric means over instances with their range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

import ratecheck as rc
from experiments.bridge.models import Values, threads
from experiments.bridge.readings import extent
from experiments.oodpl._domains import columns
from experiments.oodpl.bridge._ood import LAPTOP, OneBetaConfig
from experiments.oodpl.bridge._ood_texts import DomainSetup
from linsys import InputError
from linsys.bilevel import Path, descend

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lora_bridge.bilevel import TextDomain, TextOracle

LAST, LORA, BARE = "last layer", "LoRA", "LoRA, no ridge"
CASES = (LAST, LORA, BARE)
#: Lengths of the loops, in eighths of 8 tau steps.
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
    """The measured quantities of a case, one row for every D."""
    drawn = DomainSetup(config).domains(instance)
    problem = _problem(config, drawn.known[0], case, instance)
    oracle, phi, unit = problem.oracle, problem.phi, config.unit
    path = descend(oracle, phi, problem.theta_0, alpha=problem.alpha, D=3 * unit)
    lengths = [e * unit // 8 for e in EIGHTHS]
    gradients, sums = hypergradients(oracle, phi, path, lengths)
    end = path.theta[-1, :]
    if case == BARE:  # there is no minimum to compare with
        least, exact = np.inf, gradients[3 * unit]  # no curvature is computed
    else:
        end, least, exact = _minimum(config, oracle, phi, end)
    slope, first = (oracle.inner_grad(phi, theta, None) for theta in (end, problem.theta_0))
    second, before = sums[3 * unit] - sums[2 * unit], sums[2 * unit] - sums[unit]
    return [
        {
            "D": D,
            "error": float((gradients[D] - exact).norm() / exact.norm()),
            "first": float(sums[D].norm() / exact.norm()),
            "same": float(second.norm() / before.norm()),
            "least": least / problem.rho,
            "left": float(slope.norm() / first.norm()),
            "alpha": problem.alpha,
            "top": problem.top,
            "p": oracle.models.p,
            "what": drawn.name,
        }
        for D in lengths
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


def hypergradients(
    oracle: TextOracle, phi: Any, path: Path, lengths: Sequence[int]
) -> tuple[dict[int, Any], dict[int, Any]]:
    """The adjoint and the first-order derivative of loops that are the first D steps of a path.

    As :mod:`linsys.bilevel` has them for one loop, on the whole data; at every theta once for all.
    """
    import torch

    adjoint, plain = (torch.zeros(0, oracle.models.p).to(phi) for _ in range(2))
    total, begun = torch.zeros(2, 0, oracle.models.q).to(phi), list[int]()
    for t in range(max(lengths) - 1, -1, -1):
        if t + 1 in lengths:
            direct, v = oracle.outer_grads(phi, path.theta[t + 1, :], None)
            adjoint, plain = (torch.cat([part, v[None]]) for part in (adjoint, plain))
            total = torch.cat([total, direct.expand(2, 1, -1)], 1)
            begun.append(t + 1)
        at = (phi, path.theta[t, :], None, torch.cat([adjoint, plain]))
        turned = oracle.inner_hvp(*at)[: len(begun)]
        total = total - path.alpha * oracle.mixed_vjp(*at).reshape(total.shape)
        adjoint = adjoint - path.alpha * turned
    first, second = (dict(zip(begun, part, strict=True)) for part in total)
    return first, second


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
    activations = policy.bank.scaling * h.to(A) @ A.mT  # (samples, tokens, r)
    total = torch.einsum(
        "s,stj,stk->jk", torch.from_numpy(W).to(activations), activations, activations
    )
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


LOOKS = {
    LAST: rc.Look("#D55E00", "o"),
    LORA: rc.Look("#0072B2", "s"),
    BARE: rc.Look("#777777", "^"),
}
ERROR, FIRST = "adjoint: relative error", "first order: size"
#: The share of a mode that remains after 8 tau steps, times D / tau; twice, because the change of
#: its shape adds as much.
LEFT = 2 * 8 * np.exp(-8.0)


def grid(table: rc.Table, case: str, value: str) -> Values:
    """A number by D, (instances, D)."""
    return np.asarray(table.where(case=case).grid(value, "instance", "D"))


def analyse(config: OODInnerConfig, table: rc.Table) -> rc.Analysis:
    """Errors and sizes, and what is derived of them."""
    D, series = table.unique("D"), []
    for value, panel in (("error", ERROR), ("first", FIRST)):
        for case in CASES:
            end = -1 if case == BARE and value == "error" else None  # the last is 0 by definition
            values = grid(table, case, value)[:, :end]
            middle = np.exp(np.log(values).mean(0))
            series.append(rc.Series(case, panel, D[:end], middle, values.min(0), values.max(0)))
    return rc.Analysis(series, _checks(config, table), _notes(config, table))


def _checks(config: OODInnerConfig, table: rc.Table) -> list[rc.Check]:
    D = list(table.unique("D"))
    first, last = D.index(config.unit), D.index(3 * config.unit // 2)
    error = grid(table, LAST, "error")
    rate = np.log(error[:, first] / error[:, last]) / (D[last] - D[first]) * config.tau
    same = grid(table, LAST, "same")[:, 0]
    return [
        rc.every(
            rc.at_least(
                f"{LAST}: -tau log of the error's factor per step, {D[first]} to {D[last]} steps",
                "1 - log(1.5) / 4 or more",
                extent(rate),
                1.0 - np.log(1.5) / 4.0,
                remark="1 where the ridge's curvature is the least that is seen",
            )
        ),
        rc.every(
            rc.within(
                f"{LAST}, first order: last increment over the one before",
                1.0,
                extent(same),
                1.0 - LEFT,
                1.0 + LEFT,
                remark="the same vector is added in every step",
            )
        ),
    ]


def _notes(config: OODInnerConfig, table: rc.Table) -> list[str]:
    D, lines = table.unique("D"), []
    for case in CASES:
        part = table.where(case=case)
        errors = grid(table, case, "error").mean(0)
        shown = ", ".join(f"{d}: {e:.2g}" for d, e in zip(D, errors, strict=True))
        least = part["least"]
        curved = (
            f"least curvature met {least.min():.3g} to {least.max():.3g} times rho; "
            if np.isfinite(least).all()
            else "compared with the longest loop, as (10) alone may have no minimum; "
        )
        lines.append(
            f"{case} ({part['p'][0]} numbers, mean Lambda {part['top'].mean():.3g}, mean alpha "
            f"{part['alpha'].mean():.3g}): {curved}gradient at the end at most "
            f"{part['left'].max():.2g} of the first one; mean error by D: {shown}"
        )
    return [f"{table['what'][0]}; {config.instances} instances, seed {config.seed}", *lines]


def draw(config: OODInnerConfig, analysis: rc.Analysis) -> Figure:
    """Errors on a logarithmic axis, sizes on two."""
    figure, axes = rc.panels(analysis.series, columns=2, width=3.2, share_y=False)
    for s in analysis.series:
        look, ax = LOOKS[s.name], axes[s.panel]
        ax.plot(s.x, s.y, color=look.colour, marker=look.marker, label=s.name)
        ax.fill_between(s.x, np.asarray(s.lo), np.asarray(s.hi), color=look.colour, alpha=0.15)
    for ax in axes.values():
        ax.set_xlabel("inner steps D")
        ax.set_yscale("log")
    axes[FIRST].set_xscale("log")
    D = np.array([float(config.unit), 1.5 * config.unit])
    level = max(
        float(s.y[list(s.x).index(config.unit)])
        for s in analysis.series
        if s.name == LAST and s.panel == ERROR
    )
    law = level * (D / D[0]) * np.exp(-(D - D[0]) / config.tau)
    axes[ERROR].plot(D, law, "k:", label=r"$D (1 - \alpha \rho)^D$")
    axes[ERROR].legend()
    return figure


EXPERIMENT = rc.Experiment(
    id="bridge/ood_inner",
    title="Error of the hypergradient against the inner steps on a language model",
    source="Lemmas 3 to 5",
    kind="rate",
    variable="D",
    profiles={
        "quick": OODInnerConfig(),
        "laptop": OODInnerConfig(
            **{
                **LAPTOP,
                "targets": ("lm_head", "o_proj", "down_proj"),
                "layers": 1,
                "prompts": 2,
                "tests": 1,
            },
            ridge=1.0,
            step=1.3,
            size=0.03,  # r = s . h is no larger than with the built-in model, whose h is shorter
            cg=10,
            newton=3,
        ),
        "paper": OODInnerConfig(prompts=40, rank=8, ridge=0.1, cg=200, device="cuda", at_once=256),
    },
    blocks=rc.Grid({"case": CASES, "instance": "instances"}),
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)

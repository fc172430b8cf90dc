r"""Error of the hypergradient against the number D of inner steps, on a language model.

Problem: the first generated domain of ``_ood`` (or of the user's file), its whole fine-tuning data
in every inner step, a random reward, and the error of d L_PL(theta_D)/d phi as a derivative of
L_PL(theta_*), relative to that. Algorithm: D steps of gradient descent on (10) with a ridge rho / 2
||theta - theta_0||^2, and the derivative through them by the adjoint, or by first order. theta_* is
found by Newton's method from the end of the longest loop, the derivative there by conjugate
gradients from (38).

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

Derived (experiments/ood/rate_inner), with tau = -1 / log(1 - alpha rho) steps:

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

Measured with the built-in model. Last layer: -tau log of the factor is 1.04 to 1.11 in three
instances, and the error ends at 4e-8, that of single-precision norms. LoRA with the ridge: in two
instances Newton's method goes on from the loop's end to a stationary point, where conjugate
gradients meet curvatures down to 0.38 and 0.56 of the ridge's, as (10) bends the other way there;
D = 144 leaves 67 % and 3 % of error. In the third they meet negative curvature, Newton's method
stops with 4 % of the first gradient left, and there is nothing to compare with (its error is shown
all the same). So the rate on adapters is set by a curvature that nothing bounds from below, and no
D can be named in advance.

References: OOD-PL, Lemmas 3 to 5 and Theorem 1; docs/ood-audit.md.

The picture shows geometric means over instances with their range.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from experiments import _rates
from experiments._model import Analysis, Block, Check, Columns, Context, Experiment, Series
from experiments._plots import Look, panels
from experiments._table import Table
from experiments.bridge._models import threads
from experiments.bridge._ood import OODConfig, Values
from experiments.ood._domains import columns
from linsys import InputError
from linsys._validate import number, whole
from linsys.bilevel import Path, adjoint, descend, first_order

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lora_bridge.bilevel import TextDomain
    from lora_bridge.bilevel_oracle import TextOracle

LAST, LORA, BARE = "last layer", "LoRA", "LoRA, no ridge"
CASES = (LAST, LORA, BARE)
LOOKS = {
    LAST: Look("#D55E00", "o"),
    LORA: Look("#0072B2", "s"),
    BARE: Look("#777777", "^"),
}
ERROR, FIRST = "adjoint: relative error", "first order: size"
#: Loops of so many eighths of 8 tau steps.
EIGHTHS = (1, 2, 4, 8, 12, 16, 20, 24)
#: What is left of a mode after 8 tau steps, times D / tau, and as much for the change of its shape.
LEFT = 2 * 8 * np.exp(-8.0)


@dataclass(frozen=True, kw_only=True)
class OODInnerConfig(OODConfig):
    """The set-up.

    Attributes:
        ridge: rho / Lambda.
        step, lora_step: alpha (Lambda + rho), below 2: last layer, LoRA.
        size: standard deviation of the reward's score head.
        newton, cg: steps of Newton's method, and of conjugate gradients in each.
    """

    ridge: float = 0.2
    step: float = 1.0
    lora_step: float = 0.25
    size: float = 0.2
    newton: int = 8
    cg: int = 80
    rank: int = 4
    prompts: int = 6
    tests: int = 1
    instances: int = 3
    dtype: Any = "float64"

    def __post_init__(self) -> None:
        super().__post_init__()
        number("ridge", self.ridge, low=0.0, low_open=True)
        for name in ("step", "lora_step"):
            number(name, getattr(self, name), low=0.0, high=2.0, low_open=True, high_open=True)
        number("size", self.size, low=0.0, low_open=True)
        for name in ("newton", "cg"):
            whole(name, getattr(self, name), low=1)
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


def blocks(config: OODInnerConfig) -> list[Block]:
    """One case of one instance at a time."""
    return [{"case": case, "instance": i} for case in CASES for i in range(config.instances)]


def compute(config: OODInnerConfig, block: Block, context: Context) -> Columns:
    """Errors of the adjoint and sizes of the first-order derivative for all D."""
    with threads(context):
        return columns(_rows(config, str(block["case"]), int(block["instance"])))


def _rows(config: OODInnerConfig, case: str, instance: int) -> list[dict[str, Any]]:
    import torch

    drawn = config.draw(instance)
    domain = _adapted(config, drawn.known[0], case)
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
    oracle = domain.oracle(beta=config.beta)
    alpha = (config.step if case == LAST else config.lora_step) / (top + rho)
    path = descend(oracle, phi, theta_0, alpha=alpha, D=3 * config.unit)
    loops = {D: _prefix(path, D) for D in (e * config.unit // 8 for e in EIGHTHS)}
    found = {D: adjoint(oracle, phi, loop) for D, loop in loops.items()}
    sums = {D: first_order(oracle, phi, loop) for D, loop in loops.items()}
    end = path.theta[-1, :]
    if case == BARE:  # there is no minimum to compare with
        least, exact = np.inf, found[3 * config.unit]  # no curvature is looked for
    else:
        end, least, exact = _minimum(config, oracle, phi, end)
    slope = oracle.inner_grad(phi, end, None)
    first = oracle.inner_grad(phi, theta_0, None)
    u = config.unit
    same = float((sums[3 * u] - sums[2 * u]).norm() / (sums[2 * u] - sums[u]).norm())
    return [
        {
            "D": D,
            "error": float((found[D] - exact).norm() / exact.norm()),
            "first": float(sums[D].norm() / exact.norm()),
            "same": same,
            "least": least / rho,
            "left": float(slope.norm() / first.norm()),
            "alpha": alpha,
            "top": top,
            "p": domain.models.p,
            "what": drawn.name,
        }
        for D in loops
    ]


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


def grid(table: Table, case: str, value: str) -> Values:
    """A number by D, (instances, D)."""
    return np.asarray(table.where(case=case).grid(value, "instance", "D"))


def analyse(config: OODInnerConfig, table: Table) -> Analysis:
    """Errors and sizes, and what is derived of them."""
    D, series = table.unique("D"), []
    for value, panel in (("error", ERROR), ("first", FIRST)):
        for case in CASES:
            values = grid(table, case, value)
            ends = slice(0, len(D) - (case == BARE and value == "error"))  # the last is 0 by name
            low, middle, high = (
                values.min(0),
                np.exp(np.log(values + 1e-300).mean(0)),
                values.max(0),
            )
            series.append(Series(case, panel, D[ends], middle[ends], low[ends], high[ends]))
    return Analysis(series, _checks(config, table), _notes(config, table))


def _checks(config: OODInnerConfig, table: Table) -> list[Check]:
    D = list(table.unique("D"))
    first, last = D.index(config.unit), D.index(3 * config.unit // 2)
    error = grid(table, LAST, "error")
    rate = np.log(error[:, first] / error[:, last]) / (D[last] - D[first]) * config.tau
    same = grid(table, LAST, "same")[:, 0]
    return [
        _rates.every(
            _rates.at_least(
                f"{LAST}: -tau log of the error's factor per step, {D[first]} to {D[last]} steps",
                "1 - log(1.5) / 4 or more",
                _range(rate),
                1.0 - np.log(1.5) / 4.0,
                remark="1 where the ridge's curvature is the least that is seen",
            )
        ),
        _rates.every(
            _rates.within(
                f"{LAST}, first order: last increment over the one before",
                1.0,
                _range(same),
                1.0 - LEFT,
                1.0 + LEFT,
                remark="the same vector is added in every step",
            )
        ),
    ]


def _range(values: Values) -> _rates.Interval:
    return _rates.Interval(float(values.mean()), float(values.min()), float(values.max()))


def _notes(config: OODInnerConfig, table: Table) -> list[str]:
    D, found = table.unique("D"), []
    for case in CASES:
        part = table.where(case=case)
        errors = grid(table, case, "error").mean(0)
        shown = ", ".join(f"{d}: {e:.2g}" for d, e in zip(D, errors, strict=True))
        least = part["least"]
        curved = (
            f"least curvature met {least.min():.3g} to {least.max():.3g} times rho; "
            if np.isfinite(least).all()
            else "compared with the longest loop; "
        )
        found.append(
            f"{case}, p = {part['p'][0]}, Lambda = {part['top'].mean():.3g}, alpha "
            f"{part['alpha'].mean():.3g}: {curved}gradient at the end "
            f"{part['left'].max():.2g} of the first one, at most; mean error by D: {shown}"
        )
    return [f"{table['what'][0]}; {config.instances} instances, seed {config.seed}", *found]


def draw(config: OODInnerConfig, analysis: Analysis) -> Figure:
    """Errors on a logarithmic axis, sizes on two."""
    figure, axes = panels(analysis.series, columns=2, width=3.2, share_y=False)
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


EXPERIMENT = Experiment(
    id="bridge/ood_inner",
    title="Error of the hypergradient against the inner steps on a language model",
    source="Lemmas 3 to 5",
    kind="rate",
    variable="D",
    config_type=OODInnerConfig,
    profiles={
        "quick": OODInnerConfig(),
        "paper": OODInnerConfig(
            prompts=40, rank=8, instances=8, ridge=0.1, cg=200, device="cuda", at_once=256
        ),
    },
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)

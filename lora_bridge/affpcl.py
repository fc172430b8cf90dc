"""Agents with text as the observations that AffPCL and its rivals ask.

Agent i has texts s ~ mu^i and wants probabilities b^i(s) for them: of labels, or of which of two
answers is better. Its decision variable x^i is a flat row of LoRA parameters, and its residual is a
gradient of the cross-entropy L(x; s, q) of the model's probabilities against given ones q,

    g^i(x)        = grad_x L(x; s^i, b^i(s^i))                  its own objective
    h^i(x, theta) = grad_x L(x; s^i, 1 / C + Theta z(s^i))      the central objective,

so that everything in :mod:`linsys.algorithms` runs on it as it stands.

*The central objective* needs parameters of its own. If theta were an adapter of the same model,
h^i(x, theta) would be zero wherever x and theta are the same point; both start at the same point,
so that the centre would never move. Here Theta (C, q) is a *linear* head on *frozen* features z(s),
learned by least squares, so that (7) is the paper's own linear system, with Phi made of z. With
features that realise the targets its error falls geometrically, as there is no noise left at
theta_*. A softmax head would not do: it has targets of 0 and 1 only at infinity and approaches them
like 1 / t, and the remaining error harms agents that do not differ. Where features realise targets
only in part, the head's values are not probabilities; L is affine in them and takes any values with
sum 1.

*Density ratios.* A minibatch of agent j is one sample of the b-fold product of mu^j, and the ratio
that keeps the importance correction unbiased is that of the products,

    rho^i(s_1 .. s_b) = prod_k mu^i(s_k) / ((1/n) sum_j prod_k mu^j(s_k)) = n p(i | s_1 .. s_b):

see :mod:`lora_bridge.ratios`. The mean of the ratios of single samples would be biased. The price:
minibatches of different agents are easier to tell apart than single texts, so that an agent learns
less from the others the larger b is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from linsys.algorithms import AffPCLState, Start
from linsys.oracle import sized
from linsys.validate import InputError, check_function, check_instance, check_integer, check_number
from lora_bridge._checks import finite, floats, probabilities
from lora_bridge.bank import Batch, Loss
from lora_bridge.losses import log_likelihood, sequence_rewards
from lora_bridge.ratios import batch_ratio, checked
from lora_bridge.tasks import Task

__all__ = [
    "Agents",
    "Noise",
    "TextObservation",
    "class_logits",
    "policy_logits",
    "reward_logits",
    "soft_cross_entropy",
]


def class_logits(output: Any, batch: Batch) -> Tensor:
    """Logits of a classifier, (samples, C)."""
    logits: Tensor = output.logits
    return logits


def reward_logits(output: Any, batch: Batch) -> Tensor:
    """Rewards of both answers of every pair, (samples, 2): Bradley and Terry's probabilities."""
    return sequence_rewards(output).reshape(-1, 2)


def policy_logits(output: Any, batch: Batch) -> Tensor:
    """log pi(answer | prompt) of both answers of every pair, (samples, 2), on ``encode_pairs``."""
    return log_likelihood(output, batch).reshape(-1, 2)


def soft_cross_entropy(logits: Callable[[Any, Batch], Tensor] = class_logits) -> Loss:
    """Cross-entropy of the model's probabilities against ``label_probabilities`` (samples, C).

    >>> from types import SimpleNamespace
    >>> seen = {"label_probabilities": torch.tensor([[0.5, 0.5]])}
    >>> soft_cross_entropy()(SimpleNamespace(logits=torch.zeros(1, 2)), seen)  # log 2
    tensor([0.6931])
    """

    check_function("logits", logits, "output", "batch")

    def loss(output: Any, batch: Batch) -> Tensor:
        wanted = batch["label_probabilities"]
        model_logits = logits(output, batch).to(wanted.dtype)  # sums in the targets' precision
        return functional.cross_entropy(model_logits, wanted, reduction="none")

    return loss


class Noise(NamedTuple):
    """Variances E||u^i - E u^i||^2 of directions u^i over minibatches, (n,) each.

    Attributes:
        alone: of g^i(x^i), the noise of an agent that learns alone.
        left: of g^i(x^i) - h^i(x^c, theta), the noise that is left beside the centre's: small where
            an agent's system is near the centre's.
        together: of AffPCL's direction, with (1/n) sum_j rho^i(s^j) h^j(x^c, theta) added. The
            theory bounds it by max(1/n, delta) times the first, up to a constant.
    """

    alone: Tensor
    left: Tensor
    together: Tensor


@dataclass(frozen=True, eq=False)
class Agents:
    """n agents over a task; draws the observations of a run.

    The shards of the task hold, beside the model's inputs,

    - ``label_probabilities`` (samples, C): b^i(s);
    - ``features`` (samples, q): z(s), see :mod:`lora_bridge.ratios`;
    - ``log_ratio`` (samples, n), where density ratios are asked for: log rho^j(s) of all agents j.

    Args:
        task: its loss is :func:`soft_cross_entropy`, or another one of ``label_probabilities``.

    Raises:
        InputError: shards without targets or features; targets that are no probabilities; ratios of
            another number of agents, or that are no ratios (such as rho instead of log rho).
    """

    task: Task

    def __post_init__(self) -> None:
        check_instance("task", self.task, Task, "a Task of the agents")
        shard = self.task.shards[0]
        for name in ("label_probabilities", "features"):
            if name not in shard or shard[name].ndim != 2:
                raise InputError(
                    f"shards must hold `{name}` with one row per sample; "
                    f"found {sorted(shard) if name not in shard else tuple(shard[name].shape)}"
                )
        if "log_ratio" in shard and shard["log_ratio"].shape[1:] != (self.task.clients,):
            raise InputError(
                f"`log_ratio` must have {self.task.clients} columns, one per agent; "
                f"found shape {tuple(shard['log_ratio'].shape)}"
            )
        for shard in self.task.shards:
            wanted = probabilities("label_probabilities", shard["label_probabilities"]).dtype
            features_dtype = finite("features", shard["features"]).dtype
            # residuals have the features' type
            if torch.promote_types(features_dtype, wanted) != features_dtype:
                raise InputError(
                    f"`features` must be of {wanted}, as `label_probabilities`, or of a type that "
                    f"holds it; found {features_dtype}"
                )
            if "log_ratio" in shard:
                checked(shard["log_ratio"].exp().mT)

    @property
    def n(self) -> int:
        """Agents."""
        return self.task.clients

    @property
    def p(self) -> int:
        """Entries of theta: Theta (C, q), flat."""
        shard = self.task.shards[0]
        return shard["label_probabilities"].shape[1] * shard["features"].shape[1]

    def start(self, x: Tensor) -> Start:
        """What ``init`` of an algorithm takes: all agents at x (r, w) as (n, d), and theta = 0."""
        floats("x", x, "r", self.task.bank.width)
        return Start(x.reshape(1, -1).repeat(self.n, 1), x.new_zeros(self.p))

    def objective(self, theta: Tensor, rounds: int, step: float) -> Tensor:
        """theta (p,) after some rounds of central objective estimation (7) alone.

        The model takes no part, so that they cost next to nothing; with a theta that is learned
        beforehand, the first corrections are more than noise. The minibatches differ from those of
        :meth:`observe`.
        """
        floats("theta", theta, self.p)
        check_number("step", step, low=0.0)
        for t in range(check_integer("rounds", rounds, low=0)):
            seen = self.observe(t, run=1)
            theta = theta - step * seen.objective_residual(theta[None]).mean(0)
        return theta

    def rows(self, x: Tensor) -> Tensor:
        """Flat points (n, d), or (1, d) for all agents, as adapters (n, r, w)."""
        width = self.task.bank.width
        floats("x", x)
        if x.ndim != 2 or len(x) not in (1, self.n) or x.shape[1] % width or 0 in x.shape:
            raise InputError(
                f"`x` must have shape ({self.n} or 1, a multiple of {width}); "
                f"found {tuple(x.shape)}"
            )
        return x.expand(self.n, -1).reshape(self.n, -1, width)

    def observe(self, t: int, run: int = 0) -> TextObservation:
        """A minibatch of every agent: the same for the same t, whatever was drawn before.

        Every ``run`` has minibatches of its own.
        """
        when = f"minibatch {t} of run {run}" if run else f"local step {t}"
        return TextObservation(self, self.task.draw(range(self.n), run, t), when)

    def noise(self, state: AffPCLState, draws: int = 16, run: int = 2) -> Noise:
        """The variances of AffPCL's direction (8) and of its parts at a point, from minibatches.

        Args:
            state: of :class:`linsys.algorithms.AffPCL` in the form "importance".
            draws: minibatches.
            run: whose minibatches, see :meth:`observe`.
        """
        check_integer("draws", draws, low=2)
        alone, left, together = [], [], []
        for t in range(draws):
            seen = self.observe(t, run)
            g, h = seen.residual(state.x), seen.central_residual(state.center, state.theta)
            alone.append(g)
            left.append(g - h)
            together.append(g - h + seen.density_ratio() @ h / self.n)
        return Noise(*(torch.stack(u).var(0).sum(-1) for u in (alone, left, together)))


@dataclass(frozen=True, eq=False)
class TextObservation:
    """One minibatch per agent, as :class:`linsys.oracle.Observation`.

    Args:
        agents: whose they are.
        batch: leading axes (n, b).
        when: for the name of an agent whose loss or gradient is not finite: see ``on_nan`` of
            :class:`lora_bridge.tasks.Task`. If it is skipped its residuals are zero.
    """

    agents: Agents
    batch: Batch
    when: str = "a minibatch"

    def residual(self, x: Tensor) -> Tensor:
        """g^i(x^i), the gradient of agent i's own cross-entropy: (n, d)."""
        return self._gradient(x, self.batch["label_probabilities"])

    def central_residual(self, x: Tensor, theta: Tensor) -> Tensor:
        """h^i(x^i, theta^i), the gradient against what theta predicts for agent i's texts."""
        return self._gradient(x, self.predicted(theta))

    def objective_residual(self, theta: Tensor) -> Tensor:
        """The gradient by theta^i of half the head's squared error on agent i's texts: (n, p)."""
        gap = self.predicted(theta) - self.batch["label_probabilities"]
        return (gap.mT @ self.batch["features"]).flatten(1) / gap.shape[1]

    def density_ratio(self) -> Tensor:
        """rho^i of the minibatch of agent j, (n, n): rows are agents.

        Raises:
            InputError: no ratios of single samples are known.
        """
        if "log_ratio" not in self.batch:
            raise InputError(
                "`log_ratio` must be in the shards for the importance correction; found none: "
                "use ratio='none', or see lora_bridge.ratios"
            )
        return batch_ratio(self.batch["log_ratio"])

    def predicted(self, theta: Tensor) -> Tensor:
        """1 / C + Theta^i z(s), (n, b, C), of theta (n, p), or (1, p) for all agents."""
        features = self.batch["features"]
        head = sized("theta", theta, self.agents.p).unflatten(-1, (-1, features.shape[-1]))
        predictions: Tensor = 1.0 / head.shape[-2] + features @ head.mT
        return predictions

    def _gradient(self, x: Tensor, wanted: Tensor) -> Tensor:
        task = self.agents.task
        batch = {**self.batch, "label_probabilities": wanted}
        everybody, X = range(self.agents.n), self.agents.rows(x)
        gradients, left_out = task.gradients(everybody, X, batch, self.when)
        gradients[list(left_out)] = 0.0
        flat: Tensor = gradients.flatten(1)
        return flat

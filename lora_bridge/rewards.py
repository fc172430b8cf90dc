"""Rewards of responses: functions of texts, reward models from local folders, scales.

A reward declares the range of its values. M of them, the same for all clients or some for each,
become numbers in [0, 1], as the papers want them: by the declared range, by a sigmoid, or by the
least and largest values seen in rollouts that came before ("seen"; kept by the caller and the same
for all clients, or their objectives would differ).

Two rewards that need no model: :mod:`lora_bridge.toy_rewards`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from linsys.validate import (
    InputError,
    check_choice,
    check_function,
    check_instance,
    plain,
    real_array,
)
from lora_bridge._checks import finite, floats, texts_by_client
from lora_bridge._reward_model import RewardModel, check_range

__all__ = [
    "Declared",
    "Reward",
    "RewardModel",
    "by_client",
    "raw_scores",
    "scaled",
    "scores",
    "seen_bounds",
]

Array = NDArray[np.float64]
#: Least and largest values (2, M) of every reward.
Bounds = Tensor | ArrayLike
#: The attributes of a reward, beside being callable.
_ATTRIBUTES = ("name", "low", "high")


class Reward(Protocol):
    """What scores n responses at once: values of shape (n,) from ``low`` to ``high``."""

    @property
    def name(self) -> str:
        """Its name in errors and results."""
        ...

    @property
    def low(self) -> float:
        """No value is below; -inf where nothing is known."""
        ...

    @property
    def high(self) -> float:
        """No value is above; inf where nothing is known."""
        ...

    def __call__(self, prompts: Sequence[str], responses: Sequence[str]) -> ArrayLike:
        """Values of n responses, shape (n,)."""
        ...


@dataclass(frozen=True)
class Declared:
    """A function with the range that it keeps to.

    Raises:
        InputError: ends that are no numbers with low < high; something else than a function of
            prompts and responses.

    >>> short = Declared("short", lambda prompts, responses: [-len(r) for r in responses], -9, 0)
    >>> scores([short], [["?"]], [["no"]])
    tensor([[[0.7778]]], dtype=torch.float64)
    """

    name: str
    function: Callable[[Sequence[str], Sequence[str]], ArrayLike]
    low: float
    high: float

    def __post_init__(self) -> None:
        check_instance("name", self.name, str, "a text, what errors and results call the reward")
        check_range(self.name, self.low, self.high)
        check_function(f"function of reward {self.name}", self.function, "prompts", "responses")

    def __call__(self, prompts: Sequence[str], responses: Sequence[str]) -> ArrayLike:
        """Values of n responses, shape (n,)."""
        return self.function(prompts, responses)


def scores(
    rewards: Sequence[Reward] | Sequence[Sequence[Reward]],
    prompts: Sequence[Sequence[str]],
    responses: Sequence[Sequence[str]],
    scaling: str = "range",
    bounds: Bounds | None = None,
) -> Tensor:
    """M rewards in [0, 1] of every client's responses, shape (N, b, M), float64 on the CPU.

    Args:
        rewards: M of them, or M for each of N clients.
        prompts, responses: b texts of each of N clients.
        scaling, bounds: as of :func:`scaled`.

    Raises:
        InputError: as :func:`raw_scores` and :func:`scaled`.
    """
    return scaled(raw_scores(rewards, prompts, responses), rewards, scaling, bounds)


def raw_scores(
    rewards: Sequence[Reward] | Sequence[Sequence[Reward]],
    prompts: Sequence[Sequence[str]],
    responses: Sequence[Sequence[str]],
) -> Tensor:
    """M rewards as they are, shape (N, b, M); a reward is called once for all its clients.

    Raises:
        InputError: texts or rewards that do not fit together; a reward with values outside of its
            declared range, not finite, or not one for each response (names the reward).
    """
    prompts = texts_by_client("prompts", prompts)
    responses = texts_by_client("responses", responses)
    N, b = _clients_and_samples(prompts, responses)
    own = by_client(rewards, N)
    raw = torch.empty((N, b, len(own[0])), dtype=torch.float64)
    for j in range(raw.shape[2]):
        for reward in {id(row[j]): row[j] for row in own}.values():
            who = [i for i in range(N) if own[i][j] is reward]
            values = _checked_values(
                reward,
                [text for i in who for text in prompts[i]],
                [text for i in who for text in responses[i]],
            )
            raw[who, :, j] = torch.from_numpy(values).reshape(len(who), b)
    return raw


def scaled(
    raw: Tensor,
    rewards: Sequence[Reward] | Sequence[Sequence[Reward]],
    scaling: str = "range",
    bounds: Bounds | None = None,
) -> Tensor:
    """Values (N, b, M) of :func:`raw_scores` as numbers in [0, 1].

    Args:
        raw: the values.
        rewards: whose they are.
        scaling: "range", (r - low) / (high - low) of the declared range; "sigmoid",
            1 / (1 + exp(-r)); "seen", as "range" with ``bounds``, values beyond which are clipped.
        bounds: least and largest values (2, M) of :func:`seen_bounds`.

    Raises:
        InputError: values of another number of rewards; a reward without a finite range, or bounds
            that are missing or leave no range.

    >>> raw = torch.tensor([[[1.0], [4.0], [2.0]]])
    >>> scaled(raw, [], "seen", seen_bounds(raw[:, 1:]))
    tensor([[[0.],
             [1.],
             [0.]]])
    """
    floats("raw", raw, "clients", "samples", "M")
    check_choice("scaling", scaling, ("range", "sigmoid", "seen"))
    if scaling == "sigmoid":
        return torch.sigmoid(raw)
    if scaling == "seen":
        ends = _checked_bounds(bounds, raw.shape[-1])
    else:
        ends = _declared_bounds(rewards, len(raw))
        floats("raw", raw, "clients", "samples", ends.shape[-1])
    low, high = ends.to(raw)
    # clipping is for "seen": what is declared has been checked
    return torch.clamp((raw - low) / (high - low), 0.0, 1.0)


def seen_bounds(raw: Tensor, before: Bounds | None = None) -> Tensor:
    """Least and largest values (2, M) of every reward over clients and samples, and of ``before``.

    Raises:
        InputError: no values, or others than finite ones.

    >>> first = seen_bounds(torch.tensor([[[1.0], [4.0]]]))
    >>> seen_bounds(torch.tensor([[[3.0], [7.0]]]), first)
    tensor([[1.],
            [7.]])
    """
    flat = finite("raw", raw, "clients", "samples", "M").flatten(0, -2)
    if not len(flat):
        raise InputError(f"`raw` must hold a value or more; found shape {tuple(raw.shape)}")
    low, high = flat.amin(0), flat.amax(0)
    if before is not None:
        known = _low_and_high("before", before, len(low)).to(raw)
        low, high = low.minimum(known[0]), high.maximum(known[1])
    return torch.stack([low, high])


def _clients_and_samples(prompts: Sequence[Any], responses: Sequence[Any]) -> tuple[int, int]:
    sizes = [[len(own) for own in side] for side in (prompts, responses)]
    b = sizes[0][0] if sizes[0] else 0
    if b == 0 or sizes[0] != sizes[1] or set(sizes[0]) != {b}:
        raise InputError(
            "`prompts` and `responses` must be as many texts, 1 or more, of every client; "
            f"found {sizes[0]} and {sizes[1]}"
        )
    return len(sizes[0]), b


def by_client(
    rewards: Sequence[Reward] | Sequence[Sequence[Reward]], N: int
) -> list[Sequence[Any]]:
    """M rewards of each client.

    Raises:
        InputError: not M of all clients, or as many of each; something else than a reward.
    """
    if not isinstance(rewards, Sequence):
        raise InputError(f"`rewards` must be a list of rewards; found {rewards!r:.60}")
    nested = [row for row in rewards if isinstance(row, Sequence)]
    own: list[Sequence[Any]] = list(nested) if nested else [tuple(rewards)] * N
    sizes = sorted({len(row) for row in own})
    if len(own) != N or len(sizes) != 1 or sizes[0] == 0 or len(nested) not in (0, len(rewards)):
        raise InputError(
            f"`rewards` must be M >= 1 rewards, or as many of each of {N} clients; found "
            f"{len(rewards)} with {sizes}"
        )
    for reward in (reward for row in own for reward in row):
        if not callable(reward) or not all(hasattr(reward, part) for part in _ATTRIBUTES):
            raise InputError(
                "`rewards` must have a name and a range each, which `Declared` gives to a "
                f"function; found {reward!r:.60}"
            )
    return own


def _declared_bounds(rewards: Sequence[Reward] | Sequence[Sequence[Reward]], N: int) -> Tensor:
    """Least and largest values (2, N, 1, M) that rewards declare."""
    own = by_client(rewards, N)
    for reward in (reward for row in own for reward in row):
        if not math.isfinite(reward.high - reward.low):
            raise InputError(
                f"reward {reward.name} must declare a finite range to be scaled by it; found "
                f"[{reward.low:g}, {reward.high:g}]: choose 'sigmoid' or 'seen'"
            )
    ranges = [[[reward.low, reward.high] for reward in row] for row in own]
    return torch.tensor(ranges, dtype=torch.float64).movedim(-1, 0)[:, :, None]


def _checked_bounds(bounds: Bounds | None, M: int) -> Tensor:
    if bounds is None:
        raise InputError(f"`bounds` must have shape (2, {M}); found None")
    ends = _low_and_high("bounds", bounds, M)
    closed = ends[1] <= ends[0]
    if bool(closed.any()):
        j = int(closed.long().argmax())
        raise InputError(
            "`bounds` must have low < high for each objective; "
            f"found {ends[:, j].tolist()} for objective {j}"
        )
    return ends


def _low_and_high(name: str, bounds: Bounds, M: int) -> Tensor:
    """Least and largest values (2, M), finite, in double precision."""
    return torch.from_numpy(real_array(name, bounds, (2, M)).copy())


def _checked_values(reward: Reward, prompts: Sequence[str], responses: Sequence[str]) -> Array:
    returned = plain(reward(prompts, responses))
    if returned.shape != (len(responses),) or returned.dtype.kind not in "biuf":
        raise InputError(
            f"reward {reward.name} must give a number for each of {len(responses)} responses; "
            f"found shape {returned.shape} of {returned.dtype}"
        )
    values = np.array(returned, dtype=np.float64)
    outside = ~((values >= reward.low) & (values <= reward.high) & np.isfinite(values))
    if outside.any():
        at = int(outside.argmax())
        raise InputError(
            f"reward {reward.name} must be in its declared range [{reward.low:g}, {reward.high:g}];"
            f" found {values[at]:g} for {responses[at]!r:.60}"
        )
    return values

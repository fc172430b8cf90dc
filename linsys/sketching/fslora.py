"""FSLoRA: devices train random components of the global LoRA modules (Algorithm 1).

*Problem* (2). f^S(B, A) = (1/N) sum_i E l(W0 + B S A) over random-k sketches S of rank k_i and the
samples of device i; f with S = I is what the modules are used for.

*Algorithm.* In round t the server draws S_i^t; device i makes H steps (4) on the k_i columns of B
and rows of A that S_i^t selects, at W0 + (r / k_i) B_I A_I; the server adds the mean of the updates
(5), with 1/N whatever number of devices has touched a component.

*Guarantee.* Theorem 4.4, for the gradient of f^S, under smoothness on the whole space, which a loss
of W0 + B A does not have. Its proof treats sketches as fresh in every step: ``fresh=True``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from linsys.sketching.federated import Ask, Federated, State, Training, row_bytes
from linsys.sketching.sketch import support
from linsys.validate import check_choice, check_integer

__all__ = ["FSLoRA", "federated_lora"]


@dataclass(frozen=True, kw_only=True)
class FSLoRA(Federated):
    """Federated sketching LoRA.

    Args:
        fresh: a new sketch in every local step, as the analysis has it, in the place of one for
            the H steps of a round. Such a device holds the components of all of them.
        broadcast: "rows" sends a device the components of its sketch; "all", as in the text, all.

    >>> from linsys.sketching.systems import LeastSquares
    >>> system = LeastSquares(np.zeros((1, 1)), inputs=([[1.0]],) * 2, targets=([[2.0]],) * 2)
    >>> algorithm = FSLoRA(gamma=0.1, H=1, ranks=[1, 2])
    >>> state, report = algorithm.round(algorithm.init(np.ones((2, 2)), system), system)
    >>> report.up  # bytes: one and two components of two numbers each
    (16, 32)
    """

    fresh: bool = False
    broadcast: str = "rows"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("broadcast", self.broadcast, ("rows", "all"))

    def rows(self, device: int, round_: int, r: int) -> Any:
        """The components that a device touches in a round, increasing; k_i unless fresh."""
        drawn = [self._support(device, round_, r, step) for step in self._draws]
        return np.unique(drawn) if self.fresh else drawn[0]

    def offer(self, state: State, device: int) -> Any:
        """The rows of X that the device trains, or all of them if ``broadcast`` says so."""
        return state.X if self.broadcast == "all" else super().offer(state, device)

    @property
    def _draws(self) -> range:
        return range(self.H if self.fresh else 1)

    def _support(self, device: int, round_: int, r: int, step: int) -> Any:
        return _drawn(self.seed, round_, device, r, self.ranks[device], step).copy()

    def _device(self, state: State, device: int, oracle: Any) -> Training:
        r = state.X.shape[0]
        rows, scale = self.rows(device, state.t, r), r / self.ranks[device]
        start = state.X[rows, :]
        if self.fresh:
            return self._fresh(state, device, start, scale)
        return self._local(state, device, oracle, start, scale)

    def _fresh(self, state: State, device: int, start: Any, scale: float) -> Training:
        r = state.X.shape[0]
        rows, xp = self.rows(device, state.t, r), array_namespace(start)
        move, X = self._optimizer(), start
        for step in self._draws:
            own = np.searchsorted(rows, self._support(device, state.t, r, step))
            gradient = xp.zeros_like(X)
            gradient[own, :] = yield Ask(X[own, :], scale, step)
            X = move(X, gradient)
        return start, X

    def _aggregate(self, state: State, sent: Mapping[int, Any], oracle: Any) -> State:
        total = array_namespace(state.X).zeros_like(state.X)
        for device, update in sent.items():
            total[self.rows(device, state.t, state.X.shape[0]), :] += update
        total /= len(self.ranks)
        total += state.X
        return State(total, state.t + 1, state.frozen)

    def _download(self, state: State) -> list[int]:
        r, row = state.X.shape[0], row_bytes(state.X)
        if self.broadcast == "all":
            return [r * row] * len(self.ranks)
        if not self.fresh:
            return super()._download(state)
        return [len(self.rows(i, state.t, r)) * row for i in range(len(self.ranks))]


#: The server and a device ask for the same sketch several times in a round.
_drawn = lru_cache(maxsize=1024)(support)


def federated_lora(*, r: int, devices: int, **options: Any) -> FSLoRA:
    """Federated LoRA of one rank, FSLoRA without a sketch: all devices train all components.

    >>> federated_lora(r=8, devices=3, gamma=0.1, H=2).ranks
    (8, 8, 8)
    """
    return FSLoRA(ranks=[r] * check_integer("devices", devices, low=1), **options)

"""HeteroLoRA, FlexLoRA and FedStackLoRA: how others join modules of different ranks.

None of them scales by r / k: a device of rank k trains W0 + B A with k components.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device as get_device

from linsys.sketching.adapters import Modules
from linsys.sketching.federated import Federated, State, Training, row_bytes
from linsys.sketching.low_rank import stack, truncate
from linsys.validate import check_choice, check_number

__all__ = ["FedStackLoRA", "FlexLoRA", "HeteroLoRA"]


@dataclass(frozen=True, kw_only=True)
class _SendsModules(Federated):
    """Devices that send modules, not updates: those are what the server averages."""

    sends_modules = True

    def _device(self, state: State, device: int, oracle: Any) -> Training:
        return self._local(state, device, oracle, state.X[: self.ranks[device], :], 1.0)

    def _sent_or_unchanged(self, state: State, sent: Mapping[int, Any]) -> list[Any]:
        """The modules of every device; a missing one counts with those that it was sent."""
        return [sent[i] if i in sent else state.X[:k, :] for i, k in enumerate(self.ranks)]


@dataclass(frozen=True, kw_only=True)
class HeteroLoRA(_SendsModules):
    """Truncate, train, pad with zeros, average B and A separately (Cho et al., 2024).

    Args:
        weights: "uniform", or "frobenius": proportional to ||B_i A_i||, all modules together.

    A component that a device does not have counts as zero: with equal weights, component j is
    multiplied in every round by the share of devices with k_i > j.

    >>> from linsys.sketching.systems import LeastSquares
    >>> system = LeastSquares(np.zeros((1, 1)), inputs=([[0.0]],) * 2, targets=([[0.0]],) * 2)
    >>> algorithm = HeteroLoRA(gamma=0.1, H=1, ranks=[1, 2])
    >>> state, _ = algorithm.round(algorithm.init(np.ones((2, 2)), system), system)
    >>> state.X.tolist()  # nobody moved
    [[1.0, 1.0], [0.5, 0.5]]
    """

    weights: str = "uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("weights", self.weights, ("uniform", "frobenius"))

    def _aggregate(self, state: State, sent: Mapping[int, Any], oracle: Any) -> State:
        present = self._sent_or_unchanged(state, sent)
        xp = array_namespace(state.X)
        shares = [1.0 / len(present)] * len(present)
        if self.weights == "frobenius":
            sizes = [_size(oracle.modules, X) for X in present]
            if sum(sizes) > 0.0:
                shares = [size / sum(sizes) for size in sizes]
        total = xp.zeros_like(state.X)
        for share, X in zip(shares, present, strict=True):
            total[: X.shape[0], :] += share * X
        return State(total, state.t + 1, state.frozen)


@dataclass(frozen=True, kw_only=True)
class FlexLoRA(_SendsModules):
    """Average the products, cut them back to rank r (Bai et al., 2024).

    The next modules are the best rank-r approximation of (1/N) sum_i B_i A_i, components in
    decreasing order, so that the first k_i of them are device i's best of rank k_i. The products
    are never formed: :mod:`linsys.sketching.low_rank`.

    >>> from linsys.sketching.systems import LeastSquares
    >>> system = LeastSquares(np.zeros((1, 1)), inputs=([[0.0]],) * 2, targets=([[0.0]],) * 2)
    >>> algorithm = FlexLoRA(gamma=0.1, H=1, ranks=[1, 2])
    >>> state, _ = algorithm.round(algorithm.init(np.ones((2, 2)), system), system)
    >>> system.modules.products(state.X)[0].round(12).tolist()  # (1 + 2) / 2
    [[1.5]]
    """

    def _aggregate(self, state: State, sent: Mapping[int, Any], oracle: Any) -> State:
        present, modules = self._sent_or_unchanged(state, sent), oracle.modules
        split = [modules.split(X) for X in present]
        share = [1.0 / len(present)] * len(present)
        pairs = [
            truncate(stack([parts[j] for parts in split], share), state.X.shape[0])
            for j in range(len(modules.shapes))
        ]
        return State(modules.join(pairs), state.t + 1, state.frozen)


@dataclass(frozen=True, kw_only=True)
class FedStackLoRA(Federated):
    """Stack the modules, merge the exact mean product into W0, start anew (Wang et al., 2024).

    Args:
        size: of fresh modules, see :meth:`linsys.sketching.adapters.Modules.start`.

    The global X only says the rank; what is learned is in the frozen matrices of the state. Every
    device downloads the modules of all.
    """

    sends_modules = True

    size: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("size", self.size, low=0.0, low_open=True)

    def _device(self, state: State, device: int, oracle: Any) -> Training:
        rng = np.random.default_rng([self.seed, state.t, device])
        xp = array_namespace(state.X)
        fresh = oracle.modules.start(self.ranks[device], rng, self.size)
        start = xp.asarray(fresh, dtype=state.X.dtype, device=get_device(state.X))
        return self._local(state, device, oracle, start, 1.0)

    def _aggregate(self, state: State, sent: Mapping[int, Any], oracle: Any) -> State:
        if not sent:
            return state._replace(t=state.t + 1)
        modules = oracle.modules
        split = [modules.split(X) for X in sent.values()]
        share, present = [1.0 / len(split)] * len(split), len(split) / len(self.ranks)
        products = []
        for j in range(len(modules.shapes)):
            left, right = stack([parts[j] for parts in split], share)
            products.append(present * (left @ right))  # a missing device counts as zero
        return State(state.X, state.t + 1, state.merged_into(oracle).merged(products))

    def _download(self, state: State) -> list[int]:
        return [sum(self.ranks) * row_bytes(state.X)] * len(self.ranks)


def _size(modules: Modules, X: Any) -> float:
    """||B A||, from the k x k Gram matrices: the product is never formed."""
    pairs = modules.split(X)
    return math.sqrt(sum(float(((B.mT @ B) * (A @ A.mT)).sum()) for B, A in pairs))

"""Instances that the statements of FSLoRA are about: least-squares devices at a point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.fslora.theory.sketching import Devices

#: Devices, samples of each, and the sizes of W and of its modules.
SIZES = {"N": (1, 2), "s": (1, 2), "m": (1, 2), "n": (1, 2), "r": (1, 3)}
_RANGE = (0.1, 10.0)
FIELDS: dict[str, rc.Field] = {
    "x": rc.reals("N", "s", "n", magnitude=_RANGE),
    "d": rc.reals("N", "s", "m", magnitude=_RANGE),
    "B": rc.reals("m", "r", magnitude=_RANGE),
    "A": rc.reals("r", "n", magnitude=_RANGE),
    "k": rc.whole_numbers("N", low=1, high=4),
}
MEANING = {
    "x": "the devices' inputs, a row for each sample",
    "d": "W0 x - y, a row for each sample",
    "k": "ranks k_i; more than r is r",
}


def ranks(k: Any, r: int) -> Any:
    """k_i, cut to r; of the kind of numbers that k is, so that r / k keeps its precision."""
    return np.minimum(k, r + 0 * k)


def _view(*, x: Any, d: Any, B: Any, A: Any, k: Any, **others: Any) -> SimpleNamespace:
    """``devices``, and the further fields as they are."""
    devices = Devices(x=x, d=d, B=B, A=A, k=ranks(k, A.shape[-2]))
    return SimpleNamespace(devices=devices, **others)


def least_squares(
    extra: Mapping[str, rc.Field] | None = None,
    sizes: Mapping[str, tuple[int, int]] | None = None,
    view: Callable[..., Any] = _view,
    **options: Any,
) -> rc.Space:
    """Least-squares devices: ``devices``, with further fields; ``sizes`` replaces ranges."""
    meaning = {**MEANING, **options.pop("meaning", {})}
    return rc.Space(
        fields={**FIELDS, **(extra or {})},
        sizes={**SIZES, **(sizes or {})},
        view=view,
        batched=True,
        meaning=meaning,
        **options,
    )


def _one_component(*, x: Any, d: Any, B: Any, A: Any, k: Any, **others: Any) -> SimpleNamespace:
    """``devices`` whose components are zero but for the first one, and k < r."""
    first = np.arange(A.shape[-2]) == 0
    B, A = np.where(first, B, 0 * B), np.where(first[:, None], A, 0 * A)
    devices = Devices(x=x, d=d, B=B, A=A, k=ranks(k, A.shape[-2] - 1))
    return SimpleNamespace(devices=devices, **others)


#: One device, one component that is not zero, and k < r.
SINGLE: dict[str, Any] = {
    "sizes": {"N": (1, 1), "r": (2, 4)},
    "view": _one_component,
    "meaning": {**MEANING, "k": "k; more than r - 1 is r - 1", "B": "B, used in its first column"},
    "constructed": "all components but the first one are zero",
}


def _sketched(*, k: Any, A: Any, **others: Any) -> SimpleNamespace:
    """``devices`` with k < r, and the further fields as they are."""
    return _view(k=ranks(k, A.shape[-2] - 1), A=A, **others)


#: One device and k < r.
SKETCHED: dict[str, Any] = {
    "sizes": {"N": (1, 1), "r": (2, 3)},
    "view": _sketched,
    "meaning": {**MEANING, "k": "k; more than r - 1 is r - 1"},
}

#: A direction, or the difference of two points.
DIRECTION = {"U": rc.reals("m", "r", magnitude=_RANGE), "V": rc.reals("r", "n", magnitude=_RANGE)}
DIRECTIONS = {"U": "the B part of a direction", "V": "its A part"}


def _pair(*, U: Any, k: Any, **others: Any) -> SimpleNamespace:
    return SimpleNamespace(U=U, k=ranks(k, U.shape[-1]), **others)


AFFINE = rc.Space(
    fields={"C": rc.reals("m", "n"), **DIRECTION, "k": rc.whole_numbers(low=1, high=4)},
    sizes={"m": (1, 2), "n": (1, 2), "r": (1, 4)},
    view=_pair,
    batched=True,
    meaning={**DIRECTIONS, "k": "k; more than r is r"},
)

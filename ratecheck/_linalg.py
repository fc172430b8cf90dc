"""All of :py:mod:`linsys.linalg`, with stationary laws also of chains with transient states."""

# What is not linsys' own is here because kept verdicts depend on every word of linsys.linalg.

from __future__ import annotations

from typing import Any

import numpy as np

from linsys import linalg as _ours
from linsys.linalg import *  # noqa: F403
from linsys.linalg import Numbers, __all__ as __all__
from linsys.validate import PROBABILITY_TOLERANCE, InputError

#: What numbers of high precision are; balls and formal numbers are others.
_PRECISE = type(_ours.precise(0.0)[()])


def stationary(kernels: Numbers) -> Numbers:  # type: ignore[no-redef]
    """d with d P = d of chains (..., S, S), each entry to a few roundings.

    Zero on states that are left for good. By :func:`linsys.linalg.stationary`, which subtracts
    nothing: chains that hardly ever leave a state lose no digits. NaN of a chain with NaN.

    Args:
        kernels: probabilities of the next state, in rows that sum to one.

    Raises:
        InputError: kernels that are not square, rows that are no distributions, or a chain with
            several classes of states that it never leaves, whose stationary law depends on where
            it starts.

    >>> import numpy as np
    >>> print(stationary(np.array([[1.0, 1e-20], [2e-20, 1.0]])))
    [0.66666667 0.33333333]
    >>> print(stationary(np.array([[0.5, 0.5], [0.0, 1.0]])))  # leaves the first for good
    [0. 1.]
    """
    kernels = np.asarray(kernels)
    if kernels.ndim < 2 or kernels.shape[-1] != kernels.shape[-2] or not kernels.shape[-1]:
        raise InputError(f"`kernels` must have shape (..., S, S); found {kernels.shape}")
    if kernels.dtype != object:
        _check_rows(kernels)
    with np.errstate(invalid="ignore"):
        law = _ours.stationary(kernels)
    flat = kernels.reshape(-1, *kernels.shape[-2:])
    if kernels.dtype == object and not isinstance(flat.flat[0], _PRECISE):
        return law  # what is no number need not say whether it is above another
    laws = law.reshape(flat.shape[:-1])
    for number in np.flatnonzero(np.asarray(laws != laws, dtype=bool).any(axis=-1)):
        if not np.asarray(flat[number] != flat[number], dtype=bool).any():
            laws[number] = _of_one_class(flat[number])
    return laws.reshape(law.shape)


def _check_rows(kernels: Numbers) -> None:
    with np.errstate(invalid="ignore"):
        off = np.maximum(-kernels.min(axis=-1), np.abs(kernels.sum(axis=-1) - 1))
    if (off > PROBABILITY_TOLERANCE).any():
        row = kernels.reshape(-1, kernels.shape[-1])[int(np.nanargmax(off))]
        raise InputError(f"`kernels` must have rows that sum to 1, none below 0; found {row}")


def _of_one_class(kernel: Numbers) -> Numbers:
    """The stationary law of one chain that leaves some states for good."""
    leads = np.asarray(kernel > 0, dtype=bool) | np.eye(len(kernel), dtype=bool)
    for _ in range(len(kernel).bit_length()):
        leads = leads @ leads
    always = leads.all(axis=0)  # every state leads to them
    if not always.any():
        reached = [set(np.flatnonzero(row).tolist()) for row in leads]
        never_left = [one for one in reached if all(reached[state] == one for state in one)]
        found = " and ".join(dict.fromkeys(map(str, never_left)))
        raise InputError(
            "`kernels` must have one class of states that is never left, or the law depends on "
            f"the start; found {found}"
        )
    order = np.argsort(~always, kind="stable")  # states are left out down to the first one
    law: Any = _ours.stationary(kernel[np.ix_(order, order)])
    return np.asarray(law[np.argsort(order)])

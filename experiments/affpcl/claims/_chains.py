"""Markov chains with features: instances that the statements on temporal differences are about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.affpcl.claims._meaning import meaning
from experiments.affpcl.theory.bellman import chains
from experiments.affpcl.theory.stack import FiniteStack
from linsys.linalg import is_precise, lambda_min, norm, precise

#: At least as many states as features.
SIZES = {"O": (3, 4), "d": (1, 3)}


def irreducible(P: Any, floor: Any) -> Any:
    """Mix with the uniform kernel until every transition has probability floor / O or more."""
    size = P.shape[-1]
    lowest = size * P.reshape(len(P), -1).min(axis=1)
    # (1 - c) lowest + c >= floor; floor < 1
    c = np.maximum(0, (floor - lowest) / (1 - np.minimum(lowest, floor)))[:, None, None, None]
    return (1 - c) * P + c / size


def independent(phi: Any, floor: Any, *, unit: bool) -> Any:
    """Make the first d of the features triangular with a diagonal of at least ``floor``: a basis.

    Every feature map with d independent features is of this form, up to a rotation, a choice of
    signs and the order of states. Lengths stay below one; with ``unit`` they become one.
    """
    phi = phi.copy()
    for k in range(phi.shape[-1]):
        pivot = np.maximum(phi[:, k, k], floor)
        phi[:, k, k:] *= 0
        length, largest = norm(phi[:, k]), np.sqrt(1 - pivot**2)
        scale = largest / np.where(length > 0, length, 1)
        phi[:, k] = phi[:, k] * (scale if unit else np.minimum(1, scale))[:, None]
        phi[:, k, k] = np.where(length > 0, pivot, 1 + 0 * pivot) if unit else pivot
    return phi


def of_one_type(fields: rc.Fields) -> rc.Fields:
    """All numbers of an instance are of one precision, with the values that they have."""
    one = precise(1.0)[()] if any(map(is_precise, fields.values())) else 1.0
    return {name: values * one for name, values in fields.items()}


# Every transition is possible, and the first d features are a basis.
def _repair(fields: rc.Fields, *, unit: bool) -> rc.Fields:
    fields = of_one_type(fields)
    return {
        **fields,
        "P": irreducible(fields["P"], fields["floor"]),
        "phi": independent(fields["phi"], fields["floor"], unit=unit),
    }


def _normalised(stack: FiniteStack, *, unit: bool) -> Any:
    """||phi(o)|| <= 1, or = 1 for ``unit``; attained, so that rounding may be above it."""
    length = norm(stack.phi)
    return np.abs(length - 1) <= 1e-12 if unit else length <= 1 + 1e-12


def _is_stationary(stack: FiniteStack) -> Any:
    """pi^i P^i = pi^i to rounding: o and o' have the same distribution."""
    after = (stack.pi[:, :, None] @ stack.P)[:, :, 0]
    return np.abs(after - stack.pi) <= 1e-9


def chain_space(
    agents: rc.Axis,
    extra: Mapping[str, rc.Field] | None = None,
    *,
    unit: bool = False,
    view: Callable[..., FiniteStack] = chains,
    sizes: Mapping[str, tuple[int, int]] | None = None,
) -> rc.Space:
    """Chains of some agents with common features.

    The stationary law is solved for, so that o and o' have the same distribution by construction;
    kernels are positive, features a basis and gamma < 1, so that sym(Abar^i) > 0.

    Args:
        agents: a number, or "n", with ``sizes``.
        extra: further fields.
        unit: features of length one, instead of at most one.
        view: :func:`experiments.affpcl.theory.bellman.chains` or ``embeddings``.
        sizes: ranges other than ``SIZES``.
    """
    fields = {
        "P": rc.simplex(agents, "O", "O"),
        "phi": (rc.sphere if unit else rc.ball)("O", "d"),
        "gamma": rc.interval(high=0.99),
        "floor": rc.positive(low=0.02, high=0.5),
        **(extra or {}),
    }
    return rc.Space(
        fields=fields,
        sizes={**SIZES, **(sizes or {})},
        repair=partial(_repair, unit=unit),
        view=view,
        assumes={
            "independent features": lambda s: lambda_min(s.Phi_bar) > 0,
            "sym(Abar^i) > 0": lambda s: s.lambda_agent > 0,
            "lengths of features": partial(_normalised, unit=unit),
            "pi^i stationary": _is_stationary,
        },
        batched=True,
        credible={"gamma": (0.1, 0.99)},
        meaning=meaning(
            fields,
            P="kernels P^i(o' | o), a row for each o",
            phi="features phi(o), a row for each o",
            R="rewards R^i(o, o')",
            theta="rewards phi(o)' theta^i",
            x="a direction x",
            floor="the least phi_k(o_k) of the first d states and, over the number of states, the "
            "least transition probability that were given, without effect beyond P and phi",
        ),
    )

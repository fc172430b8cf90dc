"""Instances that the deterministic statements of FIRM are about: gradients, weights, one round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.firm.theory.descent import Round
from linsys.linalg import norm, transpose

SIZES = {"M": (1, 4), "d": (1, 3)}
BETA = rc.positive(low=0.001, high=1000.0)
#: What fields are whose names are not symbols of the paper.
_MEANING = {
    "g": "gradients over scale, a row for each objective",
    "scale": "the factor of all gradients",
    "middle": "the mean of both clients' gradients over scale, a row for each objective",
    "apart": "half of their difference over scale and share",
    "share": "the factor of the difference",
    "p": "preferences",
    "factor": "p_1 becomes factor p_1; where there is no p, all gradients are multiplied by it",
    "lam": "weights lambda",
    "first": "the first client's weights",
    "second": "the second client's weights",
    "common": "one lambda for all clients",
}


def _meaning(fields: Mapping[str, rc.Field]) -> dict[str, str]:
    return {name: line for name, line in _MEANING.items() if name in fields}


def _one(*, g: Any, scale: Any, **others: Any) -> SimpleNamespace:
    """Gradients A (B, d, M), the columns of length at most ``scale``."""
    return SimpleNamespace(A=transpose(g) * scale[:, None, None], **others)


def _two(*, middle: Any, apart: Any, share: Any, scale: Any, **others: Any) -> SimpleNamespace:
    """Two clients' gradients A and other, and R, the length of the longest one.

    Any pair is of this form: its middle, and half of its difference.
    """
    half = transpose(apart) * share[:, None, None]
    A, other = ((transpose(middle) + s * half) * scale[:, None, None] for s in (1, -1))
    longest = np.maximum(norm(transpose(A)).max(axis=-1), norm(transpose(other)).max(axis=-1))
    return SimpleNamespace(A=A, other=other, R=longest, **others)


def one_client(
    extra: Mapping[str, rc.Field] | None = None,
    sizes: Mapping[str, tuple[int, int]] = SIZES,
    **options: Any,
) -> rc.Space:
    """Gradients of one client: A; with further fields."""
    fields = {"g": rc.ball("M", "d"), "scale": rc.positive(), **(extra or {})}
    return rc.Space(
        fields=fields,
        sizes=dict(sizes),
        view=_one,
        batched=True,
        meaning=_meaning(fields),
        **options,
    )


def two_clients(extra: Mapping[str, rc.Field] | None = None, **options: Any) -> rc.Space:
    """Gradients of two clients: A, other and R; beta; with further fields."""
    fields = {
        "middle": rc.ball("M", "d"),
        "apart": rc.ball("M", "d"),
        "share": rc.positive(low=1e-4, high=1.0),
        "scale": rc.positive(),
        "beta": BETA,
        **(extra or {}),
    }
    return rc.Space(
        fields=fields,
        sizes=SIZES,
        view=_two,
        batched=True,
        meaning=_meaning(fields),
        **options,
    )


def _clients(*, g: Any, scale: Any, **others: Any) -> SimpleNamespace:
    """Gradients g (B, C, M, d) of several clients and R, the length of the longest one."""
    return SimpleNamespace(
        g=g * scale[:, None, None, None], R=norm(g).max(axis=(1, 2)) * scale, **others
    )


def clients(extra: Mapping[str, rc.Field]) -> rc.Space:
    """Gradients of C clients, with further fields."""
    fields = {"g": rc.ball("C", "M", "d"), "scale": rc.positive(), **extra}
    return rc.Space(
        fields=fields,
        sizes={"C": (1, 4), **SIZES},
        view=_clients,
        batched=True,
        meaning=_meaning(fields),
    )


def _round(*, L: Any, a: Any, h: Any, **others: Any) -> SimpleNamespace:
    """A round with objectives of smoothness L and the step size a / L."""
    return SimpleNamespace(step=Round(h=h * L[:, None, None], **others), a=a / L, L=L)


def _common_is_mean(*, lam: Any, **others: Any) -> SimpleNamespace:
    """A round in which lambda_t is the average of the clients' weights."""
    return _round(lam=lam, common=lam.sum(axis=1) / lam.shape[1], **others)


def rounds(*, longest: float = 1.0, averaged: bool = False) -> rc.Space:
    """One round of C clients; step sizes up to ``longest`` / L_J.

    lambda_t is any point of the simplex or, if ``averaged``, the clients' average.
    """
    vectors = rc.reals("M", "d", magnitude=(0.1, 10.0))
    fields = {
        "b": vectors,
        "h": rc.interval("M", "d", low=-1.0, high=1.0),
        "o": vectors,
        "theta": rc.reals("C", "d", magnitude=(0.1, 10.0)),
        "g": rc.reals("C", "M", "d", magnitude=(0.1, 10.0)),
        "lam": rc.simplex("C", "M"),
        "L": rc.positive(low=0.1, high=10.0),
        "a": rc.positive(low=0.01, high=longest),
    }
    view: Callable[..., Any] = _common_is_mean if averaged else _round
    if not averaged:
        fields["common"] = rc.simplex("M")
    sizes = {"C": (1, 3), "M": (1, 3), "d": (1, 2)}
    meaning = {
        "b": "J^j(theta) is the sum over coordinates of b theta + (L/2) h (theta - o)|theta - o|",
        "h": "see b",
        "o": "see b",
        "theta": "the clients' policies",
        "g": "the clients' stochastic gradients, a row for each objective",
        "lam": "the clients' weights lambda^c",
        "L": "L_J",
        "a": "the step size times L_J",
    }
    if not averaged:
        meaning["common"] = "lambda_t"
    return rc.Space(fields=fields, sizes=sizes, view=view, batched=True, meaning=meaning)

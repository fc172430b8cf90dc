"""The audit: statements of papers as claims that a machine tries hard to break."""

from experiments.audit._claim import Claim, NotChecked, RateClaim, Regime, claim
from experiments.audit._fields import (
    ball,
    contraction,
    interval,
    positive,
    reals,
    simplex,
    sphere,
    whole_numbers,
)
from experiments.audit._space import Space

__all__ = [
    "Claim",
    "NotChecked",
    "RateClaim",
    "Regime",
    "Space",
    "ball",
    "claim",
    "contraction",
    "interval",
    "positive",
    "reals",
    "simplex",
    "sphere",
    "whole_numbers",
]

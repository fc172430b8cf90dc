"""Sizes at which OOD-PL on a language model takes seconds."""

from __future__ import annotations

from typing import Any

#: Domains and models.
DOMAINS: dict[str, Any] = {
    "targets": ("o_proj", "lm_head"),
    "reward_targets": ("v_proj",),
    "rank": 2,
    "reward_rank": 2,
    "domains": 2,
    "prompts": 3,
    "tests": 2,
    "pairs": 6,
    "instances": 3,
}
#: Runs of Algorithm 1 too.
CURVES: dict[str, Any] = {
    **DOMAINS,
    "inner_batch": 2,
    "outer_batch": 2,
    "batch": 2,
    "D": 2,
    "K": 2,
    "adapt": 2,
    "warmup": 2,
    "points": 1,
}
#: Its rivals too.
TINY: dict[str, Any] = {**CURVES, "steps": 2, "rollouts": 1}

"""Instances in which critics have one feature for each state.

So V = phi'w_* and zeta = 0, for every policy and every law of the states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import ratecheck as rc


def _one_feature_a_state(fields: Mapping[str, Any]) -> dict[str, Any]:
    S = fields["phi"].shape[-1]
    return {**fields, "phi": 0 * fields["phi"] + np.eye(S, dtype=int)}


def _zero_for_every_policy(s: Any) -> Any:
    return (s.chains.phi == np.eye(s.chains.phi.shape[-1], dtype=int)).all(axis=(1, 2))


def _definite(s: Any) -> Any:
    # (1 - gamma) min d_pi or more, and d_pi(s) is at least the smallest P(s|s', a)
    return (s.chains.lambda_A > 0) & ((1 - s.chains.gamma) * s.chains.P.min(axis=(1, 2, 3)) > 0)


def tabular(space: rc.Space) -> rc.Space:
    """The processes of a space with these critics, whose weights have the axis S."""
    return replace(
        space,
        fields={**space.fields, "phi": rc.ball("S", "S")},
        sizes={name: ends for name, ends in space.sizes.items() if name != "d2"},
        repair=_one_feature_a_state,
        given={},
        assumes={
            **space.assumes,
            "Assumption 2(c): lambda_A > 0, for every policy": _definite,
            "zeta = 0 for every policy: one feature a state": _zero_for_every_policy,
        },
        constructed="critics have one feature a state",
        credible={"gamma": (0.1, 0.99)},
    )

"""Set-ups that leave an analysis nothing to fit are refused before anything is computed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import ratecheck as rc
from linsys import InputError
from ratecheck._discover import registry

#: What leaves fewer than two points, fewer replicates than an interval needs, or no drift at all.
TOO_LITTLE: list[tuple[str, dict[str, Any], str]] = [
    ("bridge/firm_drift", {"clients": 1}, "`clients`"),
    ("firm/drift_batch", {"replicates": 29}, "`replicates`"),
    ("firm/drift_batch", {"clients": 1}, "`clients`"),
    ("firm/drift_batch", {"doublings": 7, "fit_from": 4.0}, "`doublings`"),
    ("firm/drift_beta", {"replicates": 29}, "`replicates`"),
    ("firm/drift_beta", {"clients": 1}, "`clients`"),
    ("firm/drift_objectives", {"replicates": 29}, "`replicates`"),
    ("firm/drift_objectives", {"fit_from": 24, "most_solved": 48, "most": 48}, "two powers of 2"),
    ("firm/drift_time", {"clients": 1}, "`clients`"),
    ("firm/drift_time", {"objectives": 1}, "`objectives`"),
    ("firm/drift_time", {"times": (1,)}, "`times`"),
    ("firm/drift_local_steps", {"moves": (1,)}, "`moves`"),
    ("firm/drift_step_size", {"counts": (4,)}, "`counts`"),
    ("firm/drift_step_size", {"alphas": (1.0, 3.0)}, "`alphas` must have 2"),
    ("firm/gap_batch", {"batches": (8,)}, "`batches`"),
    ("firm/gap_batch", {"batches": (16, 8)}, "`batches`"),
    ("firm/gap_batch", {"counts": ()}, "`counts`"),
    ("firm/gap_batch", {"product": 0}, "`product`"),
    ("firm/gap_clients", {"counts": (4, 4, 8, 8)}, "`counts`"),
    ("firm/gap_time", {"gamma": -1.0}, "`gamma`"),
    ("fslora/rate_devices", {"counts": (2,)}, "`counts`"),
    ("fslora/rate_devices", {"k": 3}, "`k`"),
    ("fslora/rate_local", {"steps": (1, 2)}, "`steps`"),
    ("fslora/rate_local", {"r": -1}, "`r`"),
    ("fslora/rate_rank", {"ranks": (2,)}, "`ranks`"),
    ("fslora/rate_sketch", {"k": (6,)}, "`k`"),
    ("fslora/rate_t", {"times": (256,)}, "`times`"),
    ("fslora/rate_t", {"times": (16, 256, 1024)}, "eigenvalue of P at most 0.5, .*Corollary"),
    ("fslora/rate_t", {"devices": 64}, "eigenvalue of P at most 0.5"),
    ("fslora/rate_t", {"gamma": 0.1}, "eigenvalue of P at most 0.5, .* given step"),
    ("fslora/rate_t", {"times": (256, 512), "H": 1}, "`times` must have 2 from 2.5 relaxation"),
    ("ood/rate_inner", {"steps": ()}, "`steps`"),
    ("ood/rate_inner", {"betas": ()}, "`betas`"),
    ("ood/rate_inner", {"betas": (0.0, 1.0)}, "`first of betas`"),
    ("ood/rate_inner", {"sampled": (0.005,)}, "`sampled`"),
    ("psl/fig1", {"own": ()}, "`own`"),
    ("psl/rate_nu", {"nu": (0.0625, 0.125)}, "`number of nu`"),
    ("psl/rate_nu", {"exact": 1}, "`exact`"),
    ("psl/reward_error", {"users": ()}, "`users`"),
    ("psl/reward_error", {"tails": ()}, "`tails`"),
]


@pytest.mark.parametrize(("name", "changes", "message"), TOO_LITTLE)
def test_what_leaves_nothing_to_fit_is_refused(
    name: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        dataclasses.replace(registry.get(name).profiles["quick"], **changes)


@pytest.mark.parametrize("name", [*registry.names(), *registry.on_models()])
def test_nothing_but_a_line_of_text_comes_of_an_impossible_value(name: str) -> None:
    """Of no value, or of one alone, in every field of every experiment."""
    config = registry.get(name).profiles["quick"]
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        tried: list[Any] = [(), value[:1]] if isinstance(value, tuple) else []
        if isinstance(value, int | float) and not isinstance(value, bool):
            tried = [-1, 0, 1]
        for other in tried:
            assert "\n" not in refusal(config, {field.name: other})


def refusal(config: rc.Config, changes: dict[str, Any]) -> str:
    """What a configuration says of these values, nothing if it takes them."""
    try:
        dataclasses.replace(config, **changes)
    except InputError as refused:
        return str(refused)
    return ""


def test_grids() -> None:
    rc.check_grid("x", (0.5, 1.0), 0.5)
    rc.check_counts("n", (1, 2, 3), least=3)
    for values, least in (((0.5,), 2), ((1.0, 0.5), 2), ((0.5, 0.5), 2), ((0.0, 0.5), 1)):
        with pytest.raises(InputError, match="`x` must be"):
            rc.check_grid("x", values, 0.1, least)
    with pytest.raises(InputError, match="`n` must be a whole number"):
        rc.check_counts("n", (1, 2.5))  # type: ignore[arg-type]

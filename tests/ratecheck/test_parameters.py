"""Parameters: their ranges, and set-ups that leave an analysis nothing to fit."""

from __future__ import annotations

import dataclasses
import pickle
import re
from dataclasses import dataclass
from inspect import signature
from typing import Any, Literal

import pytest

import ratecheck as rc
from linsys import InputError
from ratecheck._discover import registry
from ratecheck._experiment.parameters import meanings

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
    ("ood/rate_inner", {"betas": (0.0, 1.0)}, "`betas`"),
    ("ood/rate_inner", {"sampled": (0.005,)}, "`sampled`"),
    ("psl/fig1", {"own": ()}, "`own`"),
    ("psl/rate_nu", {"nu": (0.0625, 0.125)}, "`nu`"),
    ("psl/rate_nu", {"exact": 1}, "`exact`"),
    ("psl/reward_error", {"users": ()}, "`users`"),
    ("psl/reward_error", {"tails": ()}, "`tails`"),
]


@pytest.mark.parametrize(("name", "changes", "message"), TOO_LITTLE)
def test_what_leaves_nothing_to_fit_is_refused(
    name: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        dataclasses.replace(registry.find_experiment(name).profiles["quick"], **changes)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*registry.names(), *registry.on_models()])
def test_nothing_but_a_line_of_text_comes_of_an_impossible_value(name: str) -> None:
    """Of no value, or of one alone, in every field of every experiment."""
    config = registry.find_experiment(name).profiles["quick"]
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


class Base(rc.Config):
    """All kinds of parameters."""

    rank: int = rc.param(4, low=1, doc="of the adapters.")
    k: tuple[int, ...] = rc.param((1, 2), low=1, high="rank", doc="at most the rank.")
    alpha: float = rc.param(0.1, above=0, below=1, doc="step size.")
    levels: tuple[float, ...] = rc.param((0.1, 0.5), low=0.1, increasing=True, doc="shares.")
    clip: float | None = rc.param(None, above=0, doc="None: nothing is clipped.")
    kind: Literal["a", "b"] = rc.param("a", doc="of method.")
    exact: bool = rc.param(True, doc="whether anything is sampled.")
    names: tuple[str, ...] = rc.param((), doc="may be none.")
    many: int = rc.param(1, low=1, doc="without an upper limit of its own.")


class Derived(Base):
    """The range of ``rank`` is narrower, its meaning another; ``alpha`` has another default."""

    rank: int = rc.param(8, high=16, doc="of the policy's adapter alone.")
    alpha: float = 0.5


MANY = "`many` must be a whole number of at least 1 and at most 100000000; found"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rank": 0}, "`rank` must be a whole number of at least 1; found 0"),
        ({"rank": 2.0}, "`rank` must be a whole number of at least 1; found 2.0"),
        ({"k": (1, 5)}, "`k` must be a whole number of at least 1 and at most 4; found 5"),
        ({"k": ()}, "`k` must be at least 1 value; found ()"),
        ({"k": 3}, "`k` must be a tuple of values; found 3"),
        ({"alpha": 0.0}, "`alpha` must be a number in (0, 1); found 0"),
        ({"alpha": 1.0}, "`alpha` must be a number in (0, 1); found 1"),
        ({"alpha": float("nan")}, "`alpha` must be a number in (0, 1); found nan"),
        ({"levels": (0.5,)}, "`levels` must be at least 2 increasing values; found (0.5,)"),
        ({"levels": (0.5, 0.1)}, "`levels` must be at least 2 increasing values; found (0.5, 0.1)"),
        ({"levels": (0.0, 0.5)}, "`levels` must be a number in [0.1, inf); found 0"),
        ({"clip": 0.0}, "`clip` must be a number in (0, inf); found 0"),
        ({"kind": "c"}, "`kind` must be one of a, b; found 'c'"),
        ({"exact": 1}, "`exact` must be True or False; found 1"),
        ({"seed": -1}, "`seed` must be a whole number of at least 0; found -1"),
        ({"many": 10**9}, f"{MANY} 1000000000"),
        ({"many": 10**20}, f"{MANY} 100000000000000000000"),
        ({"rank": "x", "k": (1,)}, "`rank` must be a whole number of at least 1; found 'x'"),
    ],
)
def test_a_parameter_outside_its_range_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        Base(**changes)


def test_an_argument_that_no_parameter_has_is_refused_with_those_that_it_has() -> None:
    known = "default, doc, low, high, above, below, least, increasing"
    with pytest.raises(InputError, match=f"^`param` must have arguments of {known}; found at_most"):
        rc.param(1, at_most=2)  # type: ignore[arg-type]
    assert set(known.split(", ")) == {*signature(rc.param).parameters} - {"unknown"}


def test_a_derived_class_keeps_of_a_range_what_it_does_not_say_anew() -> None:
    assert Derived().rank == 8
    for rank in (0, 17):
        with pytest.raises(InputError, match=r"`rank` must be .* at least 1 and at most 16"):
            Derived(rank=rank)
    with pytest.raises(InputError, match="`alpha` must be a number in"):
        Derived(alpha=2.0)
    said = meanings(Derived)
    assert said["rank"] == "of the policy's adapter alone."
    assert said["alpha"] == "step size."
    assert next(iter(said)) == "seed"


@dataclass(frozen=True, kw_only=True)
class Decorated(Base):
    """As ``Derived``, with the decorator."""

    rank: int = rc.param(8, high=16, doc="of the policy's adapter alone.")
    alpha: float = 0.5


@pytest.mark.parametrize("kind", [Derived, Decorated])
def test_a_configuration_is_frozen_with_and_without_the_decorator(kind: type[Base]) -> None:
    config = kind(rank=2, k=(1,))
    assert kind.rank == 8
    assert list(signature(kind).parameters) == [field.name for field in dataclasses.fields(kind)]
    for change in (lambda: setattr(config, "rank", 3), lambda: delattr(config, "rank")):
        with pytest.raises(dataclasses.FrozenInstanceError, match="field 'rank'"):
            change()
    assert dataclasses.replace(config, rank=3) == kind(rank=3, k=(1,)) != config
    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(kind(rank=2, k=(1,))) == hash(config)
    for rank in (0, 17):  # the range of the base, and that of the class
        with pytest.raises(InputError, match=r"`rank` must be .* at least 1 and at most 16"):
            kind(rank=rank)
    assert meanings(kind) == meanings(Derived)


def test_a_parameter_without_an_annotation_is_refused() -> None:
    with pytest.raises(TypeError, match="'rank' is a field but has no type annotation"):
        type("Bare", (rc.Config,), {"rank": rc.param(1), "__annotations__": {}})

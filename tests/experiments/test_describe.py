"""What ``show`` says of parameters: from the docstrings of configurations, and of all on models."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import get_type_hints

import numpy as np
import pytest

from experiments import _registry
from experiments._describe import _setting, description, meanings
from experiments._model import Config
from experiments._options import parse


@dataclass(frozen=True, kw_only=True)
class Base(Config):
    """The set-up.

    Args:
        rank: of the adapters.
        alpha, beta: step sizes; a note: they are
            small.

    Raises:
        InputError: nothing of this is a parameter.
    """

    rank: int = 2
    alpha: float = 0.1
    beta: float = 0.2


@dataclass(frozen=True, kw_only=True)
class Derived(Base):
    """More of it.

    Attributes:
        rank: of the policy's adapter alone.
    """

    plain: int = 0


def test_bases_are_read_and_the_nearest_class_counts() -> None:
    both = "alpha, beta: step sizes; a note: they are small."
    assert meanings(Derived) == {
        "seed": "of all random numbers.",
        "rank": "of the policy's adapter alone.",
        "alpha": both,
        "beta": both,
    }


@pytest.mark.parametrize("name", _registry.on_models())
def test_experiments_on_models_say_what_all_their_parameters_mean(name: str) -> None:
    experiment = _registry.get(name)
    names = [field.name for field in dataclasses.fields(experiment.config_type)]
    assert list(description(experiment)["meanings"]) == names
    assert set(meanings(experiment.config_type)) == set(names)  # and of nothing else


@pytest.mark.parametrize("name", [*_registry.names(), *_registry.on_models()])
def test_every_shown_value_is_what_set_takes(name: str) -> None:
    experiment = _registry.get(name)
    hints = get_type_hints(experiment.config_type)
    for config in experiment.profiles.values():
        for field, value in config.to_dict().items():
            kept = getattr(config, field)
            found = parse(field, _setting(value), hints[field])
            numbers = np.asarray(kept).dtype.kind == "f"  # which are shown with six digits
            assert found == (pytest.approx(kept, rel=1e-5) if numbers else kept)

"""What ``show`` says of parameters: of all of them, and all that is said."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

from ratecheck._discover import registry
from ratecheck._experiment.options import parse
from ratecheck._experiment.parameters import meanings
from ratecheck._report.describe import _setting, description

ALL = [*registry.names(), *registry.on_models()]


@pytest.mark.parametrize("name", ALL)
def test_experiments_say_what_all_their_parameters_mean(name: str) -> None:
    experiment = registry.find_experiment(name)
    names = [field.name for field in dataclasses.fields(experiment.config_type)]
    said = description(experiment)["meanings"]
    assert list(said) == names
    assert all(said.values())
    assert set(meanings(experiment.config_type)) == set(names)  # and of nothing else


@pytest.mark.parametrize(
    ("name", "parameter", "meaning"),
    [
        ("affpcl/fig1", "clusters", "models of clustered learning."),
        ("psl/rate_samples", "copies", "users of every type in (a) and (b)."),
    ],
)
def test_show_prints_the_meaning_beside_the_parameter(
    ratecheck: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    parameter: str,
    meaning: str,
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    [row] = [line for line in ratecheck("show", name).out.splitlines() if meaning in line]
    assert row.split()[0] == parameter


def test_show_says_where_the_code_is(ratecheck: Callable[..., Any]) -> None:
    assert "fslora/figures/fig4.py" in ratecheck("show", "fslora/fig4").out


def test_show_of_an_experiment_names_the_claims_of_its_file(ratecheck: Callable[..., Any]) -> None:
    file = Path(__file__).parents[2] / "examples/gallery/td0/paper.py"
    shown = ratecheck("show", str(file)).out
    assert "Claims: td0.theorem_2a, td0.theorem_2b," in shown
    assert re.search(r"ratecheck audit \S*examples/gallery/td0/paper\.py --show", shown)
    assert "Claims: " not in ratecheck("show", "fslora/fig4").out


def test_a_narrow_screen_has_meanings_below_the_values(
    ratecheck: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for width, beside in (("80", False), ("120", True)):
        monkeypatch.setenv("COLUMNS", width)
        lines = ratecheck("show", "bridge/fslora").out.splitlines()
        assert max(map(len, lines)) <= int(width)
        at = lines.index(next(line for line in lines if re.match(r"rank +16 +8 +64", line)))
        assert lines[at].endswith("  r of the global modules.") is beside
        assert (lines[at + 1] == "  r of the global modules.") is not beside


def test_show_cuts_nothing_off_on_a_narrow_screen(
    ratecheck: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = ratecheck("show", "affpcl/fig5").out.split()
    said = description(registry.find_experiment("affpcl/fig5"))["meanings"]
    assert set(" ".join(said.values()).split()) <= set(shown)


@pytest.mark.parametrize("name", ["affpcl/rate_t", "firm/drift_time", "bridge/fslora"])
def test_show_folds_no_item_of_a_list(
    name: str, ratecheck: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = re.split(r"[,\s]+", ratecheck("show", name).out)
    rows = description(registry.find_experiment(name))["parameters"].values()
    values = [value for row in rows for value in row.values()]
    assert {item for value in values for item in _setting(value).split(",")} <= set(shown)


@pytest.mark.parametrize("name", ALL)
def test_every_shown_value_is_what_set_takes(name: str) -> None:
    experiment = registry.find_experiment(name)
    hints = get_type_hints(experiment.config_type)
    for config in experiment.profiles.values():
        for field, value in config.to_dict().items():
            kept = getattr(config, field)
            parsed = parse(field, _setting(value), hints[field])
            numbers = np.asarray(kept).dtype.kind == "f"  # which are shown with six digits
            assert parsed == (pytest.approx(kept, rel=1e-5) if numbers else kept)

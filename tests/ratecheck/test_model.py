"""Configurations, curves and checks refuse what could not be stored or drawn honestly."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from linsys import InputError
from ratecheck._experiment.options import configure, parse


@pytest.mark.parametrize("seed", [-1, True, 1.0, "1"])
def test_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(InputError, match="`seed` must be a whole number of at least 0"):
        rc.Config(seed=seed)


def test_derived_seeds_differ_by_seed_and_name_and_fit_any_generator() -> None:
    seeds = [rc.Config(seed=s).derive(n, k) for s in (0, 1) for n in "ab" for k in (0.05, 1, "x")]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert rc.Config().derive("a", np.int64(3)) == rc.Config().derive("a", 3)


def test_derived_seeds_are_the_same_for_ever() -> None:
    assert rc.Config(seed=3).derive("samples", 0.05) == 1954019437337026918


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], [1.0]), "`y` of series `s` must be 1-D and as long as `x`"),
        (([1, 2], [1.0, np.nan]), "found NaN"),
        (([1, 2], [1.0, 2.0], [0.0, 1.0]), "both `lo` and `hi` or neither"),
    ],
)
def test_series_are_whole(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        rc.Series("s", "p", *arguments)


def test_infinite_values_are_null_in_json() -> None:
    curve = rc.Series("s", "p", [1, 2], np.array([1.0, np.inf]))
    assert json.loads(json.dumps(curve.to_dict(), allow_nan=False))["y"] == [1.0, None]


def test_checks_hold_finite_numbers_and_python_booleans() -> None:
    with pytest.raises(InputError, match="`measured` of check `c` must be finite"):
        rc.Check("c", 1.0, float("nan"), None, None, True)
    check = rc.Check("c", np.float64(1), np.float32(2), None, None, np.bool_(True))  # type: ignore[arg-type]
    assert json.dumps(check.to_dict())
    assert check.ok is True
    undecided = rc.Check("c", 1.0, 2.0, None, None, None)
    assert json.loads(json.dumps(undecided.to_dict()))["ok"] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "Toy"}, "`id` must look like"),
        ({"blocks": rc.Grid({"n": "nothing"})}, "`blocks` of toy/.* must name .*; found 'nothing'"),
        ({"variable": ""}, "`variable` must be given"),
        ({"kind": "figure"}, "`variable` must be given"),
        ({"profiles": {}}, "`profiles` of toy/decay must be quick and paper"),
        ({"parallel": "gpus"}, "`parallel` of toy/decay must be threads or blocks"),
    ],
)
def test_experiments_are_complete(
    decay: rc.Experiment[Any], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        dataclasses.replace(decay, **change)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("3", int, 3),
        ("1e-3", float, 1e-3),
        ("TRUE", bool, True),
        ("a b", str, "a b"),
        ("x.json", Path | None, Path("x.json")),
        ("none", Path | None, None),
        ("1,2", tuple[int, ...], (1, 2)),
        ("", tuple[int, ...], ()),
        ("1, x", tuple[float, str], (1.0, "x")),
    ],
)
def test_text_becomes_the_field_s_type(text: str, kind: Any, value: Any) -> None:
    assert parse("field", text, kind) == value
    assert type(parse("field", text, kind)) is type(value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("replicates", "must look like key=value"),
        ("replicats=4", r"found 'replicats' \(did you mean replicates\?\)"),
        ("replicates=4.5", "`replicates` must be a whole number; found '4.5'"),
        ("replicates=1", "`replicates` must be at least 2; found 1"),
        ("rates=1;2", "`rates` must be a number"),
        ("rates=[]", r"found '\[\]'; write values with commas: rates=a,b,c"),
        ("loud=yes", "`loud` must be true or false"),
        ("noise=lognorml", r"must be one of lognormal, gamma; .*did you mean lognormal\?"),
        ("seed=-1", "`seed` must be a whole number of at least 0"),
    ],
)
def test_wrong_overrides_are_named(decay: rc.Experiment[Any], override: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        configure(decay, "quick", [override])


def test_overrides_change_the_profile(decay: rc.Experiment[Any]) -> None:
    config = configure(decay, "paper", ["rates=2,3", "noise=gamma"], seed=4)
    assert (config.rates, config.noise, config.replicates, config.seed) == ((2, 3), "gamma", 60, 4)
    with pytest.raises(InputError, match="given once"):
        configure(decay, "quick", ["seed=1"], seed=2)


def test_without_blocks_all_is_one_block() -> None:
    config = rc.Config()
    experiment = rc.Experiment(
        id="toy/one", title="", source="",
        profiles={"quick": config, "paper": config}, compute=lambda config, block, context: {},
        analyse=lambda config, table: rc.Analysis([], []),
    )  # fmt: skip
    assert experiment.blocks(config) == [{}]


def test_what_has_a_variable_is_a_rate() -> None:
    config = rc.Config()
    common: dict[str, Any] = {
        "id": "toy/one", "title": "", "source": "", "profiles": {"quick": config, "paper": config},
        "compute": lambda config, block, context: {},
        "analyse": lambda config, table: rc.Analysis([], []),
    }  # fmt: skip
    assert rc.Experiment(**common).kind == "figure"
    assert rc.Experiment(**common, variable="t").kind == "rate"
    with pytest.raises(InputError, match="`variable` must be given"):
        rc.Experiment(**common, kind="rate")

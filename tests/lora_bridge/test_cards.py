"""Processes that divide the clients of a model compute what one process computes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ratecheck as rc
from experiments.firm.bridge.firm_fig3 import Fig3Config
from linsys import InputError
from lora_bridge import cards
from ratecheck._processes.pool import call_in_processes
from tests.firm.test_bridge import TINY
from tests.lora_bridge import _cards

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Of one process alone, and of two that divide the clients."""
    folder = tmp_path_factory.mktemp("cards")
    calls = [(rank, 2, folder / "meeting", folder / "both") for rank in range(2)]
    both = {k: f.result() for k, f in call_in_processes(_cards.together, calls, 2, timeout=200)}
    return [_cards.together(0, 1, None, folder / "alone"), both[0], both[1]]


def test_two_processes_give_both_what_one_gives(answers: list[Any]) -> None:
    alone, *both = answers
    for name, value in alone.items():
        if isinstance(value, np.ndarray):
            assert value.size > 0
            for other in both:
                np.testing.assert_allclose(other[name], value, rtol=1e-11, atol=1e-12)
                np.testing.assert_array_equal(other[name], both[0][name])


def test_each_computes_a_share(answers: list[Any]) -> None:
    """Passes of one client each: of three clients two, of one client that one."""
    alone, *both = answers
    # losses, the base model, gradients, and gradients of two samples each
    assert alone["passes"] == (1 + 1 + 1 + 2) * (3 + 1)
    assert [one["passes"] for one in both] == [(2 + 2 + 2 + 3) + (1 + 1 + 1 + 1)] * 2


def test_the_first_keeps_the_run_and_both_go_on_from_it(answers: list[Any]) -> None:
    alone, first, second = answers
    assert first["error"].startswith("broken off")
    assert first["saved"] == alone["saved"] > 0
    assert second["saved"] == 0
    for one in (first, second):
        np.testing.assert_array_equal(one["run"], one["again"])


def test_adapters_that_differ_between_processes_are_refused(answers: list[Any]) -> None:
    for one in answers[1:]:
        assert one["refused"].startswith("`X` must be the same in all 2 processes")


def test_a_process_that_fails_ends_the_others(tmp_path: Path) -> None:
    calls = [(rank, 2, tmp_path / "meeting") for rank in range(2)]
    (position, future) = next(call_in_processes(_cards.fails, calls, 2, timeout=200))
    assert position == 1
    assert str(future.exception()) == "the second one fails"


def test_an_experiment_gives_the_same_numbers_with_two_processes(
    tmp_path: Path, model_folder: Path
) -> None:
    experiment = rc.find_experiment("bridge/firm_fig3")
    config = Fig3Config(**TINY, preferences=(0.2, 0.8), model=model_folder)
    one = rc.run(experiment, config, rc.Store(tmp_path / "one"))
    two = rc.run(experiment, replace(config, cards=2), rc.Store(tmp_path / "two"))
    assert list(one) == list(two)
    for name in one:
        if one[name].dtype.kind == "f":
            np.testing.assert_allclose(two[name], one[name], rtol=1e-5, atol=1e-6)


def test_more_cards_than_there_are_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    expected = "`cards` must be at most the 1 of this machine; found 3"
    with pytest.raises(InputError, match=expected), cards.together("cuda", rank=2, processes=3):
        raise AssertionError

"""The notebook on AffPCL runs, says what is true, and its stored outputs are its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests._notebooks import (
    ROOT,
    Executed,
    NotebookSuite,
    names_after,
    read,
    source_up_to,
    tagged,
    text_of,
)

PATH = ROOT / "notebooks" / "is_affpcl_worth_it.ipynb"
SITES = ["city", "harbour", "suburb", "coast", "valley", "desert"]

#: Run after the notebook's own cells: what the assertions below look at.
PROBE = """
import json
print(json.dumps({
    "exact": exact.tolist(), "verdict": verdict, "yes": yes.tolist(), "valid_from": valid_from,
    "predicted": predicted.tolist(), "ratio": ratio.tolist(), "group": group,
    "ceiling": (alone / left_over).tolist(),
    "long_run": (curves["learning alone"] / curves["AffPCL"])[-1].tolist(),
    "pair": {name: values.tolist() for name, values in pair.items()},
    "sizes": sizes.tolist(), "measured": measured.tolist(),
    "target": target.tolist(), "low": low.tolist(), "high": high.tolist(),
    "estimate": estimate.tolist(), "below": below.tolist(), "above": above.tolist(),
}))
"""


class TestAffPCL(NotebookSuite):
    path = PATH
    probe = PROBE
    figures = 2

    @pytest.mark.slow
    def test_five_sites_gain_and_the_desert_loses(self, executed: Executed) -> None:
        _, values = executed
        exact = dict(zip(SITES, values["exact"], strict=True))
        assert values["yes"] == [True] * 5 + [False]
        assert min(exact[name] for name in SITES[:5]) > 3.5
        assert exact["desert"] < 0.5
        # The bound says that all of them gain; the ratio of noises says by how much they do, and
        # what no number of agents exceeds.
        assert min(values["predicted"]) > 2
        np.testing.assert_allclose(values["ratio"], values["long_run"], rtol=1e-5)
        np.testing.assert_allclose(values["measured"][-1][4:], values["ceiling"][4:], rtol=0.05)
        assert values["valid_from"] < 10_000

    @pytest.mark.slow
    def test_an_agent_without_noise_is_better_off_alone(self, executed: Executed) -> None:
        _, values = executed
        alone, together = (np.array(values["pair"][name]) for name in ("learning alone", "AffPCL"))
        assert (together[:, 0] > 100 * alone[:, 0]).all()
        assert (together[:, 1] < alone[:, 1]).all()
        # (1 - alpha)^(2t) with alpha = ln t / t, x_*^1 = 1
        t = np.array([1e3, 1e6, 1e9])
        np.testing.assert_allclose(alone[:, 0], np.exp(2 * t * np.log1p(-np.log(t) / t)), rtol=1e-9)

    @pytest.mark.slow
    def test_speed_up_grows_with_the_group_up_to_a_ceiling(self, executed: Executed) -> None:
        _, values = executed
        measured, sizes = np.array(values["measured"]), np.array(values["sizes"])
        np.testing.assert_allclose(measured[0], values["exact"], rtol=1e-12)
        growth = measured[-1] / measured[0]
        assert sizes[-1] / sizes[0] == 128
        assert growth[0] > 20  # the city is close to the centre
        assert (growth[4:] < 2).all()  # the valley and the desert are not
        assert (np.diff(measured[:, :5], axis=0) > 0).all()

    @pytest.mark.slow
    def test_simulation_and_log_agree_with_the_exact_speed_up(self, executed: Executed) -> None:
        # Seeds are fixed, so that the outcome is too; 6 intervals of 99 % and 6 of 90 % were drawn.
        _, values = executed
        target, low, high = (np.array(values[name]) for name in ("target", "low", "high"))
        assert ((low < target) & (target < high)).all()
        assert (high / low < 1.5).all()
        assert (low[:5] > 1).all()
        assert high[5] < 1
        exact, below, above = (np.array(values[name]) for name in ("exact", "below", "above"))
        assert ((below < exact) & (exact < above)).all()


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Run the cells up to the answer, in this process, on other systems than the notebook's."""

    def run(arrays: dict[str, Any], *edits: tuple[str, str]) -> dict[str, Any]:
        file = tmp_path / "agents.npz"
        np.savez(file, **arrays)
        source = source_up_to(
            read(PATH),
            "answer",
            ("SYSTEM_FILE = None", f"SYSTEM_FILE = {str(file)!r}"),
            ("HORIZON = 10_000", "HORIZON = 10**6"),
            *edits,
        )
        return names_after(source)

    return run


def alike(n: int) -> dict[str, Any]:
    """Agents that do not differ."""
    phi = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, -1.0]])
    A = phi[:, :, None] * phi[:, None, :]
    Phi = np.array([1.0, 0.8, 0.5])[:, None, None] * A
    return {"A": A, "Phi": Phi, "theta": np.ones((n, 2)), "mu": np.tile([0.3, 0.4, 0.3], (n, 1))}


def assert_linear_speed_up(names: dict[str, Any], n: int) -> None:
    assert names["names"] == [f"agent {i + 1}" for i in range(n)]
    assert names["verdict"] == "YES"
    np.testing.assert_allclose(names["exact"], n, rtol=1e-3)
    np.testing.assert_allclose(names["predicted"], n, rtol=1e-12)


@pytest.mark.parametrize("n", [2, 7])
def test_agents_that_do_not_differ_gain_a_factor_of_n(run: Any, n: int) -> None:
    assert_linear_speed_up(run(alike(n)), n)


def test_the_check_of_linear_speed_up_notices_a_wrong_method(run: Any) -> None:
    names = run(alike(4), ('"AffPCL": AffPCL()', '"AffPCL": Independent()'))
    with pytest.raises(AssertionError):
        assert_linear_speed_up(names, 4)


@pytest.mark.slow
def test_without_a_residual_at_the_centre_affpcl_is_learning_alone(run: Any) -> None:
    agents = alike(3)
    gains = np.array([[1.0, 0.5, 0.2], [1.0, 0.8, 0.4], [0.5, 0.8, 1.0]])
    objectives = gains[:, :, None] * (agents["A"] @ np.ones(2))
    system = {"A": agents["A"], "Phi": agents["A"], "b": objectives, "mu": agents["mu"]}
    names = run(system)
    assert names["verdict"] == "NO for all 3 agents"
    np.testing.assert_allclose(names["exact"], 1, rtol=1e-9)
    assert (names["alone"] > 0.005).all()  # there was noise to remove
    # With another Phi they differ by a factor of 1.5 and more: two agents gain, one loses.
    factors = run(system | {"Phi": agents["Phi"]})["exact"]
    assert (np.maximum(factors, 1 / factors) > 1.5).all()
    assert (factors > 1).sum() == 2


def test_the_answer_is_that_five_of_six_gain() -> None:
    stored = read(PATH)
    answer = text_of(stored.cells[tagged(stored, "answer")])
    assert answer.startswith("Is AffPCL worth it? YES for 5 of 6 agents.")

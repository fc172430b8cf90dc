"""The notebook on FIRM's regulariser runs, says what is true, and its outputs are its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests._notebooks import (
    ROOT,
    Executed,
    NotebookSuite,
    names_after,
    read,
    source_up_to,
)

PATH = ROOT / "notebooks" / "what_does_the_regulariser_buy.ipynb"

#: Run after the notebook's own cells: what the assertions below look at.
PROBE = """
import json
print(json.dumps({
    "betas": BETAS, "D": float(median), "names": names,
    "predicted": [float((D / (D + b)).mean()) for b in BETAS],
    "spread": [
        float(spread(min_norm(sampled, beta=b, normalise=True).weights)) for b in BETAS
    ],
    "results": {name: np.array(rows).tolist() for name, rows in results.items()},
    "corners": corners.tolist(),
    "best": [J["J"][-1].mean(axis=0).tolist() for J in traces.values()],
}))
"""


class TestFIRM(NotebookSuite):
    path = PATH
    probe = PROBE
    figures = 2

    @pytest.mark.slow
    def test_beta_matters_where_it_is_comparable_with_the_curvature(
        self, executed: Executed
    ) -> None:
        _, values = executed
        ratio = np.array(values["spread"]) / values["spread"][0]
        predicted = np.array(values["predicted"])
        assert values["betas"][:3] == [0.0, 0.01, 0.05]
        assert values["D"] > 2
        # D / (D + beta) leaves out that the weights themselves move: read roughly, as the text says
        assert (np.abs(np.log(ratio / predicted)) < np.log(1.3)).all()
        assert ratio[2] > 0.95  # the paper's beta
        assert ratio[-1] < 0.5

    @pytest.mark.slow
    def test_a_large_beta_trades_one_reward_for_the_other(self, executed: Executed) -> None:
        _, values = executed
        at = {
            name: dict(zip(("spread", "mean", "true", "gap", *values["names"]), rows, strict=True))
            for name, rows in values["results"].items()
        }
        none, paper, large = at["beta = 0"], at["beta = 0.05"], at["beta = 5"]
        for key in ("spread", "mean", "true"):
            assert large[key][0] + large[key][1] < 0.5 * none[key][0]
            assert paper[key][0] > 0.9 * none[key][0]
        assert at["FedCMOO"]["spread"][0] == 0
        assert large["helpful"][0] > none["helpful"][0] + 0.05
        assert large["harmless"][0] < none["harmless"][0] - 0.05

    @pytest.mark.slow
    def test_nothing_lies_beyond_the_front(self, executed: Executed) -> None:
        _, values = executed
        corners, reached = np.array(values["corners"]), np.array(values["best"])
        for w in np.linspace(0, 1, 21):
            weights = np.array([w, 1 - w])
            assert (reached @ weights).max() < (corners @ weights).max() + 1e-9
        # a front of dominated points would pass the line above
        order = corners[np.argsort(corners[:, 0])]
        assert (np.diff(order[:, 1]) < 0).all()


def test_takes_three_rewards_of_ones_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = tmp_path / "rewards.npz"
    np.savez(
        file, r=rng.random((3, 2, 3)), P=rng.dirichlet(np.ones(3), size=(3, 2)), mu0=np.ones(3) / 3
    )
    source = source_up_to(
        read(PATH),
        "answer",
        ("REWARDS_FILE = None", f"REWARDS_FILE = {str(file)!r}"),
        ("ROUNDS, STEP = 40, 4.0", "ROUNDS, STEP = 3, 4.0"),
        ("RUNS, SEED = 100, 0", "RUNS, SEED = 10, 0"),
    )
    names = names_after(source)
    assert names["process"].M == 3
    assert len(names["pairs"]) == 3
    assert np.isfinite([rows for rows in names["results"].values()]).all()

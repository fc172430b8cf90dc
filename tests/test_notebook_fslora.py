"""The notebook on weak devices runs, says what is true, and its outputs are its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from linsys.sketching.sketch import covariance
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

pytestmark = pytest.mark.slow

PATH = ROOT / "notebooks" / "how_much_should_a_weak_device_train.ipynb"

#: Run after the notebook's own cells: what the assertions below look at.
PROBE = """
import json
from linsys.sketching.exact import global_loss
X = whole[1]
ranks = [R] * (devices - WEAK)
(B, A), = system.modules.split(X)
print(json.dumps({
    "r": R, "sketches": SKETCHES, "weak": WEAK, "devices": devices, "gain": float(gain),
    "prices": [float(price(X, k)) for k in SKETCHES],
    "f": system.mean_loss(X),
    "sketched": [global_loss(system, X, ranks + [k] * WEAK) for k in SKETCHES],
    "BB": (B.T @ B).tolist(),
    "AMA": [(A @ x[i].T @ x[i] @ A.T / len(x[i])).tolist() for i in np.flatnonzero(is_weak)],
    "accuracy": {k: float(final[k][0]) for k in final},
    "spread": [float(np.ptp([reached[-1, 0] for reached, _, _ in done])) for done in runs.values()],
    "bytes": [runs[k][0][2] for k in SKETCHES], "width": width,
    "reachable": float(reachable), "start": float(accuracy(start)),
    "totals": list(totals.values()),
    "seconds": {name: times.tolist() for name, times in seconds.items()},
    "curves": {k: curves[k].tolist() for k in SKETCHES}, "times": times.tolist(),
}))
"""


class TestFSLoRA(NotebookSuite):
    path = PATH
    probe = PROBE

    def test_the_price_is_the_formula_in_the_text(self, executed: Executed) -> None:
        _, values = executed
        r, BB = values["r"], np.array(values["BB"])
        M = [BB * np.array(second) for second in values["AMA"]]
        assert len(M) == values["weak"]
        for k, price, sketched in zip(
            values["sketches"], values["prices"], values["sketched"], strict=True
        ):
            each = [(r / k - 1) * (r * np.trace(one) - one.sum()) / (r - 1) / 2 for one in M]
            assert price == pytest.approx(sum(each) / values["devices"], rel=1e-9, abs=1e-12)
            by_covariance = [(covariance(r, k) * one).sum() / 2 for one in M]
            assert by_covariance == pytest.approx(each, rel=1e-9, abs=1e-12)
            assert sketched - values["f"] == pytest.approx(price, rel=1e-9, abs=1e-12)
        halved = np.array(values["prices"][:-1])
        assert (halved[:-1] > 2 * halved[1:]).all()

    def test_a_small_k_does_harm_and_a_larger_one_helps(self, executed: Executed) -> None:
        _, values = executed
        reached = np.array([values["accuracy"][str(k)] for k in values["sketches"]])
        idle, noise = values["accuracy"]["0"], max(values["spread"])
        ratio = np.array(values["prices"]) / values["gain"]
        assert noise < 0.03
        assert (np.diff(reached) > noise).all()
        assert (reached[ratio > 3] < idle - noise).all()
        assert (reached[ratio < 1.5] > idle + noise).all()
        assert values["start"] < reached.min()
        assert reached.max() < values["reachable"] + noise

    def test_more_rounds_do_not_make_up_for_a_small_k(self, executed: Executed) -> None:
        _, values = executed
        assert values["bytes"] == [k * values["width"] * 8 for k in values["sketches"]]
        for total in values["totals"]:
            row = [
                np.interp(total / sent, values["times"], values["curves"][str(k)])
                for k, sent in zip(values["sketches"], values["bytes"], strict=True)
                if total / sent <= values["times"][-1]
            ]
            assert row == sorted(row)

    def test_every_k_is_timed_in_every_turn(self, executed: Executed) -> None:
        """How long it takes is no matter of a test; that it was measured, and is shown, is."""
        notebook, values = executed
        (table,) = (text_of(c) for c in notebook.cells if c.source.startswith("def timed"))
        assert len(values["seconds"]) == 2
        for times in values["seconds"].values():
            turns = np.array(times)
            assert len(turns) >= 30
            assert turns.shape[1] == len(values["sketches"])
            assert (turns > 0).all()
            for column in turns.T:
                assert f"{1000 * np.median(column):.2f} (" in table
            low = np.quantile(turns, 0.25, axis=0)
            for share in low / low[-1]:
                assert f"), {share:.0%}" in table


def test_takes_a_task_of_ones_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = tmp_path / "task.npz"
    W, x, x_test = rng.normal(size=(4, 6)), rng.normal(size=(8, 20, 6)), rng.normal(size=(50, 6))
    np.savez(file, W0=0 * W, x=x, y=x @ W.T, x_test=x_test, y_test=x_test @ W.T)
    source = source_up_to(
        read(PATH),
        "answer",
        ("TASK_FILE = None", f"TASK_FILE = {str(file)!r}"),
        ("ROUNDS, LOCAL_STEPS, BATCH = 120, 5, 16", "ROUNDS, LOCAL_STEPS, BATCH = 6, 2, 8"),
        ("R, SKETCHES = 16, [1, 2, 4, 8, 16]", "R, SKETCHES = 4, [1, 4]"),
        ("RUNS, SEED = 3, 0", "RUNS, SEED = 1, 0"),
    )
    names = names_after(source)
    assert names["system"].W0.shape == (4, 6)
    assert set(names["final"]) == {0, 1, 4}
    assert np.isfinite(list(names["final"].values())).all()
    assert names["reachable"] == 1.0


def test_the_answer_names_a_k_for_every_budget() -> None:
    stored = read(PATH)
    answer = text_of(stored.cells[tagged(stored, "answer")])
    assert answer.count("bytes a round") == 4
    assert answer.count("sit out") == 1

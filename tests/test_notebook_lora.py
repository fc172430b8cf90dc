"""The notebook that takes AffPCL to a language model runs, says what is true, changes one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from linsys.algorithms import AffPCL
from tests._notebooks import (
    ROOT,
    Executed,
    NotebookSuite,
    execute,
    names_after,
    read,
    source_up_to,
)

pytest.importorskip("torch")

pytestmark = pytest.mark.slow

PATH = ROOT / "notebooks" / "does_affpcl_work_on_a_language_model.ipynb"

#: Run after the notebook's own cells: what the assertions below look at.
PROBE = """
import json
print(json.dumps({
    "said": said, "n": N,
    "errors": {k: {m: e.tolist() for m, e in result[0].items()} for k, result in results.items()},
    "share": {k: result[1].tolist() for k, result in results.items()},
    "clean": clean_share.tolist(), "drawn": drawn_share.tolist(),
}))
"""


class TestLanguageModel(NotebookSuite):
    path = PATH
    probe = PROBE

    @pytest.fixture(scope="class")
    @classmethod
    def executed(cls, tmp_path_factory: pytest.TempPathFactory) -> Executed:
        """With a model made anew."""
        folder = tmp_path_factory.mktemp("notebook")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
            return execute(cls.path, cls.probe, folder)

    def test_agents_that_do_not_differ_are_fedavg_in_both_worlds(self, executed: Executed) -> None:
        _, values = executed
        text = {name: np.array(e) for name, e in values["errors"]["text_agents"].items()}
        np.testing.assert_allclose(text["AffPCL"][0], text["FedAvg"][0], rtol=1e-3)
        assert (text["learning alone"][0, :, -2:].mean() > 1.05 * text["FedAvg"][0, :, -2:]).any()
        for share in values["share"].values():  # 16 draws, five seeds: about 10 %
            assert abs(np.mean(share[0]) * values["n"] - 1) < 0.3
        assert values["said"][0] == "YES"

    def test_agents_that_differ_are_better_off_than_with_fedavg(self, executed: Executed) -> None:
        _, values = executed
        for errors in values["errors"].values():
            last = {name: np.array(e)[1, :, -1].mean() for name, e in errors.items()}
            assert last["AffPCL"] < 0.9 * last["FedAvg"]
            assert last["AffPCL"] < 1.2 * last["learning alone"]
        for share in values["share"].values():
            assert np.mean(share[1]) > 2 * np.mean(share[0])
        assert values["said"][1:] == ["NOT DECIDED", "YES"]

    def test_the_noise_of_drawn_labels_stays(self, executed: Executed) -> None:
        _, values = executed
        assert min(values["drawn"]) > 2 * np.mean(values["clean"])


def test_one_line_takes_it_from_the_linear_system_to_the_model() -> None:
    cells = [c.source for c in read(PATH).cells if c.cell_type == "code"]
    by_source = {
        name: source[source.index(f"source = {name}") :].splitlines()
        for name in ("linear_agents", "text_agents")
        for source in cells
        if f"source = {name}" in source
    }
    linear, text = by_source.values()
    assert [a == b for a, b in zip(linear, text, strict=True)] == [False, True, True]


@pytest.mark.parametrize(("rounds", "left"), [(50, True), (0, False)])
def test_the_noise_notices_a_head_that_has_learned_nothing(
    rounds: int, left: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = source_up_to(
        read(PATH),
        "source",
        ("[0.0, 1.0], 5, 60", "[0.0], 2, 30"),
        ("steps=150", "steps=0"),
        ("rounds=50", f"rounds={rounds}"),
    )
    names = names_after(source)
    made = names["text_agents"](0.0, 0)
    share = names["noise"](made, AffPCL().init(made.start))
    assert (share < 2 / names["N"]) == left

"""The notebook on sharing a reward model runs, says what is true, and its outputs are its own."""

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

PATH = ROOT / "notebooks" / "should_these_users_share_a_reward_model.ipynb"

#: Run after the notebook's own cells: what the assertions below look at.
PROBE = """
import json
everything = example()
print(json.dumps({
    "n": float(n), "sizes": [d1, d2], "group": group, "alone": alone, "shared": shared, "own": own,
    "numbers": {name: float(p) for name, (_, p) in methods.items()},
    "gains": {name: [float(g.mean()) for g in gains] for name, gains in curves.items()},
    "advantage": float(advantage.mean()), "noise": float(noise), "misfit": float(misfit),
    "prices": [float(p) for p in prices], "users": int(everything["user"].max()) + 1,
    "within": {name: float(g.mean()) for name, g in regrouped.items()},
}))
"""


class TestPShareLoRA(NotebookSuite):
    path = PATH
    probe = PROBE

    @pytest.mark.slow
    def test_the_strangers_and_nobody_else_are_better_alone(self, executed: Executed) -> None:
        _, values = executed
        assert values["users"] == 12
        assert values["alone"] == [9, 10, 11]
        assert values["group"] == list(range(9))

    @pytest.mark.slow
    def test_the_prices_are_numbers_of_parameters(self, executed: Executed) -> None:
        _, values = executed
        d1, d2 = values["sizes"]
        N, numbers = values["users"], values["numbers"]
        assert numbers["own, full"] == d1 * d2
        assert numbers["own, k = 1"] == d1 + d2 - 1
        assert numbers["shared, k = 1"] == pytest.approx(d2 + (d1 - 1) / N)
        assert numbers["shared, k = 2"] == pytest.approx(2 * d2 + 2 * (d1 - 2) / N)
        assert numbers["one for all"] == pytest.approx(d1 * d2 / N)
        k = int(values["shared"].split()[-1])
        members = len(values["group"])
        assert values["prices"][0] == pytest.approx(k * d2 + k * (d1 - k) / members)
        assert values["prices"][1] == numbers[values["own"]]
        gap = (values["prices"][1] - values["prices"][0]) / (2 * values["n"])
        assert values["misfit"] == pytest.approx(gap - values["advantage"])

    @pytest.mark.slow
    def test_sharing_pays_in_the_group_and_more_so_with_few_comparisons(
        self, executed: Executed
    ) -> None:
        _, values = executed
        assert values["advantage"] > values["noise"] > 0
        within = values["within"]
        assert values["shared"] == max(("shared, k = 1", "shared, k = 2"), key=within.__getitem__)
        assert max(within, key=within.__getitem__) == values["shared"]
        gains = values["gains"]
        lead = np.subtract(gains["shared, k = 1"], gains["own, full"])
        assert (np.diff(lead) < 0).all()  # over ever more comparisons
        assert lead[0] > 0


@pytest.mark.slow
def test_takes_comparisons_of_ones_own(tmp_path: Path) -> None:
    """Three users who want the same: nobody is better alone, and one for all is best."""
    rng = np.random.default_rng(0)
    file = tmp_path / "comparisons.npz"
    features, user = rng.normal(size=(120, 4, 2)), rng.permutation(np.arange(120) % 3)
    labels = rng.random(120) < 1 / (1 + np.exp(-2 * features[:, 0, 0]))
    np.savez(file, features=features, labels=labels.astype(float), user=user)
    source = source_up_to(
        read(PATH),
        "answer",
        ("COMPARISONS_FILE = None", f"COMPARISONS_FILE = {str(file)!r}"),
        ("RANKS = [1, 2]", "RANKS = [1]"),
        ("FOLDS, RIDGE, SEED = 5, 0.1, 0", "FOLDS, RIDGE, SEED = 3, 1.0, 0"),
    )
    names = names_after(source)
    assert (names["d1"], names["d2"], names["N"]) == (4, 2, 3)
    assert names["alone"] == []
    assert all(len(curve[-1]) == 120 for curve in names["curves"].values())
    assert names["final"]["one for all"].mean() > names["final"]["own, full"].mean()


@pytest.mark.slow
def test_every_comparison_is_predicted_by_a_fit_that_has_not_seen_it() -> None:
    cells = [c for c in read(PATH).cells if c.cell_type == "code"]
    (at,) = (i for i, c in enumerate(cells) if c.source.startswith("rng ="))
    source = "\n".join(cell.source for cell in cells[: at + 1]).replace("each=300", "each=15")
    names = names_after(source)
    fold, user, seen = names["fold"], names["user"], []

    def spy(data: Any) -> Any:
        seen.append(data)
        return names["fit_full"](data, ridge=1.0)

    names["gains"](spy)
    assert len(seen) == 5
    for f, data in enumerate(seen):
        expected = [np.sort(names["features"][(fold != f) & (user == i)][:, 0, 0]) for i in (0, 7)]
        for i, values in zip((0, 7), expected, strict=True):
            rows = slice(data.starts[i], data.starts[i + 1])
            np.testing.assert_array_equal(np.sort(data.features[rows, 0, 0]), values)


def test_the_answer_says_who_shares_and_until_when() -> None:
    stored = read(PATH)
    answer = text_of(stored.cells[tagged(stored, "answer")])
    assert answer.count("Better alone: 9, 10, 11.") == 1
    assert answer.count("stops paying") == 1

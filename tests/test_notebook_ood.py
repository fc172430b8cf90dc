"""The notebook on rewards in new domains runs, says what is true, and its outputs are its own."""

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
    tagged,
    text_of,
)

PATH = ROOT / "notebooks" / "does_my_reward_model_survive_a_new_domain.ipynb"

#: Run after the notebook's own cells: what the assertions below look at.
PROBE = """
import json
print(json.dumps({
    "survived": survived.tolist(), "kept": float(kept), "names": names,
    "scores": scores.tolist(), "betas": [float(beta) for beta in betas],
    "by_beta": list(by_beta.values()), "curve": curves.mean(axis=0).tolist(),
    "linear": [
        [
            float(np.abs(a.phi / beta - b.phi).max() / np.abs(b.phi).max())
            for power in (0, 2)
            for a, b in [(ends(beta, 0.05 * beta**power), ends(1.0, 0.05))]
        ]
        for beta in (2.0, 8.0)
    ],
}))
"""

#: Training with a linear reward, for the claim of Section 4.
LINEAR = """
from linsys.bilevel import LinearReward


def ends(beta, eta):
    plain = [replace(d, reward=LinearReward(d.reward.xi)) for d in others[0]]
    training = MetaTraining(alpha=0.05, beta=beta, D=20, eta=eta, K=40, inner_batch=None)
    oracles = training.oracles(plain)
    start = training.init(Start(np.zeros(q), np.zeros(q)), oracles)
    return training.run(start, oracles)[-1]

"""


class TestOODPL(NotebookSuite):
    path = PATH
    probe = LINEAR + PROBE

    @pytest.mark.slow
    def test_most_of_the_reward_survives_and_preferences_help(self, executed: Executed) -> None:
        _, values = executed
        new, own = np.array(values["survived"]).T
        assert values["kept"] == pytest.approx((new.mean() - 0.5) / (own.mean() - 0.5))
        scores = dict(zip(values["names"], np.array(values["scores"]).T, strict=True))
        for name, reached in scores.items():
            if name != "SFT":
                assert (reached > scores["SFT"]).all()
        assert values["curve"][-1] > values["curve"][0] + 0.1

    @pytest.mark.slow
    def test_the_answer_says_what_the_intervals_say(self, executed: Executed) -> None:
        notebook, values = executed
        scores = dict(zip(values["names"], np.array(values["scores"]).T, strict=True))
        answer = text_of(notebook.cells[tagged(notebook, "answer")])
        for name in ("reward", "reward, fitted beta", "HPL"):
            lead = scores["OOD-PL"] - scores[name]
            half = 2.5706 * lead.std(ddof=1) / np.sqrt(len(lead))  # Student's, six domains
            text = f"OOD-PL against {name}: {lead.mean():+.1%} ± {half:.1%}, "
            assert text + "not to be told apart" in answer
            assert abs(lead.mean()) < half
        assert "OOD-PL is not shown to be better" in answer

    @pytest.mark.slow
    def test_beta_is_a_step_size_for_a_linear_reward_alone(self, executed: Executed) -> None:
        _, values = executed
        for same_step, scaled_step in values["linear"]:
            assert scaled_step < 1e-12 < 0.1 < same_step
        one, large = values["by_beta"][1], values["by_beta"][-1]
        assert one[0] == one[1]  # at beta = 1 both columns are one run
        assert max(large) < one[0] - 0.05


@pytest.mark.slow
def test_takes_domains_of_ones_own(tmp_path: Path) -> None:
    rng, file = np.random.default_rng(0), tmp_path / "domains.npz"
    T, X, Y, q, n = 4, 6, 4, 2, 80
    xi = rng.normal(size=(T, X, Y, q))
    x, y = rng.integers(X, size=(T, n)), rng.integers(Y, size=(T, n))
    other = (y + rng.integers(1, Y, size=(T, n))) % Y
    # the first feature decides the preferences of every domain, nine of ten times
    at = np.arange(T)[:, None]
    swap = (xi[at, x, y, 0] < xi[at, x, other, 0]) != (rng.random((T, n)) < 0.1)
    y, other = np.where(swap, other, y), np.where(swap, y, other)
    data = {"log_h": np.zeros((T, X, Y)), "mu_hat": rng.dirichlet(np.full(Y, 20.0), size=(T, X))}
    prompts = np.full((T, X), 1 / X)
    np.savez(file, xi=xi, prompts=prompts, x=x, y=y, y_other=other, **data)
    source = source_up_to(
        read(PATH),
        "answer",
        ("DOMAINS_FILE = None", f"DOMAINS_FILE = {str(file)!r}"),
        ("INNER, ETA, OUTER = 0.05, 60, 0.3, 400", "INNER, ETA, OUTER = 0.05, 20, 0.3, 40"),
    )
    names = names_after(source)
    assert names["scores"].shape == (4, 6)
    assert names["survived"].mean() > 0.75  # one reward is right everywhere
    assert names["scores"][:, -1].mean() > names["scores"][:, 0].mean() + 0.1

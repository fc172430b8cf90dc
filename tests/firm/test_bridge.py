"""FIRM's figures on language models: runs, what is measured along them, what checks are made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ratecheck as rc

pytest.importorskip("torch")

import torch

from experiments.firm._comparison import (
    rewards_kept,
    rewards_match,
    weights_match,
    without_gain,
)
from experiments.firm.bridge import (
    _firm_comparison,
    _firm_runs,
    firm_drift,
    firm_fig1,
    firm_fig2,
    firm_fig3,
    firm_fig4,
    firm_fig5,
    firm_fig6,
)
from experiments.firm.bridge._firm import Arm, FirmConfig, FirmSetup
from linsys import InputError
from mgda.drift import disagreement
from mgda.fedcmoo import FedCMOO
from mgda.firm import FIRM
from tests._small_runs import Change, on_model, rows, swapped

TINY: dict[str, Any] = {
    "targets": ("q_proj", "o_proj"),
    "rank": 2,
    "clients": 2,
    "prompts": 6,
    "tests": 5,
    "batch": 4,
    "minibatch": 2,
    "epochs": 1,
    "rounds": 4,
    "length": 5,
    "max_length": 8,
    "seeds": 2,
}


SMALL: dict[ModuleType, Any] = {
    firm_fig1: firm_fig1.Fig1Config(**TINY),
    firm_fig2: firm_fig2.Fig2Config(**TINY),
    firm_fig3: firm_fig3.Fig3Config(**TINY, preferences=(0.2, 0.8)),
    firm_fig4: firm_fig4.Fig4Config(**TINY),
    firm_fig5: firm_fig5.Fig5Config(**TINY),
    firm_fig6: firm_fig6.Fig6Config(**TINY, more_clients=3),
    firm_drift: firm_drift.FirmDriftConfig(
        **TINY, responses=6, draws=20, batches=(2, 4, 8), shown=4
    ),
}


def behind(arm: str) -> Change:
    """The rewards of one arm rise by 0.02, those of others by 0.1, as ``analysed`` has it."""

    def change(table: rc.Table) -> rc.Table:
        lower = 8.0 * rows(table, arm=arm)
        return rc.Table({**table, **{f"end_{j}": table[f"end_{j}"] - lower for j in (1, 2)}})

    return change


def growing(table: rc.Table) -> rc.Table:
    """A drift in proportion to beta."""
    return rc.Table({**table, "drift": table["beta"]})


class TestBridge(rc.ExperimentSuite):
    small = SMALL
    loose = tuple(SMALL)
    slow = frozenset(SMALL)
    contradicted = (
        (firm_fig1, behind(firm_fig1.FIRM), "reward for aeiou: (FIRM − FedCMOO-A) / gain"),
        (firm_fig2, behind("β = 0"), "reward for nrst: (β = 0 − β = 0.05) / gain (conf"),
        (firm_fig3, swapped("arm", "p = 0.2", "p = 0.8"), "smallest increase of the mean weight"),
        (firm_fig4, behind(firm_fig4.OTHERS), "reward for nrst: (different rewards"),
        (firm_fig5, behind("Dirichlet(0.3)"), "reward for nrst: (Dirichlet(0.3)"),
        (firm_fig6, behind("C = 3"), "reward for aeiou: (C = 3"),
        (firm_drift, growing, "first policy, small β: as derived"),
    )

    @classmethod
    def analysed(cls, module: ModuleType, table: rc.Table | None = None) -> rc.Analysis:
        """Nothing is learned here: rewards rise by a tenth and what they do by chance."""
        table = cls.table(module) if table is None else table
        starts = {name: f"start{name[3:]}" for name in table if name.startswith("end_")}
        risen = {
            end: table[start] + 0.1 + 0.01 * (table[end] - table[start])
            for end, start in starts.items()
        }
        return super().analysed(module, rc.Table({**table, **risen}))


_model = on_model(TestBridge)


@pytest.mark.slow
@pytest.mark.parametrize("module", list(SMALL))
def test_notes_name_the_model(module: Any, model_folder: Path) -> None:
    analysis = TestBridge.analysed(module)
    assert any(model_folder.name in note for note in analysis.notes)
    if module is not firm_drift:
        held_out = "on 4 held-out prompts, at most a quarter of all, for tests = 5"
        assert any(held_out in note for note in analysis.notes)


@pytest.mark.slow
def test_a_run_is_that_of_the_algorithm_and_is_repeated(model_folder: Path, tmp_path: Path) -> None:
    setup = FirmSetup(FirmConfig(**TINY, model=model_folder))
    config, arm = setup.config, Arm(setup.config.firm())
    first = _firm_runs.train(setup, arm, "test", 0, rc.Context(), alpha=0.01, betas=(0.0, 0.01))
    assert first["weights"].shape == (8, 2, 2)
    np.testing.assert_allclose(first["weights"].sum(axis=-1), 1.0)
    # the beta of the run itself
    np.testing.assert_allclose(first["others"][:, 1], first["drift"], rtol=1e-6, atol=1e-15)
    kept = _firm_runs.train(setup, arm, "test", 0, rc.Context(folder=tmp_path), alpha=0.01)
    for name in ("weights", "scores", "ends", "kl_token"):
        np.testing.assert_array_equal(kept[name], first[name])
    other = _firm_runs.train(setup, arm, "test", 1, rc.Context(), alpha=0.01)
    assert not np.array_equal(other["scores"], first["scores"])
    server = Arm(lambda alpha: FedCMOO(alpha=alpha, **config.alike))
    same = _firm_runs.train(setup, server, "test", 0, rc.Context(), alpha=0.01)
    assert (same["drift"] == 0.0).all()
    np.testing.assert_array_equal(same["scores"][0], first["scores"][0])  # one first rollout


def test_drift_from_inner_products_is_the_drift() -> None:
    gradients = np.random.default_rng(0).standard_normal((3, 7, 2))
    recorded: dict[str, Any] = {}
    for beta in (0.0, 0.3):
        weights = FIRM(alpha=1.0, beta=beta).solve(gradients)
        recorded = _firm_runs.looked_at(torch.tensor(gradients), weights, (0.0, 0.3))
        exact = disagreement(gradients, weights)
        np.testing.assert_allclose(recorded["drift"], exact, rtol=1e-10)
        np.testing.assert_allclose(recorded["others"][int(beta > 0)], exact, rtol=1e-10)
    a, b = gradients[1].T
    assert recorded["cosine"][1] == pytest.approx(a @ b / np.sqrt((a @ a) * (b @ b)))


def test_responses_of_the_same_rewards_are_named() -> None:
    with pytest.raises(InputError, match="4 responses must differ in a reward"):
        firm_drift.Responses.of(torch.zeros(4, 9, 2))


def test_drawn_minibatches_are_means_of_responses() -> None:
    """Inner products, drift and weights against the gradients themselves."""
    gradients = np.random.default_rng(1).standard_normal((5, 9, 2))
    known = firm_drift.Responses.of(torch.tensor(gradients))
    rng = np.random.default_rng(2)
    G = known.drawn(3, 4, 6, rng)
    shares = np.random.default_rng(2).multinomial(4, np.full(5, 0.2), size=(6, 3)) / 4
    batch = np.einsum("rcn,ndj->rcdj", shares, gradients)
    expected = np.einsum("rcdj,redk->rcjek", batch, batch)
    np.testing.assert_allclose(G, expected, atol=1e-12)
    weights = firm_drift.weights_of(G, 0.3)
    np.testing.assert_allclose(weights, FIRM(alpha=1.0, beta=0.3).solve(batch), atol=1e-10)
    np.testing.assert_allclose(firm_drift.drift_of(G, weights), disagreement(batch, weights))
    deviation = gradients - gradients.mean(axis=0)
    ratio = (deviation**2).sum() / 5 / (gradients.mean(axis=0) ** 2).sum()
    assert known.noise == pytest.approx(ratio)
    own = np.einsum("rcjck->rcjk", expected)
    scaled = own / (np.einsum("rcjj->rc", own) / 2)[..., None, None]
    exact = np.linalg.cond(scaled + 0.05 * np.eye(2))
    np.testing.assert_allclose(firm_drift.conditions(G, 0.1), exact, rtol=1e-8)


@pytest.mark.parametrize("beta", [1e2, 1e3, 1e4])
def test_the_derived_exponent_of_large_beta(beta: float) -> None:
    """Between -2 and -2 beta / (beta + 4), for any gradients: local slopes of drawn ones."""
    known = firm_drift.Responses.of(np.random.default_rng(3).standard_normal((20, 30, 2)))
    G = known.drawn(2, 4, 400, np.random.default_rng(4))
    one, two = (
        firm_drift.drift_of(G, firm_drift.weights_of(G, b)).mean() for b in (beta, 1.1 * beta)
    )
    slope = np.log(two / one) / np.log(1.1)
    # clients differ in 1 - g, which can move the slope of a difference by as much again
    assert -2.0 - 8.0 / beta <= slope <= -2.0 + 8.0 / beta
    assert abs(slope + 1.0) > 0.9


def test_rewards_that_are_almost_one() -> None:
    first, second, _ = FirmSetup(FirmConfig(**TINY)).rewards()
    alike = firm_fig2.almost_one((first, second), 0.9)
    texts = (["?"] * 3, ["aeiou", "nrstn", "xayan"])
    a, b = (np.asarray(r(*texts)) for r in (first, second))
    for j, reward in enumerate(alike):
        expected = 0.45 * (a + b) + 0.1 * (a, b)[j]
        np.testing.assert_allclose(np.asarray(reward(*texts)), expected)
        assert (reward.low, reward.high) == pytest.approx((0.0, 1.0))


#: What a run says of itself at its last step.
SAID: dict[str, Any] = {
    "t": FirmConfig().steps[-1],
    "what": "a model",
    "alpha": 0.003,
    "tests": 4,
    "kl_token": 0.1,
    "kl_sequence": 1.0,
}


def compared(ours: float, theirs: float) -> rc.Table:
    """Ends and weights of two arms, seeds nearly alike: gains ``ours`` and ``theirs``."""
    rng, parts = np.random.default_rng(5), []
    for arm, level in (("ours", ours), ("theirs", theirs)):
        for draw in range(4):
            noise = 1e-3 * rng.standard_normal()
            for t in (1, 2, 3):
                rewards = {f"end_{j}": 0.5 + level + noise for j in (1, 2)}
                starts = {f"start_{j}": 0.5 for j in (1, 2)}
                row = {"arm": arm, "draw": draw, "t": t, "weight": level + 0.01 * rng.normal()}
                parts.append(row | rewards | starts)
    return rc.Table({key: np.array([part[key] for part in parts]) for key in parts[0]})


@pytest.mark.parametrize(
    ("gains", "match", "kept", "progress", "weights"),
    [
        ((1.0, 1.0), True, True, True, None),
        ((1.5, 1.0), False, True, True, False),
        ((0.8, 1.0), False, False, True, False),
        ((0.3, 1.0), False, False, False, False),
    ],
)
def test_claims_hold_and_fail(
    gains: tuple[float, float], match: bool, kept: bool, progress: bool, weights: bool | None
) -> None:
    config, table = FirmConfig(), compared(*gains)
    arms = ("ours", "theirs")
    assert {c.ok for c in rewards_match(config.objectives, table, *arms)} == {match}
    assert {c.ok for c in rewards_kept(config.objectives, table, *arms, "kept")} == {kept}
    assert _firm_comparison.progress(table, *arms, 0.5, "substantial").ok is progress
    if weights is not None:
        assert weights_match(table, *arms).ok is weights


def test_the_switches_are_said() -> None:
    rows = compared(1.0, 1.0)
    said = {name: np.array([v] * rows.rows) for name, v in SAID.items()}
    table = rc.Table({**rows, **said, "t": np.where(rows["t"] == 3, SAID["t"], rows["t"])})
    for options, text in (
        (
            {},
            "coefficient from 0.2, target 0.03 per token); advantages whitened; losses are means ",
        ),
        ({"kl_target": None, "kl": "inside"}, "inside the weighted objectives (k1, coefficient fi"),
        ({"average": "sum", "whitened": False}, "not whitened; losses are means over responses, "),
    ):
        assert text in _firm_comparison.notes_on_runs(FirmConfig(**options), table)[2]


def test_what_is_compared_with_training_that_does_not_help_is_not_decided() -> None:
    table, config = compared(0.1, -0.1), FirmConfig()
    assert {c.ok for c in rewards_match(config.objectives, table, "ours", "theirs")} == {None}
    assert {c.ok for c in rewards_match(config.objectives, table, "theirs", "ours")} != {None}
    (line,) = without_gain(table)
    both = rc.Table({**table, "setting": np.array(["conflict"] * table.rows)})
    assert without_gain(both) == [line.replace("; what", " (conflict); what")]
    assert line.startswith("training does not help: theirs changes the mean of both rewards by -")


def test_half_of_the_clients_have_another_reward(model_folder: Path) -> None:
    config = firm_fig4.Fig4Config(**{**TINY, "clients": 4}, model=model_folder)
    setup = FirmSetup(config)
    known = setup.rewards()
    arm = Arm(
        config.firm(),
        rewards=lambda c, rewards: (rewards[0] if c % 2 == 0 else rewards[2], rewards[1]),
    )
    own = setup.alignment(arm, "test", 0).rewards
    assert [row[0] is known[0] for row in own] == [True, False, True, False]  # type: ignore[index]
    assert all(row[1] is known[1] for row in own)  # type: ignore[index]


@pytest.mark.slow
def test_arms_keep_runs_of_their_own(model_folder: Path, tmp_path: Path) -> None:
    """Two arms that differ in their rewards alone, with a place to go on from."""
    config = firm_fig4.Fig4Config(**{**TINY, "length": 12, "batch": 16}, model=model_folder)
    kept, plain = (
        firm_fig4.compute(config, {"draw": 0}, rc.Context(folder=place))
        for place in (tmp_path, None)
    )
    for name in ("reward_1", "weight"):
        np.testing.assert_array_equal(kept[name], plain[name])
    one, other = np.asarray(kept["reward_1"]).reshape(2, -1)
    assert not np.array_equal(one, other)


def test_shares_of_prompts(model_folder: Path) -> None:
    config = FirmConfig(**{**TINY, "prompts": 40}, model=model_folder)
    setup = FirmSetup(config)
    even, own = (setup.alignment(Arm(config.firm(), shares=a), "test", 0) for a in (None, 0.3))
    assert [len(p) for p in even.prompts] == [40, 40]
    assert sum(len(p) for p in own.prompts) == 80
    assert len({len(p) for p in own.prompts}) == 2
    more = setup.alignment(Arm(config.firm(), clients=5), "test", 0)
    assert [len(p) for p in more.prompts] == [16] * 5
    train, tests = setup.prompts("test", 0)
    assert len(set(tests)) == 5
    assert " cut " not in FirmSetup(replace(config, max_length=512)).said_of_model()
    # the first token stays, and as many of a prompt as there is room for
    lengths = sorted(1 + len(text) for text in [*(e.prompt for e in train), *tests])
    cut = replace(config, max_length=lengths[-3] - 1)
    known = sum(length >= lengths[-3] for length in lengths)
    said = f"; {known} of 85 samples cut to {lengths[-3] - 1} tokens; rewards: "
    assert said in FirmSetup(cut).said_of_model()


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (FirmConfig, {"minibatch": 3}, "`minibatch` must divide batch = 4"),
        (FirmConfig, {"rounds": 3}, "`rounds`"),
        (FirmConfig, {"reward_models": (Path("a"),)}, "`reward_models` must be 2 folders or none"),
        (firm_fig4.Fig4Config, {"reward_models": (Path("a"),) * 2}, "must be 3 folders or none"),
        (firm_fig2.Fig2Config, {"clients": 3}, "`clients` must be 2"),
        (firm_fig2.Fig2Config, {"beta": 0.0}, "`beta`"),
        (firm_fig3.Fig3Config, {"preferences": (0.5, 0.2)}, "`preferences`"),
        (firm_fig5.Fig5Config, {"concentration": 0.0}, "`concentration`"),
        (firm_fig6.Fig6Config, {"more_clients": 2}, "`more_clients` must be above clients"),
        (firm_drift.FirmDriftConfig, {"batches": (4, 2, 8)}, "`batches`"),
        (firm_drift.FirmDriftConfig, {"batches": (0, 2, 8)}, "`batches` must be a whole number"),
        (firm_drift.FirmDriftConfig, {"shown": 10}, "`shown` must be one of batches"),
        (firm_drift.FirmDriftConfig, {"conditioned": -1.0}, "`conditioned`"),
        (FirmConfig, {"gammas": ()}, "`gammas`"),
        (FirmConfig, {"temperature": 0.0}, "`temperature`"),
        (FirmConfig, {"clip": -1.0}, "`clip`"),
        (FirmConfig, {"lam": 2.0}, "`lam`"),
        (FirmConfig, {"critic_step": 0.0}, "`critic_step`"),
        (FirmConfig, {"kl_start": -1.0}, "`kl_start`"),
        (FirmConfig, {"kl_target": 0.0}, "`kl_target`"),
        (FirmConfig, {"kl_horizon": 0}, "`kl_horizon`"),
        (FirmConfig, {"max_length": 0}, "`max_length`"),
    ],
)
def test_refused(config: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        config(**{**TINY, **options})


def test_too_few_prompts(model_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"prompt": "a\\n\\nAssistant:"}\n', encoding="utf-8")
    config = replace(FirmConfig(**TINY, model=model_folder), data=file)
    with pytest.raises(InputError, match="`data` must give one to each of 2 clients; found 1, and"):
        FirmSetup(config).prompts("test", 0)
    few = firm_fig6.Fig6Config(**{**TINY, "prompts": 3}, more_clients=7, model=model_folder)
    with pytest.raises(InputError, match="`prompts` must give one to each of 7 clients; found 6, "):
        FirmSetup(few).prompts("test", 0)
    assert len(FirmSetup(replace(few, more_clients=6)).prompts("test", 0)[0]) == 6

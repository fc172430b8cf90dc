"""AffPCL on a language model: texts are dealt as described, and results say what came out."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from experiments.affpcl.bridge import affpcl
from experiments.affpcl.bridge._text import deal, probabilities, read
from linsys import InputError
from ratecheck._run.runner import joined
from tests._small_runs import failed, on_model, times

pytest.importorskip("torch")
from lora_bridge.bank import AdapterBank

TINY = affpcl.AffPCLConfig(
    levels=(0.0, 1.0), agents=2, samples=5, tests=8, seeds=2, rounds=6, batch=2, warmup=4
)


SMALL = {affpcl: TINY}


class TestBridge(rc.ExperimentSuite):
    small = SMALL
    loose = tuple(SMALL)
    slow = frozenset(SMALL)
    contradicted = (
        (affpcl, times(3.0, "excess", method="AffPCL", level=0.0), "AffPCL / FedAvg (δ = 0)"),
        (affpcl, times(3.0, "excess", method="FedAvg"), "FedAvg / Independent (δ = 0)"),
    )


_model = on_model(TestBridge)


@pytest.fixture(scope="module")
def table() -> rc.Table:
    return TestBridge.table(affpcl)


@pytest.fixture
def config() -> affpcl.AffPCLConfig:
    return TestBridge.small[affpcl]


@pytest.mark.slow
def test_docstrings_have_two_properties_that_say_little_of_each_other() -> None:
    corpus = read(None)
    assert len(corpus.texts) == len(set(corpus.texts)) > 1000
    assert all(8 <= len(text) <= 24 for text in corpus.texts)
    assert ((corpus.properties.mean(0) > 0.4) & (corpus.properties.mean(0) < 0.6)).all()
    assert abs(np.corrcoef(corpus.properties.T)[0, 1]) < 0.15
    place = corpus.texts.index("object with attributes")
    assert corpus.properties[place].tolist() == [1.0, 1.0]  # .. e s
    classes = 2 * corpus.properties[:, 0] + corpus.properties[:, 1]
    np.testing.assert_array_equal(corpus.domains, classes)


def test_agents_have_texts_of_their_own() -> None:
    corpus, lambdas = read(None), np.array([0.0, 0.25, 1.0])
    people, test = deal(corpus, np.random.default_rng(0), lambdas, 50, 100, 0.5)
    same, _ = deal(corpus, np.random.default_rng(0), lambdas, 50, 100, np.inf)
    everything = np.concatenate([test, *(p.chosen for p in people)])
    assert len(set(everything.tolist())) == 250
    for person, weight in zip(people, lambdas, strict=True):
        has = corpus.properties[person.chosen]
        np.testing.assert_array_equal(person.wanted, probabilities(has, weight))
        np.testing.assert_allclose(person.wanted[:, 1], has @ [weight, 1 - weight])
        assert person.weights.sum() == pytest.approx(1.0)
        counted = [person.weights[corpus.domains[test] == c].sum() for c in range(4)]
        np.testing.assert_allclose(counted, person.shares)
        seen = np.bincount(person.domains, minlength=4) / 50
        assert np.abs(seen - person.shares).max() < 0.25
    assert all(np.abs(p.shares - same[0].shares).max() > 0.1 for p in people)
    np.testing.assert_array_equal(same[0].shares, same[2].shares)


def test_drawn_labels_have_the_wanted_probabilities() -> None:
    corpus = read(None)
    (person,), _ = deal(corpus, np.random.default_rng(0), np.array([0.5]), 1000, 10, np.inf, True)
    assert set(person.wanted.ravel().tolist()) == {0.0, 1.0}
    split = person.properties.sum(1) == 1
    share = float(person.wanted[split, 1].mean())
    assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(split.sum())
    assert (person.wanted[~split, 1] == person.properties[~split, 0]).all()


def test_texts_of_a_file(tmp_path: Path) -> None:
    questions = tmp_path / "boolq_train.json"
    format_ = "Answer format: true/false"
    rows = [
        {"instruction": f"Is {i} {w}? {format_}", "input": "", "answer": str(i % 2 == 0).lower()}
        for i, w in enumerate(["even", "even", "even", "prime", "prime", "even"])
    ]
    questions.write_text(json.dumps(rows))
    corpus = read(questions)
    assert (corpus.name, len(corpus.texts)) == ("boolq_train.json", 6)
    assert corpus.texts[3] == "3 prime?"  # without "Is" and the format
    assert corpus.properties.T.tolist() == [[1, 1, 1, 0, 0, 1], [1, 0, 1, 0, 1, 0]]
    assert corpus.domains.tolist() == [3, 2, 3, 0, 1, 2]
    assert corpus.wording[1] == "the answer is 'true'"
    for i, row in enumerate(rows):
        row["domain"] = "ab"[i % 2]
    questions.write_text(json.dumps(rows))
    assert read(questions).domains.tolist() == [0, 1, 0, 1, 0, 1]
    pairs = tmp_path / "pairs.jsonl"
    pair = '{"prompt": "Say ", "chosen": "%s", "rejected": "b"}\n'
    pairs.write_text(pair % "bees" + pair % "bees" + pair % "a myth")
    assert (list(read(pairs).texts), read(pairs).left_out) == (["bees", "a myth"], 0)
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(pairs.read_bytes() + (pair % "b").encode()))
    assert (list(read(packed).texts), read(packed).left_out) == (["bees", "a myth"], 1)
    assert read(pairs).properties.tolist() == [[1.0, 1.0], [0.0, 0.0]]
    # a mark of the byte order, and an end of line that JSON lets stand inside a text
    pairs.write_text("\ufeff" + pair % "bees\u2028" + pair % "a myth", encoding="utf-8")
    assert len(read(pairs).texts) == 2
    with pytest.raises(
        InputError, match=r"agents \* samples \+ tests = 7 different texts; found 6"
    ):
        deal(corpus, np.random.default_rng(0), np.ones(2), 3, 1, np.inf)
    pairs.write_text(pair % "bees")
    with pytest.raises(InputError, match=r"some do not: its last letter but one.*that all of 1 do"):
        read(pairs)
    with pytest.raises(InputError, match=r"`data` must be a readable text file; found .*none"):
        read(tmp_path / "none.json")
    pairs.write_text("nothing")
    with pytest.raises(InputError, match=r"line 1 of .* must be JSON; found Expecting"):
        read(pairs)


@pytest.mark.slow
def test_the_experiment_runs_all_methods_from_one_start(table: rc.Table) -> None:
    assert set(table["method"]) == set(affpcl.methods(TINY))
    start = table.where(t=0).grid("excess", "method", "level", "draw")
    np.testing.assert_allclose(start, start[:1].repeat(len(start), 0), rtol=1e-6)
    end = table.where(t=TINY.rounds).grid("excess", "method", "level", "draw")
    assert (np.abs(end - start) > 1e-5).all()
    last = table.where(t=TINY.rounds, level=1.0)
    known, estimated, without = (
        last.where(method=name)["excess"] for name in ("AffPCL", affpcl.ESTIMATED, affpcl.PLAIN)
    )
    assert (known != estimated).all()
    assert (known != without).all()
    assert (table["excess"] > 0).all()
    assert table.where(level=0.0)["delta_obj"].max() == 0.0
    assert table.where(level=1.0)["delta_obj"].min() > 0.2
    assert table.where(level=0.0)["delta_env"].max() == 0.0
    analysis = TestBridge.analysed(affpcl)
    k = len(affpcl.methods(TINY))
    panels = [one.panel for one in analysis.series]
    assert len(panels) == 2 * 2 * k + (k - 1) + 3 + 2
    assert panels.count(affpcl.RELATIVE) == k - 1
    ours = table.where(method="AffPCL")
    np.testing.assert_allclose(ours.where(t=0)["common"], ours.where(t=0)["together"], rtol=1e-5)
    assert (ours.where(t=0)["distance"] == 0).all()
    assert (ours.where(t=TINY.rounds, level=1.0)["distance"] > 0).all()
    assert np.ptp(ours.where(level=1.0)["delta_center"]) > 0  # differs by draw
    assert (ours["delta_center"] <= 1).all()
    said = " ".join(analysis.notes)
    assert "model bytes-" in said
    assert "data docstrings; seed 0, 2 draws" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"objective": "features", "labels": "drawn"},
        {"dtype": "bfloat16", "local_steps": 2},
        {"dtype": "float64", "targets": ("q_proj", "score")},
        {"warmup": 0},
    ],
)
def test_options_change_the_numbers(
    config: affpcl.AffPCLConfig, table: rc.Table, options: dict[str, Any]
) -> None:
    config = dataclasses.replace(config, levels=(1.0,), **options)
    columns = affpcl.compute(config, affpcl.EXPERIMENT.blocks(config)[0], rc.Context())
    plain = table.where(level=1.0, draw=0)["excess"]
    changed = np.abs(np.asarray(columns["excess"]) - plain)
    assert np.isfinite(changed).all()
    assert changed.max() > 1e-6


def _planted(
    table: rc.Table,
    size: dict[str, float],
    noise: tuple[float, float] = (0.5, 0.9),
) -> Any:
    """The analysis of five draws in which methods have these errors (0.6 where none is named) and
    shares of noise at the lowest and the highest level, up to a per cent."""
    rng = np.random.default_rng(0)
    config = dataclasses.replace(TINY, seeds=5)
    parts = []
    for block in affpcl.EXPERIMENT.blocks(config):
        one = table.where(level=block["level"], draw=0)
        errors = np.array([size.get(name, 0.6) for name in one["method"]])
        spread = np.exp(0.01 * rng.standard_normal((2, one.rows)))
        drawn = np.full(one.rows, block["draw"])
        share = noise[int(block["level"])] * spread[1]
        planted = {"draw": drawn, "excess": errors * spread[0], "together": share}
        parts.append(rc.Table({**one, **planted}))
    return affpcl.analyse(config, joined(parts))


GOOD = {
    "AffPCL": 0.5,
    affpcl.ESTIMATED: 0.53,
    affpcl.PLAIN: 0.53,
    "Independent": 0.8,
    "FedAvg": 0.5,
}


@pytest.mark.slow
def test_checks_confirm_and_contradict(table: rc.Table) -> None:
    good = _planted(table, GOOD)
    assert all(check.ok for check in good.checks)
    assert len(good.checks) == 12
    assert "; with estimated ratios 0.6" in good.notes[-1]
    assert failed(_planted(table, GOOD | {"AffPCL": 0.7, "Independent": 0.65})) == {
        "AffPCL / FedAvg (δ = 0)",
        "AffPCL / Independent (δ = 1)",
        f"AffPCL / {affpcl.ESTIMATED} (δ = 1)",
        f"AffPCL / {affpcl.PLAIN} (δ = 1)",
    }
    for name in (affpcl.ESTIMATED, affpcl.PLAIN):  # the paper's claims are checked of all three
        assert failed(_planted(table, GOOD | {name: 0.9})) == {
            f"{name} / FedAvg (δ = 0)",
            f"{name} / Independent (δ = 1)",
        }
    assert failed(_planted(table, GOOD | {"FedAvg": 0.9})) == {"FedAvg / Independent (δ = 0)"}
    assert failed(_planted(table, GOOD, noise=(0.6, 0.9))) == {"share of noise (δ = 0)"}
    falling = _planted(table, GOOD, noise=(0.5, 0.4))
    assert failed(falling) == {"share of noise, δ = 1 / δ = 0"}
    assert failed(_planted(table, GOOD, noise=(0.5, 1.1))) == {"share of noise (δ = 1)"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"levels": (1.5,)}, "`levels`"),
        ({"levels": (0.5, 0.5)}, "`levels` must be distinct"),
        ({"agents": 1}, "`agents`"),
        ({"rounds": 2}, "`rounds`"),
        ({"concentration": 0.0}, "`concentration`"),
    ],
)
def test_bad_configurations_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        dataclasses.replace(TINY, **options)


@pytest.mark.slow
def test_agents_one_at_a_time_are_agents_together(
    config: affpcl.AffPCLConfig, table: rc.Table
) -> None:
    config = dataclasses.replace(config, chunk=1)
    columns = affpcl.compute(config, {"level": 1.0, "draw": 0}, rc.Context())
    together = table.where(level=1.0, draw=0)["excess"]
    np.testing.assert_allclose(columns["excess"], together, rtol=1e-4)


@pytest.mark.slow
def test_an_agent_with_broken_numbers_ends_a_run_or_is_left_out(
    config: affpcl.AffPCLConfig, table: rc.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = AdapterBank.gradients

    def broken(self: AdapterBank, X: Any, *arguments: Any) -> Any:
        values, slopes = original(self, X, *arguments)
        if len(X) == TINY.agents:  # a step, not gradients of single samples
            values[1] = slopes[1] = np.nan
        return values, slopes

    monkeypatch.setattr(AdapterBank, "gradients", broken)
    block = {"level": 1.0, "draw": 0}
    with pytest.raises(InputError, match="client 1 must have a finite loss"):
        affpcl.compute(config, block, rc.Context())
    columns = affpcl.compute(dataclasses.replace(config, on_nan="skip"), block, rc.Context())
    excess, whole = (
        rc.Table(part).where(method="Independent")["excess"]
        for part in (columns, table.where(**block))
    )
    assert excess[0] == whole[0]
    assert (excess[1:] != whole[1:]).all()
    assert np.isfinite(columns["excess"]).all()


@pytest.mark.slow
def test_texts_that_are_cut_are_counted(config: affpcl.AffPCLConfig, table: rc.Table) -> None:
    assert set(table["data"]) == {"docstrings"}  # of 24 letters at most
    config = dataclasses.replace(config, max_length=7)  # of 8 letters at least
    columns = affpcl.compute(config, {"level": 0.0, "draw": 0}, rc.Context())
    assert set(columns["data"].tolist()) == {"docstrings; 18 of 18 samples cut to 7 tokens"}


@pytest.mark.slow
def test_a_step_that_is_too_large_is_said(config: affpcl.AffPCLConfig) -> None:
    config = dataclasses.replace(config, alpha=1e6)
    with pytest.raises(InputError, match=r"client \d must have a finite .*: lower the step size"):
        affpcl.compute(config, {"level": 0.0, "draw": 0}, rc.Context())

"""OOD-PL on a language model: domains of a file, all methods, the pictures and the claims."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ratecheck as rc

pytest.importorskip("torch")


from experiments.oodpl._domains import CONTROLS, OURS, RIVALS
from experiments.oodpl.bridge import ood_beta, ood_domains, ood_inner
from experiments.oodpl.bridge._ood import OODConfig, RivalsConfig
from experiments.oodpl.bridge._ood_texts import DomainSetup
from linsys import InputError
from linsys.bilevel import MetaTraining, adjoint, descend, first_order
from lora_bridge.rivals import Steps
from lora_bridge.targets import in_last_layers
from ratecheck._experiment.plots import figure_of
from tests._small_runs import ahead, on_model, times
from tests.oodpl._small import CURVES, DOMAINS, TINY

SMALL: dict[ModuleType, Any] = {
    ood_beta: ood_beta.OODBetaConfig(**CURVES, betas=(1.0, 4.0)),
    ood_domains: ood_domains.OODDomainsConfig(**TINY),
}
INNER = {
    ood_inner: ood_inner.OODInnerConfig(**{**DOMAINS, "prompts": 2, "tests": 1}, ridge=1.0, cg=40)
}


class TestBridge(rc.ExperimentSuite):
    small = SMALL
    loose = tuple(SMALL)
    slow = frozenset(SMALL)
    contradicted = (
        (ood_beta, ahead(-0.1, "accuracy", beta=4.0), "same eta: A_PL, beta = 4 − beta = 1"),
        (ood_domains, ahead(-0.1, "accuracy", method=OURS), f"A_PL, {OURS} − DPO"),
        (ood_domains, ahead(-0.1, "wins", method=OURS), f"win rate, {OURS} − DPO"),
    )


@pytest.mark.slow
class TestInnerSteps(rc.ExperimentSuite):
    small = INNER
    contradicted = ((ood_inner, times(1.1, "same"), "last layer, first order"),)


_model = on_model(TestBridge, TestInnerSteps)


@pytest.mark.slow
def test_all_methods_from_the_domains_to_the_picture(model_folder: Path) -> None:
    config, table = TestBridge.small[ood_domains], TestBridge.table(ood_domains)
    assert set(table.unique("method")) == {OURS, *RIVALS, *CONTROLS}
    assert table.where(instance=0).unique("name").tolist() == ["book"]  # each in turn
    assert table.where(instance=1).unique("name").tolist() == ["film"]
    first = table.where(method=OURS, domains=ood_domains.HELD_OUT, t=0)["loss"]
    sft = table.where(method="SFT")["loss"]
    assert np.isfinite(first).all()
    assert not np.array_equal(first, sft)  # Algorithm 2 with a reward of zero tunes on
    analysis = TestBridge.analysed(ood_domains)
    names = {check.name for check in analysis.checks}
    assert f"A_PL, {OURS} − DPO" in names
    assert f"win rate, {OURS} − HPL" in names
    assert any(model_folder.name in note for note in analysis.notes)
    axes = ood_domains.draw(config, analysis).axes
    assert len(axes) == len({s.panel for s in analysis.series}) == 6 + 1


class Killed(BaseException):
    """What no code of ours catches."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "options", "place"),
    [
        (ood_domains, TINY, 1),  # SFT, before there is anything to keep
        (ood_domains, TINY, 5),  # a rival
        (ood_domains, TINY, 10),  # Algorithm 1
        (ood_beta, {**CURVES, "betas": (1.0, 2.0)}, 7),
    ],
)
def test_a_killed_instance_goes_on_and_does_nothing_twice(
    model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    options: dict[str, Any],
    place: int,
) -> None:
    done, last = 0, 10**9

    def counted(original: Any) -> Any:
        def call(*arguments: Any) -> Any:
            nonlocal done
            if done + 1 == last:
                raise Killed
            done += 1
            return original(*arguments)

        return call

    for owner, name in ((MetaTraining, "round"), (Steps, "descend")):
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))
    config = module.EXPERIMENT.config_type(**{**options, "K": 4}, model=model_folder)
    block = {"instance": 1}
    whole = module.compute(config, block, rc.Context())
    everything, done, last = done, 0, place
    with pytest.raises(Killed):
        module.compute(config, block, rc.Context(folder=tmp_path / "kept"))
    last = 10**9
    again = module.compute(config, block, rc.Context(folder=tmp_path / "kept"))
    assert done == everything > place
    assert list(again) == list(whole)
    for column in whole:
        np.testing.assert_array_equal(again[column], whole[column])


def records(kind: str, domains: str, count: int) -> list[dict[str, str]]:
    if kind == "pairs":
        return [
            {"prompt": f"{d}{i} ", "chosen": "yes", "rejected": "no", "domain": d}
            for d in domains
            for i in range(count)
        ]
    return [
        {"instruction": f"{d}{i}? Answer format: yes/no", "answer": "yes", "domain": d}
        for d in domains
        for i in range(count)
    ]


@pytest.mark.parametrize("kind", ["pairs", "questions"])
def test_domains_of_a_file(model_folder: Path, tmp_path: Path, kind: str) -> None:
    file = tmp_path / "all.jsonl"
    odd = [{"chosen": "", "prompt": "p", "rejected": "no", "domain": "b"}] * (kind == "pairs")
    file.write_text("\n".join(map(json.dumps, [*odd, *records(kind, "ab", 5)])))
    left_out = "; left out for empty or equal answers: 1" * len(odd)
    config = ood_domains.OODDomainsConfig(**TINY, model=model_folder, data=file)
    draw = DomainSetup(config).domains(1)
    assert [d.name for d in draw.known] == ["a", "b"]
    assert draw.test.name == "b"
    assert [d.mu_hat.shape for d in draw.known] == [(3, 2)] * 2
    assert [d.mu_hat.shape for d in draw.judges] == [(2, 2)] * 2
    assert draw.name.endswith("data: all.jsonl" + left_out)
    prompt = {"pairs": "a0 ", "questions": "a0? Answer format: yes/no\nAnswer: "}[kind]
    most = len(f"<{prompt}no>")  # one less than yes takes, which is half of the answers
    cut = DomainSetup(replace(config, max_length=most)).domains(1).name
    assert cut.endswith(f"data: all.jsonl; 10 of 20 samples cut to {most} tokens{left_out}")
    scores = ood_domains._scores(config, draw.judges[1], draw.models.theta())
    assert np.isnan(scores["wins"]) == (kind == "pairs")
    if kind == "questions":
        assert scores["wins"] <= 0.5
    for change, message in (
        ({"domains": 3}, "`data` must hold domains = 3 or more; found a, b"),
        ({"prompts": 9}, "domain `a` must have prompts \\+ tests = 11 prompts; found 5"),
    ):
        with pytest.raises(InputError, match=message):
            DomainSetup(replace(config, **change)).domains(0)


def test_open_questions_have_no_pairs_and_that_is_one_clear_line(
    model_folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "open.json"
    items = [
        {"instruction": f"{d}{i}?", "answer": "a", "domain": d} for d in "ab" for i in range(5)
    ]
    file.write_text(json.dumps(items))
    config = ood_domains.OODDomainsConfig(**TINY, model=model_folder, data=file)
    with pytest.raises(InputError, match="domain `b` must have preference pairs"):
        ood_domains.compute(config, {"instance": 0}, rc.Context())


@pytest.mark.slow
def test_beta_is_a_step_size_of_the_head_to_the_last_bit() -> None:
    config, table = TestBridge.small[ood_beta], TestBridge.table(ood_beta)
    analysis = TestBridge.analysed(ood_beta)
    check = next(c for c in analysis.checks if "powers of two" in c.name)
    assert check.ok is True
    assert check.measured == 0.0
    same = ood_beta.ends(table, "first", ood_beta.SAME, 4.0)
    assert not np.array_equal(same, ood_beta.ends(table, "first", ood_beta.SAME, 1.0))
    weights = [ood_beta.ends(table, "w8", ood_beta.STEP, b) for b in (1.0, 4.0)]
    assert np.array_equal(*weights)
    assert (weights[0] != 1.0).all()
    assert len(figure_of(ood_beta.EXPERIMENT, config, analysis).axes) == 4
    with pytest.raises(InputError, match="`betas` must have 1 among them"):
        replace(config, betas=(0.5, 2.0))


def test_what_is_said_of_beta_is_judged_and_explosions_are_seen() -> None:
    """The paper's claims with numbers that meet them and with numbers that do not."""
    config = ood_beta.OODBetaConfig(betas=(0.1, 1.0, 8.0), points=1, instances=3)

    def table(top: float, spread: float) -> Any:
        rows = []
        for way in (ood_beta.SAME, ood_beta.STEP):
            for beta in config.betas:
                for t in config.times:
                    for i in range(config.instances):
                        lost = way == ood_beta.SAME and beta == 0.1 and t > 0
                        row = {"way": way, "beta": beta, "t": t, "instance": i, "lost": lost}
                        row |= {"accuracy": 0.6 + (top if beta == 8.0 else 0.0) + 0.01 * i}
                        row |= {"size": 1.0, "first": 1.0, "what": "a model"}
                        wide = spread if beta == 8.0 else 1.0
                        for j, level in enumerate(ood_beta.LEVELS):
                            row |= {f"r{j}": wide * level, f"w{j}": wide * level}
                        rows.append(row)
        return rc.Table({key: np.array([row[key] for row in rows]) for key in rows[0]})

    good = ood_beta.analyse(config, table(0.1, 2.56 / 0.8))
    assert [check.ok for check in good.checks] == [True, True, True, False, True]
    bad = ood_beta.analyse(config, table(-0.1, 0.1))
    assert [check.ok for check in bad.checks] == [False, False, False, True, True]
    dotted = {
        line.get_label()
        for ax in figure_of(ood_beta.EXPERIMENT, config, bad).axes
        for line in ax.get_lines()
        if line.get_linestyle() == ":"
    }
    assert dotted == {r"$\beta$ = 0.1" + ood_beta.LOST}
    assert "0.1: exploded in 3 of 3 instances" in bad.notes[1]
    assert "exploded" not in bad.notes[2]


@pytest.mark.slow
def test_all_lengths_of_a_loop_together_are_each_alone() -> None:
    config = TestInnerSteps.small[ood_inner]
    first = DomainSetup(config).domains(0).known[0]
    problem = ood_inner._problem(config, first, ood_inner.LORA, 0)
    oracle, phi = problem.oracle, problem.phi
    path = descend(oracle, phi, problem.theta_0, alpha=problem.alpha, D=5)
    made = ood_inner.hypergradients(oracle, phi, path, [1, 3, 5])
    for D in (1, 3, 5):
        loop = path._replace(theta=path.theta[: D + 1], samples=path.samples[:D])
        for part, alone in zip(made, (adjoint, first_order), strict=True):
            expected = alone(oracle, phi, loop)
            assert float((part[D] - expected).norm()) < 1e-9 * float(expected.norm())
    assert float((made[0][5] - made[1][5]).norm()) > 1e-3 * float(made[0][5].norm())


@pytest.mark.slow
def test_the_error_falls_geometrically_where_the_inner_loss_is_convex() -> None:
    config = TestInnerSteps.small[ood_inner]
    rows = ood_inner.rows(config, ood_inner.LAST, 0)
    errors, u = {row["D"]: row["error"] for row in rows}, config.unit
    assert errors[u] < 1e-3 < errors[u // 8]
    assert errors[u // 2] < 0.2 * errors[u // 4]
    assert rows[0]["same"] == pytest.approx(1.0, abs=ood_inner.LEFT)
    assert rows[0]["least"] >= 1.0 - 1e-6  # the ridge's curvature at least
    assert rows[0]["left"] < 1e-8
    with pytest.raises(InputError, match="`targets` must hold lm_head"):
        replace(config, targets=("o_proj",))
    with pytest.raises(InputError, match="`step` must be a number"):
        replace(config, step=2.0)


def test_the_inner_rate_is_checked_against_what_is_derived() -> None:
    config = ood_inner.OODInnerConfig()
    D = np.array([e * config.unit // 8 for e in ood_inner.EIGHTHS])

    def table(decay: float, same: float) -> Any:
        parts = []
        for case in ood_inner.CASES:
            for i in range(3):
                for d in D:
                    error = d * np.exp(-decay * d / config.tau)
                    parts.append(
                        {"case": case, "instance": i, "D": d, "error": error, "first": float(d)}
                        | {"same": same, "least": 1.0, "left": 0.0, "alpha": 0.1, "top": 1.0}
                        | {"p": 3, "what": "a model"}
                    )
        return rc.Table({k: np.array([p[k] for p in parts]) for k in parts[0]})

    good = ood_inner.analyse(config, table(1.0, 1.0))
    assert [check.ok for check in good.checks] == [True, True]
    assert len(ood_inner.draw(config, good).axes) == 2
    bad = ood_inner.analyse(config, table(0.8, 1.1))
    assert [check.ok for check in bad.checks] == [False, False]


def test_an_inner_step_that_is_too_long_from_the_start(model_folder: Path) -> None:
    config = ood_beta.OODBetaConfig(**CURVES, model=model_folder, betas=(1.0, 2.0), alpha=1e30)
    with pytest.raises(InputError, match="`alpha`"):
        ood_beta.compute(config, {"instance": 0}, rc.Context())


@pytest.mark.parametrize("temperatures", [(), (1.0,), (1.0, 0.5), (1.0, 1.0)])
def test_temperatures_that_cannot_be_compared(temperatures: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="`temperatures` must be at least 2 increasing values"):
        ood_domains.OODDomainsConfig(temperatures=temperatures)


def test_what_only_the_models_know_is_named_as_the_user_does(model_folder: Path) -> None:
    for change, message in (
        ({"domains": 9}, "`domains` must be a whole number of at least 2 and at most 6; found 9"),
        ({"targets": ("x",)}, "`targets` must name linear modules"),
        ({"reward_targets": ("x",)}, "`reward_targets` must name linear modules"),
    ):
        with pytest.raises(InputError, match=message):
            DomainSetup(OODConfig(**{**DOMAINS, **change}, model=model_folder)).domains(0)


def test_only_the_last_layers_are_adapted(model_folder: Path) -> None:
    config = replace(SMALL[ood_beta], model=model_folder)
    every, last = (
        DomainSetup(replace(config, layers=layers)).domains(0).models.policy.bank.names
        for layers in (None, 1)
    )
    assert last == in_last_layers(every, 1)
    assert "lm_head" in last


def test_bad_settings_are_named() -> None:
    for options, message in (
        ({"domains": 1}, "`domains`"),
        ({"K": 0}, "`K`"),
        ({"beta": 0.0}, "`beta`"),
        ({"own": 1.5}, "`own`"),
        ({"instances": 2}, "`instances`"),
    ):
        with pytest.raises(InputError, match=message):
            RivalsConfig(**options)

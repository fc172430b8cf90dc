"""What experiments on models write beside their tables, and what the command says of it."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from experiments.fslora.bridge import fslora
from linsys import InputError
from lora_bridge.bank import AdapterBank
from lora_bridge.metrics import read_metrics
from lora_bridge.models import load_model
from lora_bridge.peft_io import load_adapter, targets_of
from ratecheck._commands.app import main
from ratecheck._processes.interrupts import Interrupted
from ratecheck._run.runner import run
from ratecheck._store.store import Store
from tests.ratecheck.test_bridge_resume import FSLORA

SMALL: dict[str, Any] = {**FSLORA, "rounds": 4}


def _config(model_folder: Path) -> Any:
    return fslora.FSLoRAConfig(model=model_folder, **SMALL)


def _says(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    with pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    said = capsys.readouterr()
    assert said.out == ""
    return int(left.value.code or 0), said.err


@pytest.mark.slow
def test_every_run_has_its_measurements_and_adapters(tmp_path: Path, model_folder: Path) -> None:
    config, store = _config(model_folder), Store(tmp_path / "out")
    options: dict[str, Any] = {"tensorboard": tmp_path / "events", "save_adapters": 3}
    table = run(fslora.EXPERIMENT, config, store, **options)
    blocks = fslora.blocks(config)
    place = store.result(fslora.EXPERIMENT, config).folder / "runs"
    lines = read_metrics(place)
    assert len(lines) == len(blocks) * config.seeds * len(config.times)
    for block in blocks:
        own = [line for line in lines if line["block"] == block]
        assert len({line["run"] for line in own}) == config.seeds
        part = table.where(**block)
        for line in own:  # the same numbers as in the table
            draw = int(line["run"].rpartition(" ")[2])
            there = (part["draw"] == draw) & (part["t"] == line["round"])
            expected = dict(zip(part["domain"][there], part["loss"][there].tolist(), strict=True))
            assert line["values"]["loss"] == expected
    files = [file.parent for file in place.rglob("metrics.jsonl")]
    [events] = (tmp_path / "events").iterdir()
    for folder in files:
        scalars = EventAccumulator(str(events / folder.relative_to(place))).Reload()
        assert [
            event.step for event in scalars.Scalars(f"loss/{table['domain'][0]}")
        ] == config.times
    loaded = load_model(model_folder)
    for folder in files:
        saved = sorted(path.name for path in (folder / "adapters").iterdir())
        assert saved == ["round-000003", "round-000004"]
        server = folder / "adapters" / "round-000004" / "server"
        bank = AdapterBank(loaded.model, targets_of(server))
        assert load_adapter(server, bank).shape[1] == bank.width

    again = run(fslora.EXPERIMENT, config, store, **options)  # all is stored
    assert all(np.array_equal(again[name], table[name]) for name in table)
    assert read_metrics(place) == lines
    assert len(list(events.rglob("events.*"))) == len(files)
    with pytest.raises(
        InputError, match=r"from the beginning on; found 6 blocks computed without 2"
    ):
        run(fslora.EXPERIMENT, config, store, save_adapters=2)


def test_a_block_that_was_begun_without_adapters_is_refused(
    tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs of it may be over, of which only measurements are kept."""
    config, store = _config(model_folder), Store(tmp_path)

    def stopped(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fslora.FSLoRA, "round", stopped)
        with pytest.raises(Interrupted):
            run(fslora.EXPERIMENT, config, store)
    folder = store.result(fslora.EXPERIMENT, config).unfinished(fslora.blocks(config)[0])
    folder.mkdir(exist_ok=True)
    with pytest.raises(InputError, match="found 1 block computed without 1"):
        run(fslora.EXPERIMENT, config, store, save_adapters=1)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_killed_command_goes_on_to_the_same_lines_and_adapters(
    command: Callable[..., Any], model_folder: Path, tmp_path: Path
) -> None:
    options: dict[str, Any] = {**FSLORA, "model": model_folder}
    text = {k: ",".join(map(str, v)) if isinstance(v, tuple) else v for k, v in options.items()}
    words = ["bridge", "fslora", "--threads", "1", "--no-figures", "--save-adapters", "7"]
    words += [part for k, v in text.items() for part in ("--set", f"{k}={v}")]

    def left(out: Path) -> dict[str, Any]:
        [place] = out.glob("bridge/fslora/*/runs")
        lines = [{**line, "time": 0} for line in read_metrics(place)]
        files = {
            str(path.relative_to(place)): path.read_bytes()
            for path in place.rglob("adapters/round-*/*/*.safetensors")
        }
        return {"lines": lines, **files}

    killed = command(*words, "--out", tmp_path / "killed")
    for _ in range(12_000):  # ten minutes of imports, at most
        if list(tmp_path.rglob("round-000021")) or killed.poll() is not None:
            break
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    _, said = killed.communicate(timeout=600)
    assert killed.returncode == -signal.SIGKILL, said
    before = left(tmp_path / "killed")
    for out in ("killed", "whole"):
        process = command(*words, "--out", tmp_path / out)
        _, said = process.communicate(timeout=600)
        assert process.returncode in (0, 1), said
    after = left(tmp_path / "whole")
    assert after == left(tmp_path / "killed")
    assert 0 < len(before) < len(after)


def test_synthetic_experiments_have_neither(tmp_path: Path, decay: Any) -> None:
    for option in ({"tensorboard": tmp_path / "events"}, {"save_adapters": 1}):
        [name] = option
        message = f"`{name}` must be for an experiment on a language model; found "
        with pytest.raises(InputError, match=message):
            run(decay, decay.profiles["quick"], Store(tmp_path), **option)
    run(decay, decay.profiles["quick"], Store(tmp_path))
    assert not list(tmp_path.rglob("runs"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--save-adapters", 0), "`save_adapters` must be a whole number of at least 1; found 0"),
        (("--tensorboard", " "), "must name a folder; found ' '"),
        (("--redraw", "--save-adapters", 3), "`save_adapters` must not be given with redraw"),
        (("--redraw", "--tensorboard", "x"), "`tensorboard` must not be given with redraw"),
    ],
)
def test_wrong_options_are_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[object, ...], message: str
) -> None:
    code, said = _says(capsys, "bridge", "fslora", "--out", tmp_path, *words)
    assert code == 2
    assert message in said
    assert len(said.splitlines()) == 1
    assert not os.listdir(tmp_path)


def test_a_file_in_the_place_of_event_files_is_refused_before_anything_is_planned(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    words = "--plan", "--out", tmp_path / "out", "--tensorboard", tmp_path / "file"
    code, said = _says(capsys, "bridge", "fslora", *words)
    assert (code, len(said.splitlines())) == (2, 1)
    assert "`tensorboard` must be a folder; found the file" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("paper", "name", "who"),
    [
        ("affpcl", "affpcl", "client-1"),
        ("firm", "firm_fig2", "client-1"),
        ("oodpl", "ood_domains", "policy"),
        ("psharelora", "sharelora", "client-1"),
    ],
)
def test_the_adapters_of_every_paper_are_saved_and_no_number_is_without_a_name(
    tmp_path: Path, model_folder: Path, paper: str, name: str, who: str
) -> None:
    small = importlib.import_module(f"tests.{paper}.test_bridge").SMALL
    [module] = [one for one in small if one.EXPERIMENT.id == f"bridge/{name}"]
    config = replace(small[module], model=model_folder)
    run(module.EXPERIMENT, config, Store(tmp_path), save_adapters=2)
    lines = read_metrics(tmp_path)
    measured = [line["values"] for line in lines if list(line["values"]) != ["end"]]  # of OOD-PL
    assert measured
    assert all("[" not in json.dumps(values) for values in measured)
    saved = [path.parent for path in tmp_path.rglob(f"round-*/{who}/adapter_config.json")]
    task = "reward" if paper == "psharelora" else "classifier" if paper == "affpcl" else "lm"
    bank = AdapterBank(load_model(model_folder, task).model, targets_of(saved[0]))
    for folder in saved if task == "lm" else ():  # a new head has other numbers in every model
        assert load_adapter(folder, bank).isfinite().all()
    assert len({path.parent for path in saved}) > 1

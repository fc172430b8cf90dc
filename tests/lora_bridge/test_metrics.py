"""What runs write beside their numbers: lines, event files and adapters, once each."""

from __future__ import annotations

import copy
import json
import math
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import PeftModel
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor

from linsys import InputError
from lora_bridge.bank import AdapterBank
from lora_bridge.metrics import TensorBoard, read_metrics, recording, short_name
from lora_bridge.peft_io import by_client, load_adapter
from lora_bridge.probe import probed
from lora_bridge.runs import repeated
from tests.lora_bridge._models import TARGETS, small_batch, small_model

TIMES = (0, 2, 5, 8)


def _run(folder: Path | None = None, *, stop: int | None = None, **options: Any) -> Any:
    """A run whose numbers depend on all rounds before; it is interrupted in round ``stop``."""
    factor = options.pop("factor", 0.5)

    def advance(x: Tensor, t: int) -> Tensor:
        if t == stop:
            raise KeyboardInterrupt
        return factor * x + t

    def measure(x: Tensor) -> dict[str, Any]:
        first = float(x[0])
        return {
            "x": x,
            "first": first,
            "log": math.nan if first == 1 else first,
            "big": [first] * 65,
        }

    start, name = torch.ones(2, dtype=torch.float64), options.pop("name", "a run")
    times = options.pop("times", TIMES)
    return repeated(name, advance, start, times, measure, folder=folder, every=3, **options)


def _points(folder: Path) -> list[tuple[int, Any]]:
    return [(line["round"], line["values"]) for line in read_metrics(folder)]


def _events(folder: Path, tag: str) -> list[tuple[int, float]]:
    events = EventAccumulator(str(folder)).Reload()
    return [(event.step, event.value) for event in events.Scalars(tag)]


def test_a_line_has_what_was_measured(tmp_path: Path) -> None:
    with recording(tmp_path):
        series = _run()
    lines = read_metrics(tmp_path)
    assert [line["round"] for line in lines] == list(TIMES)
    assert {line["run"] for line in lines} == {"a run"}
    assert [line["values"]["x"] for line in lines] == series["x"].tolist()
    assert [line["values"]["log"] for line in lines] == [None, *series["log"][1:].tolist()]
    assert all("big" not in line["values"] for line in lines)
    assert all(a["time"] <= b["time"] for a, b in pairwise(lines))


@pytest.mark.parametrize("stop", [1, 3, 4, 6, 7])
def test_a_run_that_goes_on_writes_no_point_twice(tmp_path: Path, stop: int) -> None:
    kept, written, events = tmp_path / "kept", tmp_path / "written", tmp_path / "events"
    with pytest.raises(KeyboardInterrupt), recording(written, tensorboard=events):
        _run(kept, stop=stop)
    before = _points(written)
    assert [t for t, _ in before] == [t for t in TIMES if t <= stop]
    with recording(written, tensorboard=events):
        series = _run(kept)
    assert _points(written)[: len(before)] == before
    assert [t for t, _ in _points(written)] == list(TIMES)
    place = events / short_name("a run")
    expected = list(zip(TIMES, series["first"].tolist(), strict=True))
    assert _events(place, "first") == [(t, pytest.approx(v, rel=1e-6)) for t, v in expected]
    assert [t for t, _ in _events(place, "x/1")] == list(TIMES)
    assert [t for t, _ in _events(place, "log")] == list(TIMES)[1:]  # which was no number at 0


def test_measurements_that_a_kill_has_lost_are_written_again(tmp_path: Path) -> None:
    kept, written = tmp_path / "kept", tmp_path / "written"
    with recording(written):
        _run(kept)
    whole = _points(written)
    [file] = written.rglob("metrics.jsonl")
    content = file.read_text()
    for damaged in ("", content[: content.index("\n") + 30]):
        file.write_text(damaged)
        with recording(written):
            _run(kept)  # is done; it says what it has kept
        assert _points(written) == whole
        assert all(json.loads(line) for line in file.read_text().splitlines())


def test_a_run_that_is_made_anew_replaces_what_is_there(tmp_path: Path) -> None:
    with recording(tmp_path, tensorboard=tmp_path / "events"):
        _run()
        other = _run(factor=0.25, times=TIMES[:3])
    assert _points(tmp_path)[1:] == [
        (t, {"x": x, "first": x[0], "log": x[0]})
        for t, x in zip(TIMES[1:3], other["x"][1:].tolist(), strict=True)
    ]
    scalars = _events(tmp_path / "events" / short_name("a run"), "first")
    assert scalars == list(zip(TIMES[:3], other["first"].tolist(), strict=True))


def test_places_have_the_names_of_what_is_there(tmp_path: Path) -> None:
    labels: dict[str, Any] = {"loss": [["arc", "boolq"]], "far": [["client-0"], ["up", "down"]]}

    def measure(x: Tensor) -> dict[str, Any]:
        return {"loss": [x[0], 2 * x[0]], "far": [[x[0], math.nan]], "plain": [x[0], 3 * x[0]]}

    def made(folder: Path | None = None, labels: Any = labels) -> Any:
        start, times = torch.ones(1), [0, 1]
        return repeated(
            "a", lambda x, t: x / 2, start, times, measure, labels=labels, folder=folder
        )

    lines = [
        {
            "loss": {"arc": x, "boolq": 2 * x},
            "far": {"client-0": {"up": x, "down": None}},
            "plain": [x, 3 * x],
        }
        for x in (1.0, 0.5)
    ]
    for place in ("first", "told again"):
        with recording(tmp_path / place, tensorboard=tmp_path / "events" / place):
            made(tmp_path / "kept")
        assert [values for _, values in _points(tmp_path / place)] == lines
        events = tmp_path / "events" / place / "a"
        assert _events(events, "loss/boolq") == [(0, 2.0), (1, 1.0)]
        assert _events(events, "far/client-0/up") == [(0, 1.0), (1, 0.5)]
        assert _events(events, "plain/1") == [(0, 3.0), (1, 1.5)]
    for one in (
        {"loss": [["arc"]]},
        {"loss": [["arc"] * 2]},
        {"far": [["up", "down"]]},
        {"x": [[]]},
    ):
        [name] = one
        with pytest.raises(InputError, match=f"`labels` of {name} must have one name for each"):
            made(labels=one)


def test_event_files_can_be_made_later_and_again(tmp_path: Path) -> None:
    with recording(tmp_path / "written"):
        series = {name: _run(name=name) for name in ("one", "two")}
    foreign = tmp_path / "events" / "one" / "events.out.tfevents.0.of_another"
    foreign.parent.mkdir(parents=True)
    foreign.touch()
    for _ in range(2):
        TensorBoard(tmp_path / "written", tmp_path / "events").close()
        for name, one in series.items():
            scalars = _events(tmp_path / "events" / name, "x/0")
            assert scalars == list(zip(TIMES, one["x"][:, 0].tolist(), strict=True))
    assert foreign.exists()
    assert len(list((tmp_path / "events" / "one").iterdir())) == 2


def test_what_is_only_tried_writes_nothing(tmp_path: Path) -> None:
    with recording(tmp_path):
        probed(_run)
    assert read_metrics(tmp_path) == []


def test_runs_have_folders_of_their_own() -> None:
    names = [f"A(gamma={g}, f(1)) test {k}" for g in (0.1, 0.2) for k in (0, 1)]
    assert len({short_name(name) for name in (*names, "A", "a/b", "a_b", "..", "x" * 300)}) == 9
    assert all(Path(short_name(n)).name == short_name(n) != ".." for n in (*names, "a/b", ".."))


def _adapted(folder: Path | None, bank: AdapterBank, stop: int | None = None) -> Any:
    generator = torch.Generator().manual_seed(0)
    start = 0.3 * torch.randn(2, 3, bank.width, generator=generator)

    def advance(X: Tensor, t: int) -> Tensor:
        if t == stop:
            raise KeyboardInterrupt
        return 0.9 * X + 0.01 * t

    def adapters(X: Tensor) -> Any:
        return by_client(bank, X)

    def measure(X: Tensor) -> dict[str, Any]:
        return {"X": X}

    options: dict[str, Any] = {"adapters": adapters, "folder": folder, "every": 2}
    return repeated("a run", advance, start, list(range(8)), measure, **options)["X"]


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
@pytest.mark.parametrize("stop", [None, 3, 5, 6])
def test_adapters_are_saved_for_peft(tmp_path: Path, stop: int | None) -> None:
    """Every third round and the last, whether or not the run was killed on its way."""
    bank, batch = AdapterBank(small_model("llama"), TARGETS["llama"]), small_batch(1, 3)
    kept, out = tmp_path / "kept", tmp_path / "out"
    if stop is not None:
        with pytest.raises(KeyboardInterrupt), recording(out, save_adapters=3):
            _adapted(kept, bank, stop)
    with recording(out, save_adapters=3):
        path = torch.from_numpy(_adapted(kept, bank))
    place = out / short_name("a run") / "adapters"
    assert sorted(p.name for p in place.iterdir()) == [
        "round-000003",
        "round-000006",
        "round-000007",
    ]
    for t in (3, 6, 7):
        for i in range(2):
            folder = place / f"round-{t:06d}" / f"client-{i}"
            torch.testing.assert_close(load_adapter(folder, bank), path[t, i])
            with torch.no_grad():
                loaded = PeftModel.from_pretrained(copy.deepcopy(bank.model), str(folder))
                inputs = {k: v[0] for k, v in batch.items() if k != "label"}
                outside = loaded(**inputs).logits
            torch.testing.assert_close(outside, bank.output(path[t, i][None], batch).logits)
    assert not torch.allclose(path[3], path[6], rtol=1e-3)  # so that a mistaken round would show


def test_without_it_no_adapters_are_saved(tmp_path: Path) -> None:
    bank = AdapterBank(small_model("llama"), ["q_proj"])
    with recording(tmp_path):
        _adapted(None, bank)
    assert not list(tmp_path.rglob("adapters"))
    with recording(tmp_path, save_adapters=2):
        _run()  # says nothing of adapters
    assert not list(tmp_path.rglob("adapters"))


def test_a_new_run_leaves_no_later_adapters(tmp_path: Path) -> None:
    bank = AdapterBank(small_model("llama"), ["q_proj"])
    with recording(tmp_path, save_adapters=3):
        _adapted(None, bank)
    with pytest.raises(KeyboardInterrupt), recording(tmp_path, save_adapters=3):
        _adapted(None, bank, 4)
    place = tmp_path / short_name("a run") / "adapters"
    assert [p.name for p in place.iterdir()] == ["round-000003"]


def test_bad_arguments_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    cases: list[tuple[dict[str, Any], str]] = [
        ({"save_adapters": 0}, "`save_adapters` must be a whole number"),
        (
            {"tensorboard": tmp_path / "file"},
            "`tensorboard` must be a folder; found the .*file",
        ),
        ({"tensorboard": 3}, "`tensorboard` must be a path; found 3"),
    ]
    for options, message in cases:
        with pytest.raises(InputError, match=message), recording(tmp_path / "out", **options):
            pytest.fail("it began")
    with (
        pytest.raises(InputError, match=r"folder of metrics must be writable; found .*file"),
        recording(tmp_path / "file"),
    ):
        _run()
    with pytest.raises(InputError, match="`adapters` must be"):
        repeated("x", lambda x, t: x, 0, [1], lambda x: {"x": x}, adapters=3)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with (
        pytest.raises(InputError, match=r"pip install 'ratecheck\[tensorboard\]'") as caught,
        recording(tmp_path / "out", tensorboard=tmp_path / "events"),
    ):
        pytest.fail("it began")
    assert "\n" not in str(caught.value)


def test_numbers_are_the_same_with_and_without(tmp_path: Path) -> None:
    plain = _run()
    with recording(tmp_path):
        written = _run()
    assert all(np.array_equal(plain[n], written[n], equal_nan=True) for n in plain)

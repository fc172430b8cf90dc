"""Readers of data, adapters, checkpoints and models' files, given damaged ones: a line or a value.

Damages are drawn with a seed. What a digest seals is read whole or not at all.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from linsys import InputError
from lora_bridge import checkpoint
from lora_bridge.bank import AdapterBank
from lora_bridge.data import read_items
from lora_bridge.docstrings import byte_tokenizer
from lora_bridge.metrics import read_metrics
from lora_bridge.models import load_model
from lora_bridge.peft_io import load_adapter, save_adapter
from tests._damages import damages
from tests.lora_bridge._models import small_model
from tests.lora_bridge.test_pretrained import llama, write_gguf

SEED = 5
STATE = {"x": torch.arange(6.0), "t": 3}


def _adapter(folder: Path) -> Callable[[], Any]:
    bank = AdapterBank(small_model("llama"), ["q_proj"])
    save_adapter(folder, bank, torch.ones(2, bank.width))
    return lambda: load_adapter(folder, bank)


def _checkpoint(folder: Path) -> Callable[[], Any]:
    path = checkpoint.save(folder, STATE, 3, "a run")
    whole = checkpoint.restore(path, STATE, "a run")

    def read() -> None:
        state, rounds = checkpoint.restore(path, STATE, "a run")
        assert rounds == whole[1] == 3
        assert torch.equal(state["x"], whole[0]["x"])
        assert state["t"] == 3

    return read


def _data(folder: Path) -> Callable[[], Any]:
    records = [{"prompt": f"p{i}", "chosen": "a", "rejected": "b", "user": i} for i in range(9)]
    folder.mkdir()
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, records)))
    return lambda: read_items(folder / "data.jsonl")


def _list(folder: Path) -> Callable[[], Any]:
    records = [{"instruction": f"p{i}", "answer": "a", "output": "a"} for i in range(9)]
    folder.mkdir()
    (folder / "data.json").write_text(json.dumps(records))
    return lambda: read_items(folder / "data.json")


def _metrics(folder: Path) -> Callable[[], Any]:
    folder.mkdir()
    line = {"run": "a", "round": 1, "time": 0.0, "values": {"loss": 0.5}}
    (folder / "metrics.jsonl").write_text(f"{json.dumps(line)}\n" * 4)
    return lambda: read_metrics(folder)


def _gguf(folder: Path) -> Callable[[], Any]:
    folder.mkdir()
    path = write_gguf(folder / "model.gguf", llama())
    return lambda: load_model(path)


def _shards(folder: Path) -> Callable[[], Any]:
    small_model("llama").save_pretrained(folder, max_shard_size="5KB")
    byte_tokenizer().save_pretrained(folder)
    assert len(list(folder.glob("*.safetensors"))) > 1
    return lambda: load_model(folder)


@pytest.mark.slow
@pytest.mark.parametrize("make", [_adapter, _checkpoint, _data, _list, _metrics, _gguf, _shards])
def test_a_damaged_file_is_a_line_or_is_read(
    make: Callable[[Path], Callable[[], Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rng, wrong, tried, refused = random.Random(SEED), [], 0, 0
    read = make(tmp_path / "it")
    read()
    shutil.copytree(tmp_path / "it", tmp_path / "sound")
    for sound in sorted(path for path in (tmp_path / "sound").rglob("*") if path.is_file()):
        path = tmp_path / "it" / sound.relative_to(tmp_path / "sound")
        times = 1 if make is _shards else 4  # there are many files
        for content in (one for _ in range(times) for one in damages(sound.read_bytes(), rng)):
            shutil.rmtree(tmp_path / "it")
            shutil.copytree(tmp_path / "sound", tmp_path / "it")
            path.unlink()
            if content is None:
                path.mkdir()
            else:
                path.write_bytes(content)
            tried += 1
            try:
                read()
            except InputError as error:
                refused += 1
                if "\n" in str(error) or len(str(error)) > 1000:
                    wrong.append(f"{path.name} = {(content or b'')[:80]!r}: {error}")
            except Exception as error:
                wrong.append(f"{path.name} = {(content or b'')[:80]!r}: {error!r}")
    assert tried > 50
    assert refused > tried / 4 or make is _metrics  # of which whole lines are read
    assert not wrong, f"{len(wrong)} of {tried}\n" + "\n".join(wrong)

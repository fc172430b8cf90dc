"""A block of an experiment on models that is killed goes on where it was, to the same bits."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import LlamaForCausalLM

from linsys.bilevel import MetaTraining
from linsys.sketching import FSLoRA
from lora_bridge.docstrings import byte_tokenizer
from ratecheck._discover import registry
from ratecheck._run.runner import run
from ratecheck._store.store import Store
from tests.lora_bridge._models import small_model
from tests.oodpl._small import TINY

Start = Callable[..., Any]
#: One method, one step size, two seeds: two runs in a block.
FSLORA = {
    "targets": ("q_proj",),
    "rank": 2,
    "gammas": (0.01,),
    "seeds": 2,
    "devices": 2,
    "samples": 8,
    "batch": 2,
    "tests": 4,
    "ratios": (0.5,),
    "local_steps": 1,
    "rounds": 60,
    "points": 2,
    "k": 1,
    "global_ranks": (2,),
    "levels": (0.5,),
}
#: SFT, rivals and controls, and Algorithm 1 in a block, whose rounds are enough to be killed in.
OOD = {**TINY, "targets": ("q_proj",), "K": 20}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    tokenizer = byte_tokenizer()
    config = small_model("llama").config
    config.vocab_size = len(tokenizer)
    for part in (LlamaForCausalLM(config), tokenizer):
        part.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def _kept(out: Path) -> list[Path]:
    """The checkpoints of blocks that are not finished."""
    return list(out.glob("bridge/*/*/*.unfinished/*/round-*"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("name", "algorithm", "options"),
    [
        ("fslora", FSLoRA, FSLORA),
        ("fslora", FSLoRA, {**FSLORA, "layers": 1}),  # what is below is computed once for a text
        ("ood_domains", MetaTraining, OOD),
    ],
)
def test_a_killed_block_goes_on(
    command: Start,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    algorithm: Any,
    options: dict[str, Any],
) -> None:
    out = tmp_path / "out"
    text = {k: ",".join(map(str, v)) if isinstance(v, tuple) else v for k, v in options.items()}
    settings = [part for k, v in text.items() for part in ("--set", f"{k}={v}")]
    settings += ["--model", model, "--out", out, "--threads", "1", "--no-figures"]
    process = command("bridge", name, *settings)
    for _ in range(12_000):  # ten minutes of imports, at most
        if _kept(out) or process.poll() is not None:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    _, said = process.communicate(timeout=600)
    assert process.returncode == -signal.SIGKILL, said
    assert _kept(out)

    experiment = registry.find_experiment(f"bridge/{name}")
    config = experiment.config_type(model=model, **options)
    rounds = 0
    original = algorithm.round

    def counted(self: Any, state: Any, oracle: Any) -> Any:
        nonlocal rounds
        rounds += 1
        return original(self, state, oracle)

    monkeypatch.setattr(algorithm, "round", counted)
    whole = run(experiment, config, Store(tmp_path / "fresh"))
    everything, rounds = rounds, 0
    again = run(experiment, config, Store(out))
    assert 0 < rounds < everything
    assert list(again) == list(whole)
    for column in whole:
        np.testing.assert_array_equal(again[column], whole[column])
    assert not list(out.glob("bridge/*/*/*.unfinished"))

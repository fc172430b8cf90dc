"""PEFT loads what the bank writes, and the bank what PEFT writes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor

from linsys import InputError
from lora_bridge.bank import AdapterBank
from lora_bridge.peft_io import load_adapter, save_adapter
from tests.lora_bridge._models import TARGETS, small_batch, small_model

# of PEFT's own making: it asks transformers by a name that is to change
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
TASKS = {"llama": "lm", "gpt2": "lm", "bert": "classifier"}


def _bank(kind: str) -> AdapterBank:
    return AdapterBank(small_model(kind, torch.float64), TARGETS[kind], scaling=2.0)


def _rows(bank: AdapterBank, k: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return 0.3 * torch.randn((k, bank.width), generator=generator, dtype=torch.float64)


def _logits(model: Any, batch: dict[str, Tensor]) -> Tensor:
    inputs = {k: v[0] for k, v in batch.items() if k != "label"}
    with torch.no_grad():
        return model(**inputs).logits


@pytest.mark.parametrize("rslora", [False, True])
@pytest.mark.parametrize("kind", ["llama", "gpt2", "bert"])
def test_peft_loads_a_client_to_the_same_outputs(tmp_path: Path, kind: str, rslora: bool) -> None:
    bank = _bank(kind)
    X, batch = _rows(bank), small_batch(1, 3)
    scale = 16 / 3  # of a sketch of 3 of 16 components
    options = {"scale": scale, "rslora": rslora, "task": TASKS[kind], "base": "small"}
    save_adapter(tmp_path / "a", bank, X, **options)
    inside = bank.output(X[None], batch, scale).logits
    outside = _logits(bank.model, batch)
    assert (inside - outside).abs().max() > 1e-2
    loaded = PeftModel.from_pretrained(copy.deepcopy(bank.model), str(tmp_path / "a"))
    torch.testing.assert_close(_logits(loaded, batch), inside, rtol=1e-10, atol=1e-10)
    merged = loaded.merge_and_unload()
    torch.testing.assert_close(_logits(merged, batch), inside, rtol=1e-9, atol=1e-9)
    back = load_adapter(tmp_path / "a", bank)
    again = bank.output(back[None], batch).logits  # the factor is in B now
    torch.testing.assert_close(again, inside, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("rslora", [False, True])
def test_the_bank_loads_what_peft_trained(tmp_path: Path, rslora: bool) -> None:
    bank, batch = _bank("llama"), small_batch(1, 3)
    config = LoraConfig(r=4, lora_alpha=12, target_modules=TARGETS["llama"], use_rslora=rslora)
    model = get_peft_model(copy.deepcopy(bank.model), config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_" in name:
                weight.copy_(0.3 * torch.randn_like(weight))
    model.save_pretrained(str(tmp_path / "b"))
    X = load_adapter(tmp_path / "b", bank)
    assert X.shape == (4, bank.width)
    expected = _logits(model.eval(), batch)
    torch.testing.assert_close(bank.output(X[None], batch).logits, expected)
    assert (_logits(bank.model, batch) - expected).abs().max() > 1e-2


def test_no_path_of_this_machine_is_written(tmp_path: Path) -> None:
    bank = _bank("llama")
    save_adapter(tmp_path / "a", bank, _rows(bank))
    text = (tmp_path / "a" / "adapter_config.json").read_text()
    assert str(tmp_path) not in text
    assert json.loads(text)["base_model_name_or_path"] in (None, "")


def _edit(folder: Path, **changes: Any) -> None:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"peft_type": "IA3"}, "must be of type LORA; found 'IA3'"),
        ({"use_dora": True}, "must be plain LoRA; found use_dora"),
        ({"bias": "all", "modules_to_save": ["score"]}, "found modules_to_save, bias"),
        ({"r": 5}, "another model or rank"),
        ({"r": "two"}, "`r of the adapter` must be"),
    ],
)
def test_adapters_that_are_something_else(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    bank = _bank("llama")
    save_adapter(tmp_path, bank, _rows(bank))
    _edit(tmp_path, **changes)
    with pytest.raises(InputError, match=message):
        load_adapter(tmp_path, bank)


def test_adapters_of_other_models_and_missing_ones(tmp_path: Path) -> None:
    bank = _bank("llama")
    save_adapter(tmp_path / "a", bank, _rows(bank))
    other = AdapterBank(bank.model, ["q_proj"])
    with pytest.raises(InputError, match="must have the modules of the bank"):
        load_adapter(tmp_path / "a", other)
    with pytest.raises(InputError, match=r"must have an adapter_config\.json"):
        load_adapter(tmp_path / "nothing", bank)
    (tmp_path / "a" / "adapter_model.safetensors").write_bytes(b"broken")
    with pytest.raises(InputError, match="must have a readable"):
        load_adapter(tmp_path / "a", bank)
    with pytest.raises(InputError, match=r"`X` must have shape \(k, "):
        save_adapter(tmp_path, bank, _rows(bank)[:, :3])
    with pytest.raises(InputError, match="`X` must be finite"):
        save_adapter(tmp_path, bank, _rows(bank) * float("nan"))

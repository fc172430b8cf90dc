"""Models and tokenizers from local folders.

A folder is what ``save_pretrained`` of transformers leaves: ``config.json``, weights as safetensors
and a tokenizer. No code of a model's folder is run. GGUF files and names become folders first, see
:mod:`lora_bridge.pretrained`; without any, the small model of :mod:`lora_bridge.built_in` is used.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from linsys.json_text import from_json
from linsys.validate import (
    InputError,
    check_choice,
    check_instance,
    check_integer,
)
from lora_bridge.built_in import built_in, quiet
from lora_bridge.failures import first_line, memory_explained
from lora_bridge.pretrained import located

__all__ = ["Loaded", "load_model", "longest"]

#: Nothing is downloaded, and no code of a folder is run.
_LOCAL: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
_CLASSES = {
    "lm": "AutoModelForCausalLM",
    "encoder": "AutoModel",
    "classifier": "AutoModelForSequenceClassification",
    "reward": "AutoModelForSequenceClassification",
}
#: Keys of a config.json that say how many modules of a kind there are, and how many there may be
#: where the weights are in few tensors.
_REPEATED, _FEW = re.compile("layer|block|expert|depth|stage"), 1024


@dataclass(frozen=True)
class Loaded:
    """A model with what belongs to it.

    Attributes:
        model: in evaluation mode, not frozen yet.
        tokenizer: pads on the right and has a token to pad with; its ``model_max_length`` is what
            the model has places for.
        name: the folder's name, or that on the hub, and a digest of the weights: how results name
            their model.
        folder: where it came from.
    """

    model: Any
    tokenizer: Any
    name: str
    folder: Path


def load_model(
    model: Path | str | None = None,
    task: str = "lm",
    *,
    labels: int = 2,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    attention: str = "sdpa",
    seed: int = 0,
) -> Loaded:
    """A model from a local folder, or the built-in one without any.

    Args:
        model: a folder with ``config.json``, safetensors and a tokenizer, or what
            :func:`lora_bridge.pretrained.located` makes one of.
        task: "lm" (next tokens), "encoder" (hidden states), "classifier" (``labels`` classes) or
            "reward" (one number). A head that the folder does not have is drawn from ``seed``.
        labels: classes of a classifier.
        dtype: of the weights.
        device: where to put it.
        attention: "sdpa", or "eager" where second derivatives are wanted.
        seed: of the weights that the folder lacks.

    Raises:
        InputError: a dtype that is not of floating point; a folder that is missing, incomplete or
            damaged, or holds pickled weights or an adapter only; sizes in its config.json that its
            weights do not have; weights that are not finite; an architecture that cannot do the
            task, such as an encoder for next tokens; no token to pad with; a device that is not
            there.
    """
    check_choice("task", task, tuple(_CLASSES))
    check_choice("attention", attention, ("sdpa", "eager"))
    check_integer("labels", labels, low=1)
    check_integer("seed", seed, low=0, high=(1 << 64) - 1)
    if not check_instance("dtype", dtype, torch.dtype, "a torch.dtype").is_floating_point:
        raise InputError(f"`dtype` must be of floating-point numbers; found {dtype}")
    place = _device(device)
    path = built_in() if model is None else located(model)
    _check_folder(path)
    tokenizer = _tokenizer(path)
    options: dict[str, Any] = {} if task in ("lm", "encoder") else {"num_labels": labels}
    if task == "reward":
        options = {"num_labels": 1}
    network = _weights(path, _CLASSES[task], options, attention, seed)
    with memory_explained():
        network = network.to(dtype=dtype, device=place).eval()
    network.config.pad_token_id = tokenizer.pad_token_id
    _check_outputs(path, network, task)
    if (most := longest(network)) is not None:
        tokenizer.model_max_length = most  # in folders it is often missing or wrong
    return Loaded(network, tokenizer, f"{_name(path)} ({_digest(path)})", path)


def longest(model: Any) -> int | None:
    """Tokens of the longest sequence that a model has places for, or None without a limit.

    RoBERTa's first places are padding, so that it has fewer than its configuration says.
    """
    places = getattr(model.config, "max_position_embeddings", None)
    if places is None:
        return None
    padding: list[int] = [
        module.padding_idx + 1
        for name, module in model.named_modules()
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None
    ]
    return int(places) - sum(padding[:1])


def _name(path: Path) -> str:
    """The folder's name, or that of the hub's model in whose cache it is."""
    hub = path.parent.parent.name if path.parent.name == "snapshots" else ""
    return hub.removeprefix("models--").replace("--", "/") or path.name


def _device(name: str | torch.device) -> torch.device:
    try:
        device = torch.device(name)
        torch.ones(1, device=device).item()
    except Exception as error:  # of whatever kind: each kind of device has its own
        raise InputError(
            f"`device` must be one that PyTorch can use here; found {name} ({first_line(error)})"
        ) from None
    return device


def _check_folder(path: Path) -> None:
    if not (path / "config.json").is_file():
        adapter = (path / "adapter_config.json").is_file()
        instead = "a PEFT adapter: give the folder of its base model" if adapter else "none"
        raise InputError(f"`model` must have a config.json in {path}; found {instead}")
    try:
        config = from_json((path / "config.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"config.json in {path} must be JSON; found {first_line(error)}") from None
    if not isinstance(config, dict) or "model_type" not in config:
        raise InputError(f"config.json in {path} must name a `model_type`; found none")
    if not _weight_files(path):
        pickled = sorted(p.name for p in path.glob("*.bin"))
        instead = f"{pickled[0]}, which is pickled: convert it" if pickled else "none"
        raise InputError(f"`model` must have weights as *.safetensors in {path}; found {instead}")
    _check_counts(path, config)


def _check_counts(path: Path, config: Any) -> None:
    """Refuse numbers of modules and of labels that the weights cannot have.

    They are made one by one, so that large ones would take for ever, or all memory.
    """
    shapes = _shapes(path)
    weights = sum(map(math.prod, shapes))
    limits = (_REPEATED, max(len(shapes), _FEW)), (re.compile("label"), max(weights, _FEW))
    for key, value in _numbers(config):
        for kind, most in limits:
            if kind.search(key) and abs(value) > most:
                shown = f"{value:.6g}" if abs(value) <= 1e300 else "a number of over 300 digits"
                raise InputError(
                    f"config.json in {path} must fit {len(shapes)} tensors of {weights} weights; "
                    f"found {key} = {shown}"
                )


def _numbers(config: Any, key: str = "") -> Iterator[tuple[str, float]]:
    """All numbers of a configuration, with the key that they are below."""
    if isinstance(config, dict):
        for name, value in config.items():
            yield from _numbers(value, name)
    elif isinstance(config, list):
        for value in config:
            yield from _numbers(value, key)
    elif isinstance(config, int | float):
        yield key, config


def _shapes(path: Path) -> list[list[int]]:
    """The shapes of all tensors in a folder's files."""
    shapes = []
    for file in _weight_files(path):
        with _one_line(f"{file.name} in {path} must hold weights"), safe_open(file, "pt") as parts:
            shapes += [parts.get_slice(name).get_shape() for name in parts.keys()]  # noqa: SIM118
    return shapes


@contextmanager
def _one_line(sentence: str) -> Iterator[None]:
    """What libraries raise at something that they cannot read becomes an InputError."""
    try:
        yield
    except (InputError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of tokenizers is no Exception
        raise InputError(f"{sentence}; found {first_line(error)}") from None


def _weight_files(path: Path) -> Sequence[Path]:
    return sorted(p for p in path.glob("*.safetensors") if not p.name.startswith("adapter"))


def _tokenizer(path: Path) -> Any:
    from transformers import AutoTokenizer

    if not any(path.glob("*token*")) and not any(path.glob("vocab*")):
        raise InputError(f"`model` must have a tokenizer in {path}; found none")
    with _one_line(f"`model` must have a tokenizer that loads in {path}"):
        tokenizer = AutoTokenizer.from_pretrained(path, **_LOCAL)
        tokenizer("a", return_tensors="pt")
    tokenizer.padding_side = "right"
    if tokenizer.pad_token is None:
        if tokenizer.eos_token is None:
            raise InputError(
                f"tokenizer of {path} must have a padding or an end token; found neither"
            )
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _weights(path: Path, kind: str, options: dict[str, Any], attention: str, seed: int) -> Any:
    import transformers

    with quiet(), _one_line(f"`model` in {path} must load as {kind}"):
        make = getattr(transformers, kind)
        config = transformers.AutoConfig.from_pretrained(path, **_LOCAL, **options)
        with torch.device("meta"):
            planned = sum(p.numel() for p in make.from_config(config).parameters())
        present = sum(map(math.prod, _shapes(path)))
        new = config.num_labels * config.hidden_size
        if planned > 2 * present + new:  # tied weights are in the files once
            raise InputError(
                f"config.json in {path} must fit the {present} weights beside it; "
                f"found that it says {planned}"
            )
        with torch.random.fork_rng(devices=[]), memory_explained():
            torch.manual_seed(seed)
            model, report = make.from_pretrained(
                path,
                config=config,
                use_safetensors=True,
                attn_implementation=attention,
                ignore_mismatched_sizes=True,  # refused below, by name
                output_loading_info=True,
                **_LOCAL,
            )
    for name, shape, wanted in sorted(report["mismatched_keys"]):
        raise InputError(
            f"`model` in {path} must have {name} of shape {tuple(wanted)}, as its config.json and "
            f"`labels` say; found {tuple(shape)}"
        )
    # a head may be new, with its pooler; a body that is not in the files would be noise
    body = {"AutoModel": "", "AutoModelForCausalLM": ""}.get(kind, f"{model.base_model_prefix}.")
    missing = [name for name in report["missing_keys"] if "pooler." not in name]
    lacking = sorted(name for name in missing if name.startswith(body))
    if lacking:
        raise InputError(
            f"`model` in {path} must load as {kind}: its weights lack {lacking[0]} "
            f"and {len(lacking) - 1} more"
        )
    return model


def _check_outputs(path: Path, model: Any, task: str) -> None:
    """Refuse weights that are not finite, a model that fails on two tokens, and one for next tokens
    that sees the tokens that it is to predict, such as an encoder.
    """
    for name, weight in (*model.named_parameters(), *model.named_buffers()):
        if not bool(weight.isfinite().all()):
            raise InputError(f"`model` in {path} must have finite weights; found others in {name}")
    ids = torch.tensor([[0, 1], [0, 2]], device=model.device)
    mask = torch.ones_like(ids)  # one of the tokens may be the padding token
    with _one_line(f"`model` in {path} must compute two tokens"), torch.no_grad():
        output = model(input_ids=ids, attention_mask=mask)
    if task != "lm":
        return
    first, second = output.logits[:, 0]
    rounding = 10 * torch.finfo(first.dtype).eps * float(first.abs().max())
    if float((first - second).abs().max()) > rounding:
        raise InputError(
            f"`model` in {path} must predict a token from those before it; "
            "found that it sees the next one, as an encoder does"
        )


def _digest(path: Path) -> str:
    digest = hashlib.sha256((path / "config.json").read_bytes())
    for file in _weight_files(path):
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:12]

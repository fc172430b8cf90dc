"""A client's adapters as an ordinary PEFT adapter folder, and back.

A folder has ``adapter_config.json`` and ``adapter_model.safetensors``. What :func:`save_adapter`
writes, PEFT's ``PeftModel.from_pretrained`` loads to the same outputs. PEFT computes its factor
from ``lora_alpha`` and r (alpha / r, or alpha / sqrt(r) for rsLoRA); ``lora_alpha`` is chosen to
give the factor that the client was trained with: the bank's, times r / k of a sketch.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from linsys._validate import InputError, choice, number
from lora_bridge.bank import AdapterBank

__all__ = ["load_adapter", "save_adapter"]

_KINDS = ("lm", "encoder", "classifier", "reward")
_TASKS = {"lm": "CAUSAL_LM", "encoder": "FEATURE_EXTRACTION"}


def save_adapter(
    folder: Path | str,
    bank: AdapterBank,
    X: Tensor,
    *,
    scale: float = 1.0,
    rslora: bool = False,
    base: str = "",
    task: str = "lm",
) -> None:
    """Write the rows X (k, w) of one client as a PEFT adapter of rank k.

    Args:
        folder: made where it does not exist.
        bank: whose modules the rows are about.
        X: shape (k, w).
        scale: the further factor of B A that the rows were trained with, such as r / k.
        rslora: write it as rsLoRA, whose factor is alpha / sqrt(k).
        base: the base model's name for the reader; a path would not fit another machine.
        task: as of :func:`lora_bridge.models.load_model`.

    Raises:
        InputError: rows of another width, numbers that are not finite.
    """
    from peft import LoraConfig
    from safetensors.torch import save_file

    choice("task", task, _KINDS)
    number("scale", scale, low=0.0, low_open=True)
    if X.ndim != 2 or X.shape[1] != bank.width or len(X) == 0:
        raise InputError(f"`X` must have shape (k, {bank.width}); found {tuple(X.shape)}")
    if not bool(torch.isfinite(X).all()):
        raise InputError("`X` must be finite; found an entry that is not")
    k = len(X)
    factor = bank.scaling * scale
    config = LoraConfig(
        r=k,
        lora_alpha=factor * (math.sqrt(k) if rslora else k),  # type: ignore[arg-type]
        target_modules=list(bank.names),
        use_rslora=rslora,
        base_model_name_or_path=base or None,
        task_type=_TASKS.get(task),  # of a classifier, PEFT would want the head's weights too
        fan_in_fan_out=any(not isinstance(m, nn.Linear) for m in _adapted(bank)),
        inference_mode=True,
        modules_to_save=[],
    )
    tensors = {}
    for name, (B, A) in zip(bank.names, bank.modules.split(X.detach().cpu()), strict=True):
        tensors[_key(name, "B")] = B.contiguous()
        tensors[_key(name, "A")] = A.contiguous()
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path / "adapter_model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(str(path))


def load_adapter(folder: Path | str, bank: AdapterBank) -> Tensor:
    """The rows X (r, w) of a PEFT adapter, for the bank's factor.

    The adapter's own factor is folded into B, so that X at scale 1 gives its outputs.

    Raises:
        InputError: no adapter there, one that is no plain LoRA, of other modules than the bank's or
            of other shapes: an adapter of another model.
    """
    path = Path(folder)
    config = _config(path)
    tensors = _tensors(path)
    wanted = {_key(name, side) for name in bank.names for side in "AB"}
    if set(tensors) != wanted:
        other = sorted(set(tensors) ^ wanted)[0]
        raise InputError(
            f"adapter in {path} must have the modules of the bank, {', '.join(bank.names)}; "
            f"found a difference at {other}"
        )
    r = int(config["r"])
    ratio = config["lora_alpha"] / (math.sqrt(r) if config.get("use_rslora") else r) / bank.scaling
    pairs = []
    for name, (m, n) in zip(bank.names, bank.modules.shapes, strict=True):
        B, A = tensors[_key(name, "B")], tensors[_key(name, "A")]
        if B.shape != (m, r) or A.shape != (r, n):
            raise InputError(
                f"adapter in {path} must have shapes ({m}, {r}) and ({r}, {n}) at {name}; "
                f"found {tuple(B.shape)} and {tuple(A.shape)}: it is of another model or rank"
            )
        pairs.append((ratio * B, A))
    joined: Tensor = bank.modules.join(pairs)
    return joined.to(bank.device)


def _adapted(bank: AdapterBank) -> list[nn.Module]:
    return [bank.model.get_submodule(name) for name in bank.names]


def _key(name: str, side: str) -> str:
    return f"base_model.model.{name}.lora_{side}.weight"


def _config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads((path / "adapter_config.json").read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise InputError(f"adapter must have an adapter_config.json; found {error}") from None
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        found = config.get("peft_type") if isinstance(config, dict) else config
        raise InputError(f"adapter in {path} must be of type LORA; found {found!r}")
    extra = [
        name
        for name in ("use_dora", "rank_pattern", "alpha_pattern", "modules_to_save", "lora_bias")
        if config.get(name)
    ]
    if config.get("bias", "none") != "none":
        extra.append("bias")
    if extra:
        raise InputError(f"adapter in {path} must be plain LoRA; found {', '.join(extra)}")
    for name in ("r", "lora_alpha"):
        number(f"{name} of the adapter", config.get(name), low=0.0, low_open=True)
    return config


def _tensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    file = path / "adapter_model.safetensors"
    try:
        return load_file(file)
    except (OSError, SafetensorError) as error:
        raise InputError(f"adapter must have a readable {file}; found {error}") from None

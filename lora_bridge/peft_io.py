"""A client's adapters as an ordinary PEFT adapter folder, and back.

A folder has ``adapter_config.json`` and ``adapter_model.safetensors``. What :func:`save_adapter`
writes, PEFT's ``PeftModel.from_pretrained`` loads to the same outputs. PEFT computes its factor
from ``lora_alpha`` and r (alpha / r, or alpha / sqrt(r) for rsLoRA); ``lora_alpha`` is chosen to
give the factor that the client was trained with: the bank's, times r / k of a sketch.

*The head of a model for sequences* (``score``, ``classifier``) is often new, with numbers that no
other machine has. It is saved whole, as PEFT's ``modules_to_save``, with what the client's rows add
to it. A head that is a target of the bank is read back into rows; another must be the model's own.

*Tied matrices.* Where the output matrix is the embedding and a target, as GPT-2's ``lm_head`` may
be, PEFT loads the adapter to the same outputs, but its ``merge_and_unload`` changes the embedding
too, of which PEFT warns: untie them first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from linsys.json_text import from_json
from linsys.validate import (
    InputError,
    check_flag,
    check_instance,
    check_integer,
    check_number,
    check_path as path_of,
)
from lora_bridge._checks import finite
from lora_bridge.bank import AdapterBank
from lora_bridge.failures import writing_explained

__all__ = ["by_client", "load_adapter", "save_adapter", "targets_of"]

#: Parts of PEFT's configuration that make an adapter something else than B A in each target.
_UNSUPPORTED = (
    *("use_dora", "rank_pattern", "alpha_pattern", "lora_bias", "use_qalora", "use_bdlora"),
    *("layer_replication", "target_parameters", "trainable_token_indices"),
    "alora_invocation_tokens",
)
_Pair = tuple[Tensor, Tensor]
#: No matrix has more rows; one with more digits would be no float.
_LARGEST_RANK = 2**31


def save_adapter(
    folder: Path | str,
    bank: AdapterBank,
    X: Tensor,
    *,
    scale: float = 1.0,
    rslora: bool = False,
    base: str = "",
) -> None:
    """Write the rows X (k, w) of one client as a PEFT adapter of rank k.

    What has been merged into the bank's frozen matrices is written with the rows, which raises the
    rank to that of the sums.

    Args:
        folder: made where it does not exist.
        bank: whose modules the rows are about.
        X: shape (k, w).
        scale: the further factor of B A that the rows were trained with, such as r / k.
        rslora: write it as rsLoRA, whose factor is alpha / sqrt(k).
        base: the base model's name for the reader; a path would not fit another machine.

    Raises:
        InputError: rows of another width, numbers that are not finite, a folder that cannot be
            written, a bank that adapts nothing
            but a head.
    """
    from peft import LoraConfig
    from safetensors.torch import save_file

    check_number("scale", scale, low=0.0, low_open=True)
    check_flag("rslora", rslora)
    check_instance("base", base, str, "a text, the base model's name")
    width = check_instance("bank", bank, AdapterBank, "an AdapterBank of the model").width
    if len(finite("X", X, "k", width)) == 0:
        raise InputError(f"`X` must have a row or more; found shape {tuple(X.shape)}")
    path = path_of("folder", folder)
    if path.is_file():
        raise InputError(f"`folder` must be a folder, or nothing yet; found a file at {path}")
    heads = _heads(bank.model)
    factor = bank.scaling * scale
    pairs = dict(zip(bank.names, bank.modules.split(X.detach().cpu()), strict=True))
    tensors = {
        f"base_model.model.{name}.{key}": value.detach().cpu().clone()
        for name, head in heads.items()
        for key, value in head.state_dict().items()
    }
    if bank.frozen:
        merged = [part.cpu().to(X.dtype) / factor for part in bank.frozen]
        sums = [F + B @ A for F, (B, A) in zip(merged, pairs.values(), strict=True)]
        pairs = dict(zip(bank.names, _padded([_factored(part) for part in sums]), strict=True))
    body = [name for name in bank.names if name.partition(".")[0] not in heads]
    if not body:
        raise InputError(
            f"`bank` must adapt more than a head, which is saved whole; found {bank.names}"
        )
    for name, (B, A) in pairs.items():
        if name in body:
            tensors[_peft_key(name, "B")], tensors[_peft_key(name, "A")] = (
                B.contiguous(),
                A.contiguous(),
            )
        else:
            module = bank.model.get_submodule(name)
            W = _matrix(module).cpu().to(B.dtype) + factor * (B @ A)
            tensors[f"base_model.model.{name}.weight"] = _stored(module, W).contiguous()
    k = pairs[body[0]][1].shape[0]
    config = LoraConfig(
        r=k,
        lora_alpha=factor * (math.sqrt(k) if rslora else k),  # type: ignore[arg-type]
        target_modules=body,
        use_rslora=rslora,
        base_model_name_or_path=base or None,
        task_type=_peft_task(bank.model),
        fan_in_fan_out=any(_transposed(bank.model.get_submodule(name)) for name in body),
        inference_mode=True,
        modules_to_save=list(heads),
    )
    with writing_explained("`folder`", path):
        config.save_pretrained(str(path))
        save_file(tensors, path / "adapter_model.safetensors", metadata={"format": "pt"})


def by_client(bank: AdapterBank, X: Tensor) -> dict[str, tuple[AdapterBank, Tensor]]:
    """The adapters X (N, r, w) of all clients by name, for :func:`lora_bridge.runs.recorded`."""
    return {f"client-{i}": (bank, rows) for i, rows in enumerate(X)}


def load_adapter(
    folder: Path | str, bank: AdapterBank, *, rank: int | None = None, base: str = ""
) -> Tensor:
    """The rows X (r, w) of a PEFT adapter, for the bank's factor.

    The adapter's own factor is folded into B, so that X at scale 1 gives its outputs.

    Args:
        folder: what PEFT or :func:`save_adapter` wrote.
        bank: the model with the same targets.
        rank: of the rows; the adapter's without it. Rows that it lacks are zero, in B and in A, and
            stay zero in training.
        base: what the adapter must name as its base model; anything without it.

    Raises:
        InputError: no adapter there, one that is no plain LoRA, of other modules than the bank's or
            of other shapes, of another base, of a larger rank; a head that is neither the model's
            nor a target of the bank; a bank into whose matrices something has been merged.
    """
    path = path_of("folder", folder)
    check_instance("bank", bank, AdapterBank, "an AdapterBank of the model")
    config, tensors = _config(path), _tensors(path)
    named = config.get("base_model_name_or_path") or "none"
    if base and named != base:
        raise InputError(f"adapter in {path} must be of the base model {base}; found {named}")
    if bank.frozen:
        raise InputError("`bank` must be of the model itself; found that something is merged in it")
    others = [key for key in tensors if ".lora_" not in key]  # heads; embeddings, which PEFT adds
    saved = {_model_key(key): tensors.pop(key) for key in others}
    body = [n for n in bank.names if _peft_key(n, "A") in tensors or f"{n}.weight" not in saved]
    wanted = {_peft_key(name, side) for name in body for side in "AB"}
    if set(tensors) != wanted:
        extra, lacking = sorted(set(tensors) - wanted), sorted(wanted - set(tensors))
        difference = f"{extra[0]} in excess" if extra else f"no {lacking[0]}"
        raise InputError(
            f"adapter in {path} must have the bank's {len(bank.names)} modules, from "
            f"{bank.names[0]} on; found {difference}: it is of another model or of other targets"
        )
    r = int(config["r"])
    ratio = config["lora_alpha"] / (math.sqrt(r) if config.get("use_rslora") else r) / bank.scaling
    pairs = []
    for name, (m, n) in zip(bank.names, bank.modules.shapes, strict=True):
        if name not in body:
            pairs.append(_difference(path, bank, name, saved.pop(f"{name}.weight")))
            continue
        B, A = tensors[_peft_key(name, "B")], tensors[_peft_key(name, "A")]
        if B.shape != (m, r) or A.shape != (r, n):
            raise InputError(
                f"adapter in {path} must have shapes ({m}, {r}) and ({r}, {n}) at {name}; "
                f"found {tuple(B.shape)} and {tuple(A.shape)}: it is of another model or rank"
            )
        pairs.append((ratio * B, A))
    _check_models_own(path, bank, saved)
    most = max(A.shape[0] for _, A in pairs)
    if rank is not None and most > check_integer("rank", rank, low=1):
        raise InputError(f"adapter in {path} must have at most rank {rank}; found {most}")
    joined: Tensor = bank.modules.join(_padded(pairs, rank or most))
    return joined.to(bank.device)


def targets_of(folder: Path | str) -> tuple[str, ...]:
    """The modules that a PEFT adapter adapts, for the bank that loads it.

    Raises:
        InputError: no adapter there; one whose modules are named by a pattern.
    """
    path = path_of("folder", folder)
    modules = _config(path).get("target_modules")
    if not isinstance(modules, list) or not modules:
        raise InputError(f"adapter in {path} must name its modules in a list; found {modules!r}")
    return tuple(sorted(map(str, modules)))


def _heads(model: nn.Module) -> dict[str, nn.Module]:
    """What a model for sequences has beside its body, by name."""
    if not type(model).__name__.endswith("ForSequenceClassification"):
        return {}
    beside = [(n, part) for n, part in model.named_children() if n != model.base_model_prefix]
    return {name: part for name, part in beside if any(True for _ in part.parameters())}


def _peft_task(model: Any) -> str | None:
    """PEFT's name of what the model is for."""
    if _heads(model):
        return "SEQ_CLS"
    output = getattr(model, "get_output_embeddings", lambda: None)()
    return None if output is None else "CAUSAL_LM"


def _transposed(module: nn.Module) -> bool:
    """Whether a module keeps the transpose of W, as GPT-2's ``Conv1D``."""
    return not isinstance(module, nn.Linear)


def _stored(module: nn.Module, W: Tensor) -> Tensor:
    """W as the module keeps it; applied to what it keeps, W."""
    return W.mT if _transposed(module) else W


def _matrix(module: nn.Module) -> Tensor:
    """W (m, n)."""
    return _stored(module, module.get_parameter("weight").detach())


def _difference(path: Path, bank: AdapterBank, name: str, weight: Tensor) -> _Pair:
    """Factors of a matrix that was saved whole less the model's, divided by the bank's scaling."""
    module = bank.model.get_submodule(name)
    W, saved = _matrix(module).cpu(), _stored(module, weight)
    if saved.shape != W.shape:
        raise InputError(
            f"adapter in {path} must have shape {tuple(W.shape)} at {name}; "
            f"found {tuple(saved.shape)}: it is of another model"
        )
    return _factored((saved - W.to(saved.dtype)) / bank.scaling)


def _factored(product: Tensor) -> _Pair:
    """B (m, r) and A (r, n) with B A = product, r its rank up to rounding."""
    U, sizes, V = torch.linalg.svd(product, full_matrices=False)
    rounding = max(product.shape) * torch.finfo(product.dtype).eps * sizes[0]
    r = int((sizes > rounding).sum())
    root = sizes[:r].sqrt()
    return U[:, :r] * root, root[:, None] * V[:r]


def _padded(pairs: Sequence[_Pair], r: int | None = None) -> list[_Pair]:
    """The pairs with one rank for all, by components that are zero."""
    r = r or max(1, *(A.shape[0] for _, A in pairs))
    pad = nn.functional.pad
    lacking = [(B, A, r - A.shape[0]) for B, A in pairs]
    return [(pad(B, (0, n)), pad(A, (0, 0, 0, n))) for B, A, n in lacking]


def _check_models_own(path: Path, bank: AdapterBank, saved: dict[str, Tensor]) -> None:
    """Refuse matrices that were saved whole and differ from the model's own."""
    own = bank.model.state_dict()
    for key, value in saved.items():
        name = key.rpartition(".")[0]
        if key not in own:
            raise InputError(
                f"adapter in {path} must be one of the model here, which has no {name}; found one "
                "of a model that has, such as a reward model, which gives scores and no answers"
            )
        mine = own[key].cpu()
        if mine.shape != value.shape or not torch.equal(mine, value.to(mine.dtype)):
            raise InputError(
                f"adapter in {path} must have the model's own {key}, or a matrix there that is a "
                f"target of the bank; found another one: use the model that it was trained with, "
                f"or name {name} in `targets`"
            )


def _peft_key(name: str, side: str) -> str:
    return f"base_model.model.{name}.lora_{side}.weight"


def _model_key(key: str) -> str:
    """The model's name of what PEFT saved whole."""
    return key.removeprefix("base_model.model.").replace(".base_layer.", ".")


def _config(path: Path) -> dict[str, Any]:
    file = path / "adapter_config.json"
    if not file.is_file():
        below = sorted(place.parent for place in path.glob(f"adapters/*/*/{file.name}"))
        instead = "none" if path.is_dir() else "no such folder"
        raise InputError(
            f"adapter in {path} must have an {file.name}, as PEFT writes it; "
            f"found {f'one in {below[-1]}' if below else instead}"
        )
    try:
        config = from_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file} must be readable JSON; found: {error}") from None
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        kind = config.get("peft_type") if isinstance(config, dict) else config
        raise InputError(f"adapter in {path} must be of type LORA; found {kind!r}")
    extra = [name for name in _UNSUPPORTED if config.get(name)]
    if config.get("bias", "none") != "none":
        extra.append("bias")
    if extra:
        raise InputError(f"adapter in {path} must be plain LoRA; found {', '.join(extra)}")
    check_integer("r of the adapter", config.get("r"), low=1, high=_LARGEST_RANK)
    check_number("lora_alpha of the adapter", config.get("lora_alpha"), low=0.0, low_open=True)
    return config


def _tensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    file = path / "adapter_model.safetensors"
    try:  # rows are kept in float32 or float64, whatever the file has
        return {
            key: value.to(torch.promote_types(value.dtype, torch.float32))
            for key, value in load_file(file).items()
        }
    except (OSError, SafetensorError) as error:
        raise InputError(f"adapter must have a readable {file}; found {error}") from None

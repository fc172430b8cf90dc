"""Keep an algorithm's state between rounds, so that a killed run goes on to the same numbers.

The algorithms' states are nested tuples of arrays and numbers, and draws depend on names alone, so
a state is all that there is to keep. A checkpoint is a folder with ``state.safetensors`` and
``state.json``, written under a temporary name and renamed: a kill leaves the one before. It holds a
digest of itself, so that a damaged one is noticed. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from linsys.json_text import from_json
from linsys.validate import InputError, check_instance, check_integer, check_path as path_of
from lora_bridge.failures import writing_explained

__all__ = ["OfAnotherRun", "all_of", "latest", "restore", "save"]

_State = TypeVar("_State")
_NAME = re.compile(r"round-(\d{8})")
#: Checkpoints that stay: the newest, and the one before in case the newest cannot be read.
_KEPT = 2


class OfAnotherRun(InputError):
    """A checkpoint that belongs to something else."""


def save(folder: Path | str, state: Any, rounds: int, about: str, keep: int = _KEPT) -> Path:
    """Keep the state after ``rounds`` rounds; older checkpoints but one go, and all later ones.

    A run that saves an earlier round has gone back before the later ones, for whatever reason.

    Args:
        folder: made where it does not exist.
        state: nested tuples, lists and dictionaries of tensors, arrays of NumPy, numbers, texts and
            None.
        rounds: rounds done.
        about: what the state belongs to (algorithm, model, data, seed); :func:`restore` wants it
            again.
        keep: checkpoints that stay.

    Raises:
        InputError: a state with something else in it; no text in ``about``; fewer than one
            checkpoint to keep; a folder that cannot be written.
    """
    base = path_of("folder", folder)
    check_integer("keep", keep, low=1)
    check_instance("about", about, str, "a text")
    tensors: dict[str, Tensor] = {}
    values: dict[str, Any] = {}
    arrays: list[str] = []
    for path, leaf in _leaves(state):
        if isinstance(leaf, Tensor):
            tensors[path] = leaf.detach().cpu().contiguous().clone()
        elif isinstance(leaf, np.ndarray):
            tensors[path] = torch.from_numpy(leaf.copy())
            arrays.append(path)
        elif leaf is None or isinstance(leaf, bool | int | float | str):
            values[path] = leaf
        else:
            raise InputError(f"`state` must hold arrays and numbers; found {leaf!r} at {path}")
    target = base / f"round-{check_integer('rounds', rounds, low=0, high=99_999_999):08d}"
    with writing_explained("folder of checkpoints", base):
        for later in all_of(base):
            if later > target:
                shutil.rmtree(later)
        _write(
            target, tensors, {"about": about, "rounds": rounds, "values": values, "arrays": arrays}
        )
    for old in all_of(base)[keep:]:
        shutil.rmtree(old, ignore_errors=True)
    return target


def latest(folder: Path | str) -> Path | None:
    """The newest checkpoint of a folder, or None."""
    return next(iter(all_of(folder)), None)


def all_of(folder: Path | str) -> list[Path]:
    """The checkpoints of a folder, the newest first."""
    named = [
        path for path in path_of("folder", folder).glob("round-*") if _NAME.fullmatch(path.name)
    ]
    return sorted(named, reverse=True)


def restore(checkpoint: Path | str, like: _State, about: str) -> tuple[_State, int]:
    """The state of a checkpoint, and its rounds.

    Args:
        checkpoint: of :func:`save` or :func:`latest`.
        like: a state of the same form, such as the one that the run would start from. An empty
            dictionary or tuple in it stands for whatever tensors and numbers were kept in its
            place.
        about: as it was saved with.

    Raises:
        OfAnotherRun: ``about`` is another one.
        InputError: a checkpoint that cannot be read, is damaged, or of another form.
    """
    path = path_of("checkpoint", checkpoint)
    try:
        manifest = from_json((path / "state.json").read_text(encoding="utf-8"))
        digest = manifest.pop("digest")
        if digest != _digest(path, manifest):
            raise ValueError("that its content has changed")
        tensors = load_file(path / "state.safetensors")
        values, rounds, kept_about = manifest["values"], manifest["rounds"], manifest["about"]
        kept = tensors | {name: tensors[name].numpy() for name in manifest["arrays"]} | values
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise InputError(f"checkpoint {path} must be readable; found {error}") from None
    if kept_about != about:
        raise OfAnotherRun(f"checkpoint {path} must be of {about}; found one of {kept_about}")
    try:
        state, saved = _rebuilt(like, "", kept), set(kept)
        if more := sorted(saved - {place for place, _ in _leaves(state)}):
            raise ValueError(f"{more[0]} in excess")
        return state, int(rounds)
    except (KeyError, ValueError) as error:
        raise InputError(
            f"checkpoint {path} must have the form of the run's state; found {error}"
        ) from None


def _write(target: Path, tensors: dict[str, Tensor], manifest: dict[str, Any]) -> None:
    """Write a checkpoint beside its place and rename it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=target.parent, prefix="making-"))
    try:
        save_file(tensors, unfinished / "state.safetensors")
        complete = {"digest": _digest(unfinished, manifest), **manifest}
        (unfinished / "state.json").write_text(json.dumps(complete), encoding="utf-8")
        if target.exists():
            shutil.rmtree(target)
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _digest(path: Path, manifest: dict[str, Any]) -> str:
    """SHA-256 of what a checkpoint holds: its tensors' file, and all else as text."""
    with (path / "state.safetensors").open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256")
    digest.update(json.dumps(manifest, sort_keys=True).encode())
    return digest.hexdigest()


def _leaves(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict):
        for name in sorted(node):
            yield from _leaves(node[name], f"{path}.{name}")
    elif isinstance(node, tuple | list):
        for i, child in enumerate(node):
            yield from _leaves(child, f"{path}.{i}")
    else:
        yield path, node


def _rebuilt(like: Any, path: str, saved: dict[str, Any]) -> Any:
    if isinstance(like, dict | tuple) and not like:
        below = f"{path}."
        inside = {n.removeprefix(below): v for n, v in saved.items() if n.startswith(below)}
        if isinstance(like, dict):
            return inside
        return tuple(inside[place] for place in sorted(inside, key=int))
    if isinstance(like, dict):
        return {name: _rebuilt(like[name], f"{path}.{name}", saved) for name in like}
    if isinstance(like, tuple | list):
        children = [_rebuilt(child, f"{path}.{i}", saved) for i, child in enumerate(like)]
        named = isinstance(like, tuple) and hasattr(like, "_fields")
        return type(like)(*children) if named else type(like)(children)
    value = saved[path]
    if isinstance(like, Tensor | np.ndarray):  # the dtype may be another than at the start
        if not isinstance(value, type(like)) or value.shape != like.shape:
            raise ValueError(f"{path} of another shape than {tuple(like.shape)}")
        return value.to(like.device) if isinstance(value, Tensor) else value
    return value

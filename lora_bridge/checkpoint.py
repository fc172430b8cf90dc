"""Keep an algorithm's state between rounds, so that a killed run goes on to the same numbers.

The algorithms' states are nested tuples of tensors and numbers, and draws depend on names alone, so
a state is all that there is to keep. A checkpoint is a folder with ``state.safetensors`` and
``state.json``, written under a temporary name and renamed: a kill leaves the one before. Nothing is
pickled.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from linsys._validate import InputError, whole

__all__ = ["all_of", "latest", "restore", "save"]

_State = TypeVar("_State")
_NAME = re.compile(r"round-(\d{8})")
#: Checkpoints that stay: the newest, and the one before in case its disk fails.
_KEPT = 2


def save(folder: Path | str, state: Any, rounds: int, about: str, keep: int = _KEPT) -> Path:
    """Keep the state after ``rounds`` rounds; older checkpoints but one go.

    Args:
        folder: made where it does not exist.
        state: nested tuples, lists and dictionaries of tensors, numbers, texts and None. Another
            object in it must have ``frozen``, a tuple of tensors, and ``with_frozen``, which makes
            the object with these: an oracle whose frozen model changes.
        rounds: rounds done.
        about: what the state belongs to (algorithm, model, data, seed); :func:`restore` wants it
            again.
        keep: checkpoints that stay.

    Raises:
        InputError: a state with something else in it.
    """
    base = Path(folder)
    base.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, Tensor] = {}
    values: dict[str, Any] = {}
    for path, leaf in _leaves(state):
        if isinstance(leaf, Tensor):
            tensors[path] = leaf.detach().cpu().contiguous().clone()
        elif leaf is None or isinstance(leaf, bool | int | float | str):
            values[path] = leaf
        else:
            raise InputError(f"`state` must hold tensors and numbers; found {leaf!r} at {path}")
    target = base / f"round-{whole('rounds', rounds, low=0):08d}"
    unfinished = Path(tempfile.mkdtemp(dir=base, prefix="making-"))
    try:
        save_file(tensors, unfinished / "state.safetensors")
        manifest = {"about": about, "rounds": rounds, "values": values}
        (unfinished / "state.json").write_text(json.dumps(manifest), encoding="utf-8")
        if target.exists():
            shutil.rmtree(target)
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    for old in all_of(base)[keep:]:
        shutil.rmtree(old, ignore_errors=True)
    return target


def latest(folder: Path | str) -> Path | None:
    """The newest checkpoint of a folder, or None."""
    return next(iter(all_of(folder)), None)


def all_of(folder: Path | str) -> list[Path]:
    """The checkpoints of a folder, the newest first; they are two where all went well."""
    named = [path for path in Path(folder).glob("round-*") if _NAME.fullmatch(path.name)]
    return sorted(named, reverse=True)


def restore(checkpoint: Path | str, like: _State, about: str) -> tuple[_State, int]:
    """The state of a checkpoint, and its rounds.

    Args:
        checkpoint: of :func:`save` or :func:`latest`.
        like: a state of the same form, such as the one that the run would start from. An empty
            dictionary in it stands for whatever tensors and numbers were kept in its place.
        about: as it was saved with.

    Raises:
        InputError: a checkpoint that cannot be read, of another run, or of another form.
    """
    path = Path(checkpoint)
    try:
        manifest = json.loads((path / "state.json").read_text(encoding="utf-8"))
        tensors = load_file(path / "state.safetensors")
        values, rounds, found = manifest["values"], manifest["rounds"], manifest["about"]
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise InputError(f"checkpoint {path} must be readable; found {error}") from None
    if found != about:
        raise InputError(f"checkpoint {path} must be of {about}; found one of {found}")
    try:
        return _rebuilt(like, "", tensors | values), int(rounds)
    except (KeyError, ValueError) as error:
        raise InputError(
            f"checkpoint {path} must have the form of the run's state; found {error}"
        ) from None


def _leaves(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict):
        for name in sorted(node):
            yield from _leaves(node[name], f"{path}.{name}")
    elif isinstance(node, tuple | list):
        for i, child in enumerate(node):
            yield from _leaves(child, f"{path}.{i}")
    elif hasattr(node, "with_frozen"):
        yield f"{path}.count", len(node.frozen)
        yield from _leaves(node.frozen, path)
    else:
        yield path, node


def _rebuilt(like: Any, path: str, saved: dict[str, Any]) -> Any:
    if isinstance(like, dict):
        if not like:
            below = f"{path}."
            inside = {n: value for n, value in saved.items() if n.startswith(below)}
            return {n.removeprefix(below): value for n, value in inside.items()}
        return {name: _rebuilt(like[name], f"{path}.{name}", saved) for name in like}
    if isinstance(like, tuple | list):
        children = [_rebuilt(child, f"{path}.{i}", saved) for i, child in enumerate(like)]
        named = isinstance(like, tuple) and hasattr(like, "_fields")
        return type(like)(*children) if named else type(like)(children)
    if hasattr(like, "with_frozen"):
        return like.with_frozen(tuple(saved[f"{path}.{i}"] for i in range(saved[f"{path}.count"])))
    value = saved[path]
    if isinstance(like, Tensor):
        if not isinstance(value, Tensor) or value.shape != like.shape:
            raise ValueError(f"{path} of another shape than {tuple(like.shape)}")
        return value.to(like)
    return value

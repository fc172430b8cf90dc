"""The folder that Flower takes a run from: the user's setup, and its options in ``pyproject.toml``.

The file names :mod:`lora_bridge.flower.apps`. Flower hands the folder to all SuperNodes, which must
have this package and its pinned dependencies themselves.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from linsys.validate import InputError
from lora_bridge.failures import writing_explained

__all__ = ["OPTIONS", "located", "write_app"]

#: A run's own options and their defaults; 0 as ``least`` stands for all clients.
OPTIONS: Mapping[str, Any] = {"least": 0, "timeout": 600.0, "gather": 120.0, "attempts": 1}
_SERVER = "lora_bridge.flower.apps:server"
_PYPROJECT = f"""[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "federation"
version = "1.0.0"
description = "A federated run"
license = "MIT"
dependencies = [] # what SuperNodes have is pinned there: nothing is installed at run time

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "ratecheck"

[tool.flwr.app.components]
serverapp = "{_SERVER}"
clientapp = "lora_bridge.flower.apps:client"

[tool.flwr.app.config]
"""


def located(setup: Path | str) -> tuple[Path | None, str]:
    """The file of a setup, where it is in one, and its "module:function".

    >>> located("package.module:function")
    (None, 'package.module:function')

    Raises:
        InputError: something else than "file.py:function" or "package.module:function"; no such
            file.
    """
    source, _, function = str(setup).rpartition(":")
    if not source or not function:
        raise InputError(
            f"`setup` must be file.py:function or package.module:function; found {str(setup)!r}"
        )
    if not source.endswith(".py"):
        return None, f"{source}:{function}"
    if not Path(source).is_file():
        raise InputError(f"`setup` must be file.py:function; found no file {source}")
    return Path(source), f"{Path(source).stem}:{function}"


def write_app(
    folder: Path | str, setup: Path | str, config: Mapping[str, Any] | None = None
) -> Path:
    """Write an app's folder.

    Args:
        folder: made where it does not exist.
        setup: "file.py:function", which is copied there, or "package.module:function".
        config: options of the run: ``folder``, where server and clients keep their files, those of
            :data:`OPTIONS`, and what the setup asks for.

    Raises:
        InputError: as :func:`located`; an option that is no number or text; a folder that cannot
            be written, or has a ``pyproject.toml`` of something else.
    """
    source, name = located(setup)
    base = Path(folder)
    options = {"folder": str(Path("federation").absolute()), **OPTIONS, **(config or {})}
    options["setup"] = name
    lines = [f"{json.dumps(name)} = {_toml(name, value)}" for name, value in options.items()]
    text = _PYPROJECT + "\n".join(lines) + "\n"
    with writing_explained("`folder`", base):
        _check_ours(base / "pyproject.toml")
        base.mkdir(parents=True, exist_ok=True)
        if source is not None and source.resolve() != (base / source.name).resolve():
            shutil.copyfile(source, base / source.name)
        (base / "pyproject.toml").write_text(text, encoding="utf-8")
    return base


def _check_ours(path: Path) -> None:
    """Refuse to write over another project's file."""
    if path.exists() and _SERVER not in path.read_text(encoding="utf-8", errors="replace"):
        raise InputError(f"`folder` must be new or an app of ours; found another project's {path}")


def _toml(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str | Path):
        return json.dumps(str(value))
    raise InputError(f"option {name} must be a number or a text; found {value!r:.60}")

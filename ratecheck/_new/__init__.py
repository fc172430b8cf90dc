"""A new paper: the folder that ``ratecheck new`` writes, complete and ready to be changed."""

from __future__ import annotations

import json
import keyword
import re
import sys
import tempfile
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from linsys.validate import InputError
from ratecheck._discover.papers import installed
from ratecheck._discover.table import FILE, TABLE
from ratecheck._store.files import writing

__all__ = ["write_project"]

#: Its files: their names end with .txt, the package's folder is ``package``.
_FILES = Path(__file__).with_name("files")


def write_project(name: str, into: Path) -> list[Path]:
    """Write the project of a paper below ``into / name``; the files, in the order to read them.

    Where ``into`` has a pyproject.toml, its table of papers gets the new one as well.

    Raises:
        InputError: a name that is not that of a Python package in lower case, or that another
            paper has; a folder that exists; one that cannot be written; a pyproject.toml that
            cannot be changed.
    """
    if not re.fullmatch("[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise InputError(
            f"`name` must be that of a Python package, lower-case letters, digits and _; "
            f"found {name!r}"
        )
    ours = {*installed(), "experiments", "linsys", "mgda", "lora_bridge", "ratecheck", "bridge"}
    others = {*ours, *sys.stdlib_module_names, *packages_distributions(), "tests"}
    if name in others:  # a project's folder would hide the library's
        raise InputError(f"`name` must be one that nothing has yet; found {name}")
    folder = into / name
    if folder.exists():
        raise InputError(f"`name` must be that of a new folder; found that {folder} exists")
    table = into / FILE
    text_of_table = _with_entry(table, f"{name}/{name}") if table.is_file() else None
    written = []
    with writing("folder of the new paper", into):
        into.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{name}.", suffix=".tmp", dir=into) as hidden:
            whole = Path(hidden) / name  # a part of a folder would be in the way of the next try
            for source in sorted(_FILES.rglob("*.txt")):
                inside = source.relative_to(_FILES).with_suffix("")
                new = {
                    "package": name,
                    "sums.py": f"{name}_sums.py",  # its id begins with bridge/, as others' do
                    "test_paper.py": f"test_{name}.py",
                }
                place = Path(*(new.get(part, part) for part in inside.parts))
                (whole / place).parent.mkdir(parents=True, exist_ok=True)
                title = name.replace("_", " ").capitalize()
                text = source.read_text(encoding="utf-8")
                text = text.replace("@name@", name).replace("@title@", title)
                (whole / place).write_text(text, "utf-8")
                written.append(folder / place)
            whole.rename(folder)
        if text_of_table is not None:
            table.write_text(text_of_table, "utf-8")
            written.append(table)
    return written


def _with_entry(path: Path, entry: str) -> str:
    """The text of a pyproject.toml whose table of papers names one more.

    Raises:
        InputError: the text has another form than usual.
    """
    try:
        text = path.read_text(encoding="utf-8")
        begin = rf"^\[tool\.{TABLE}\][^\[]*?^files\s*=\s*\["
        if re.search(begin, text, re.MULTILINE):
            new = re.sub(begin, rf"\g<0>{json.dumps(entry)}, ", text, count=1, flags=re.MULTILINE)
        else:
            new = f"{text.rstrip()}\n\n[tool.{TABLE}]\nfiles = [{json.dumps(entry)}]\n".lstrip()
        if entry in tomllib.loads(new)["tool"][TABLE]["files"]:
            return new
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise InputError(
        f"{path} must be TOML with a list [tool.{TABLE}] files or without one; found another form"
    )

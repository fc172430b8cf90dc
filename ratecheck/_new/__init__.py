"""A new paper: the folder that ``ratecheck new`` writes, complete and ready to be changed."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from linsys import InputError
from ratecheck._discover.papers import installed
from ratecheck._store.files import writing

__all__ = ["write_project"]

#: Its files: their names end with .txt, the package's folder is ``package``.
_FILES = Path(__file__).with_name("files")


def write_project(name: str, into: Path) -> list[Path]:
    """Write the project of a paper below ``into / name``; the files, in the order to read them.

    Raises:
        InputError: a name that is none of a Python package in lower case, or that another paper
            has; a folder that exists; one that cannot be written.
    """
    if not re.fullmatch("[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise InputError(
            f"`name` must be that of a Python package, lower-case letters, digits and _; "
            f"found {name!r}"
        )
    if name in (*installed(), "experiments", "linsys", "mgda", "lora_bridge", "ratecheck", "tests"):
        raise InputError(f"`name` must be one that nothing has yet; found {name}")
    folder = into / name
    if folder.exists():
        raise InputError(f"`name` must be that of a new folder; found that {folder} exists")
    written = []
    with writing("folder of the new paper", into):
        for source in sorted(_FILES.rglob("*.txt")):
            inside = source.relative_to(_FILES).with_suffix("")
            new = {
                "package": name,
                "sums.py": f"{name}_sums.py",  # its id begins with bridge/, as those of others do
                "test_paper.py": f"test_{name}.py",
            }
            place = folder.joinpath(*(new.get(part, part) for part in inside.parts))
            place.parent.mkdir(parents=True, exist_ok=True)
            title = name.replace("_", " ").capitalize()
            text = source.read_text(encoding="utf-8")
            place.write_text(text.replace("@name@", name).replace("@title@", title), "utf-8")
            written.append(place)
    return written

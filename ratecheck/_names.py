"""One error for every misspelt name, and one for every library that is not installed."""

from __future__ import annotations

import difflib
import importlib.util
import re
from collections.abc import Sequence

from linsys.validate import InputError

#: So many names fit into one line; of more, only so many of the nearest are listed.
_LISTED, _NEAREST = 8, 4
#: From which similarity on a name is near another one, and from which it may be what was meant.
_NEAR, _MEANT = 0.5, 0.6


def check_name(what: str, name: str, names: Sequence[str]) -> str:
    """Return ``name`` if it is among ``names``; otherwise raise InputError.

    >>> check_name("`profile`", "papr", ["quick", "paper"])
    Traceback (most recent call last):
        ...
    linsys.validate.InputError: `profile` must be one of quick, paper; found 'papr' (did you mean paper?)
    """  # noqa: E501
    if name in names:
        return name
    nearest = _nearest(name, names)
    near = [known for likeness, known in nearest if likeness >= _NEAR]
    meant = [known for likeness, known in nearest if likeness >= _MEANT]
    listed = f"one of {', '.join(names)}" if names else "a known name"
    if len(names) > _LISTED:
        listed = f"one of {len(names)} known names"
        listed += f", such as {', '.join(near)}" if near else ""
    hint = f" (did you mean {meant[0]}?)" if meant else ""
    raise InputError(f"{what} must be {listed}; found {name!r}{hint}")


def check_no_path(what: str, name: str, names: Sequence[str]) -> None:
    """Refuse a name that must be a path, since no id can be meant.

    Raises:
        InputError: it ends as a folder or a Python file does, or has a slash and begins with
            nothing like a paper of the names.

    >>> check_no_path("claim", "notes/lemmas.py", ["firm.lemma_1"])
    Traceback (most recent call last):
        ...
    linsys.validate.InputError: claim must be an id, a file or a folder; found no such file or folder: notes/lemmas.py
    """  # noqa: E501
    if name in names or not ("/" in name or name.endswith(".py")):
        return
    papers = {re.split("[./]", known)[0] for known in names}
    near = difflib.get_close_matches(name.partition("/")[0], papers, cutoff=_MEANT)
    if name.endswith(("/", ".py")) or not near:
        raise InputError(
            f"{what} must be an id, a file or a folder; found no such file or folder: {name}"
        )


def _nearest(name: str, names: Sequence[str]) -> list[tuple[float, str]]:
    """The nearest names and how near each is, from 0 to 1, the nearest first.

    Only those of which what follows the paper's name is near as well.
    """

    def likeness(one: str, other: str) -> float:
        return difflib.SequenceMatcher(None, one, other).ratio()

    def inner(text: str) -> str:
        return re.split(r"[./]", text, maxsplit=1)[-1]

    alike = [(likeness(name, known), known) for known in names]
    alike = [one for one in alike if likeness(inner(name), inner(one[1])) >= _NEAR]
    return sorted(alike, reverse=True)[:_NEAREST]


def check_installed(extra: str, *modules: str) -> None:
    """Raise InputError if a module cannot be found that an extra of ratecheck installs.

    >>> check_installed("images", "a_library_that_nobody_wrote")
    Traceback (most recent call last):
        ...
    linsys.validate.InputError: extra `images` must be installed; found no a_library_that_nobody_wrote: pip install 'ratecheck[images]', or in a clone '.[images]'
    """  # noqa: E501
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"extra `{extra}` must be installed; found no {', '.join(missing)}: "
            f"pip install 'ratecheck[{extra}]', or in a clone '.[{extra}]'"
        )

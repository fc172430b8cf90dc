"""One error for every misspelt name, and one for every library that is not installed."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Sequence

from linsys import InputError

#: So many names fit into one line; of more, only the nearest are listed.
_LISTED = 8


def check_name(what: str, name: str, names: Sequence[str]) -> str:
    """Return ``name`` if it is among ``names``; otherwise raise InputError.

    >>> check_name("`profile`", "papr", ["quick", "paper"])
    Traceback (most recent call last):
        ...
    linsys.validate.InputError: `profile` must be one of quick, paper; found 'papr' (did you mean paper?)
    """  # noqa: E501
    if name in names:
        return name
    near = difflib.get_close_matches(name, names, n=_LISTED, cutoff=0.0)
    listed = f"one of {', '.join(names)}" if names else "a known name"
    if len(names) > _LISTED:
        listed = f"one of {len(names)} known names, such as {', '.join(near)}"
    close = difflib.get_close_matches(name, near, n=1, cutoff=0.6)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise InputError(f"{what} must be {listed}; found {name!r}{hint}")


def check_installed(extra: str, *modules: str) -> None:
    """Raise InputError if a module cannot be found that an extra of ratecheck installs.

    >>> check_installed("images", "a_library_that_nobody_wrote")
    Traceback (most recent call last):
        ...
    linsys.validate.InputError: extra `images` must be installed; found no a_library_that_nobody_wrote: pip install 'ratecheck[images]'
    """  # noqa: E501
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"extra `{extra}` must be installed; found no {', '.join(missing)}: "
            f"pip install 'ratecheck[{extra}]'"
        )

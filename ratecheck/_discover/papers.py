"""Which papers there are: packages named under the entry point ``ratecheck.papers``.

The name of the entry point is the short name that the paper's ids begin with; its value is a
package with some of the folders ``claims``, ``figures``, ``rates`` and ``bridge``. Every public
module of such a folder is one section, figure, rate or experiment on a model. Listing them imports
none of them.
"""

from __future__ import annotations

import functools
import pkgutil
import re
from importlib.metadata import entry_points
from pathlib import Path

from ratecheck._fallback import folders_of

PAPERS = "ratecheck.papers"
BENCHMARKS = "ratecheck.benchmarks"


@functools.cache
def installed(group: str = PAPERS) -> dict[str, str]:
    """Short name to package of every paper (or of another group) in alphabetical order."""
    return {entry.name: entry.value for entry in sorted(entry_points(group=group))}


def check_found(reference: str) -> None:
    """Refuse an id or a pattern of a paper whose package is not there.

    Raises:
        InputError: Python finds no package of the name under which it is installed.
    """
    name = re.split(r"[./*?\[]", reference, maxsplit=1)[0]
    package = installed().get(name)
    if package is not None and not folders_of(package):
        # names of papers are asked for where nothing is computed
        from linsys.validate import InputError

        raise InputError(f"paper {name} must be found as package {package}; found none")


def check_free(name: str, what: str) -> None:
    """Refuse a user's ids that begin with the short name of an installed paper.

    Args:
        name: what the id begins with.
        what: the claim or the experiment, and where it is.

    Raises:
        InputError: there is such a paper.
    """
    if name in installed():
        from linsys.validate import InputError  # as above

        raise InputError(
            f"{what} must have an id that no installed paper has; found that of {installed()[name]}"
        )


def modules(package: str, folder: str = "") -> dict[str, str]:
    """Name to full name of the public modules in a folder of a package, in alphabetical order."""
    infos = pkgutil.iter_modules([str(Path(root) / folder) for root in folders_of(package)])
    inside = f"{package}.{folder}" if folder else package
    return {m.name: f"{inside}.{m.name}" for m in infos if not m.name.startswith("_")}

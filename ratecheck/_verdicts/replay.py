"""One stored instance of a claim, evaluated again in high precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linsys.json_text import from_json
from linsys.validate import InputError
from ratecheck._claims.claim import VERDICTS, Claim, StatisticalClaim
from ratecheck._discover.catalogue import Item, find_claims
from ratecheck._discover.named import files_of_claim
from ratecheck._verdicts.verdict import Verdict, replay


@dataclass(frozen=True)
class Replayed:
    """What an instance shows, and the verdict that was stated for it.

    Where a file states none, it is the one that the claim expects.
    """

    item: Item
    verdict: Verdict
    stated: str

    @property
    def ok(self) -> bool:
        """Whether the instance shows what was stated."""
        return self.verdict.verdict == self.stated

    def to_dict(self) -> dict[str, Any]:
        """The verdict, what was stated and whether they agree, as plain JSON values."""
        return {**self.verdict.to_dict(), "stated": self.stated, "ok": self.ok}


def replay_file(path: Path, references: Sequence[str] = ()) -> Replayed:
    """Evaluate the instance in a file such as ``ratecheck audit`` writes for a counterexample.

    Args:
        path: JSON with ``id`` and ``instance`` (lists by field), and as far as known ``verdict``
            and ``file``, the Python file that defines the claim.
        references: where else to look for the claim, such as a file that has moved.

    Raises:
        InputError: if the file is not of that form, or there is no such claim; or if its Python
            file lies outside of the project of the current folder and is not among ``references``.
    """
    content = _content(path)
    name, instance, stated = (content.get(key) for key in ("id", "instance", "verdict"))
    if not isinstance(name, str) or not name or not isinstance(instance, Mapping):
        raise InputError(
            f"replay file must have `id` and `instance`; found {', '.join(content) or 'nothing'} "
            f"in {path}"
        )
    paths = files_of_claim(name, content.get("file"), references)
    item = find_claims([f"{path}::{name}" for path in paths] or [name])[0]
    if not isinstance(item.entry, Claim | StatisticalClaim):
        raise InputError(f"`id` in {path} must be of a claim about instances; found {name}")
    stated = item.entry.expect if stated is None else stated
    if stated not in VERDICTS:
        raise InputError(f"`verdict` in {path} must be a verdict; found {stated!r}")
    try:
        return Replayed(item, replay(item.entry, instance), stated)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"`instance` in {path} must hold numbers; found {error}") from None


def _content(path: Path) -> dict[str, Any]:
    content = json_in("replay file", path)
    if not isinstance(content, dict):
        raise InputError(f"replay file must hold one object; found {type(content).__name__}")
    return content


def json_in(what: str, path: Path) -> Any:
    """What a JSON file holds; an error says what it should have been."""
    try:
        return from_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"{what} must be readable; found {path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{what} must be JSON; found {error} in {path}") from None

"""The claims of the files beside the tests, by their names."""

from __future__ import annotations

from pathlib import Path

from ratecheck._claims.claim import Claim
from ratecheck._discover.catalogue import Item, find_claims


class ClaimsOf:
    """The claims of a file in this folder.

    Args:
        name: of the file.
    """

    def __init__(self, name: str) -> None:
        self.file = Path(__file__).with_name(name)
        found = find_claims([str(self.file)])
        self.items: dict[str, Item] = {item.id.partition(".")[2]: item for item in found}

    def __call__(self, name: str) -> Claim:
        """The claim of this name."""
        entry = self.items[name].entry
        assert isinstance(entry, Claim)
        return entry

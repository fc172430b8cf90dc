"""Primes that are drawn are proved to be some where that is tested, and not for every identity."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import flint
import pytest

from ratecheck._certify import check_identity, formulas


class Number(flint.fmpz):  # type: ignore[misc]
    """A whole number."""

    def is_prime(self) -> Any:
        """Whether it is a prime, by a test of which no number is known that it is wrong about."""
        return self.is_probable_prime()


@pytest.fixture(scope="module", autouse=True)
def primes() -> Iterator[None]:
    """The checker of identities draws its primes as always, without the proof, which takes 0.3 s.

    Processes that tests start have the proof.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in (check_identity, formulas):
            patch.setattr(module, "flint", SimpleNamespace(fmpz=Number))
        yield

"""Cases of parametrized tests of which a few stand for all in the default tests."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def slow_but(quick: Iterable[Any], cases: Collection[Any]) -> list[Any]:
    """All cases, of which all but the quick ones run with the slow tests alone.

    A case of several arguments is a tuple, of which the first one says whether it is quick.
    """
    quick = list(quick)
    firsts = [case[0] if isinstance(case, tuple) else case for case in cases]
    assert all(one in firsts for one in quick), f"cases must be among {firsts}; found {quick}"
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=[] if first in quick else [pytest.mark.slow],
        )
        for case, first in zip(cases, firsts, strict=True)
    ]

"""ratecheck: check the theorems of a paper, measure its rates, draw its figures.

``import ratecheck as rc`` has everything that a paper needs. A name is imported from its module
when it is first used, so that the import itself takes no time; ``__init__.pyi`` lists all of them.

>>> import ratecheck as rc
>>> rc.Interval(1.0, 0.9, 1.1).hi
1.1
"""

from typing import Any

import lazy_loader

from ratecheck import _fallback as _fallback  # ours beside a user's packages of the same names

_import, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    value = globals()[name] = _import(name)
    return value

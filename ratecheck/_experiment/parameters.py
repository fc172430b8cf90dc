"""Parameters of an experiment: default, range and meaning of each in one place.

``param`` declares one; a configuration checks all of its parameters when it is made::

    class DecayConfig(rc.Config):
        agents: int = rc.param(20, low=2, doc="n")
        alpha: float = rc.param(0.1, above=0, doc="step size")
        levels: tuple[float, ...] = rc.param((0.1, 0.2), low=0, increasing=True, doc="delta")

What may stand in a parameter follows from its annotation: whole numbers for ``int``, finite numbers
for ``float``, True or False for ``bool``, one of the values for ``Literal``; of a tuple every entry
is checked. None passes where the annotation allows it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Never, dataclass_transform

from linsys.validate import InputError, check_choice, check_flag, check_integer, check_number

__all__ = ["Parameters", "check_parameters", "meanings", "param"]

#: The largest whole number that is allowed without `high`: it is a count, and no machine could
#: compute with more.
MOST = 10**8
#: The key of a field's metadata that holds the arguments of :func:`param`.
_KEY = "ratecheck"
#: The name at which a class keeps its fields as they were declared.
_FIELDS = "__ratecheck_fields__"


class Declared(NamedTuple):
    """The arguments of :func:`param` but the default; empty where none was given."""

    doc: str = ""
    low: float | str | None = None
    high: float | str | None = None
    above: float | str | None = None
    below: float | str | None = None
    least: int | None = None
    increasing: bool = False

    def refined(self, further: Declared) -> Declared:
        """These, replaced by what a derived class says of the same parameter."""
        silent = Declared()._asdict()
        said = {key: new for key, new in further._asdict().items() if new is not silent[key]}
        return self._replace(**said)


def param(
    default: Any,
    *,
    doc: str = "",
    low: float | str | None = None,
    high: float | str | None = None,
    above: float | str | None = None,
    below: float | str | None = None,
    least: int | None = None,
    increasing: bool = False,
    **unknown: Never,
) -> Any:
    """A parameter of a configuration.

    A bound may be the name of another parameter of the same configuration: ``high="rank"``. A class
    that gives a parameter of its base another default, plainly or by ``param``, keeps of its range
    and meaning what it does not say anew.

    Args:
        default: its value where none is given.
        doc: what it means, as ``ratecheck show`` prints it: symbol, unit.
        low, high: the range, of every entry of a tuple; whole numbers are at least 0 without
            ``low``, and at most 10^8 without ``high``.
        above, below: the same where the ends do not belong to it.
        least: how many entries a tuple must have; without it 2 where they must increase, 1
            elsewhere, but none where the default has none.
        increasing: whether the entries of a tuple must increase.

    Raises:
        InputError: an argument that it does not have.

    >>> import ratecheck as rc
    >>> class Sizes(rc.Config):
    ...     rank: int = rc.param(4, low=1, doc="r")
    ...     k: tuple[int, ...] = rc.param((1, 2), low=1, high="rank", doc="k_i, at most r")
    >>> Sizes(k=(1, 8))
    Traceback (most recent call last):
        ...
    linsys.validate.InputError: `k` must be a whole number of at least 1 and at most 4; found 8
    """
    if unknown:
        known = ", ".join(["default", *Declared._fields])
        raise InputError(f"`param` must have arguments of {known}; found {', '.join(unknown)}")
    if least is None and default == ():
        least = 0
    declared = Declared(doc, low, high, above, below, least, increasing)
    return dataclasses.field(default=default, metadata={_KEY: declared})


# To type checkers what param returns is the default itself: as a specifier it would need a keyword.
@dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,)
)
class Parameters:
    """Every class below it is a dataclass, frozen and with keywords alone, without a decorator.

    The decorator ``@dataclass(frozen=True, kw_only=True)`` above such a class changes nothing.

    >>> class Sizes(Parameters):
    ...     rank: int = param(4, low=1, doc="r")
    >>> Sizes(rank=2)
    Sizes(rank=2)
    >>> Sizes().rank = 3
    Traceback (most recent call last):
        ...
    dataclasses.FrozenInstanceError: cannot assign to field 'rank'
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)
        # A decorator makes the fields anew, from the defaults, which do not tell their range; and
        # it refuses a class that has these two methods, which are inherited from here.
        setattr(cls, _FIELDS, cls.__dataclass_fields__)
        del cls.__setattr__, cls.__delattr__

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def check_parameters(config: Any) -> None:
    """Check every declared parameter of a configuration against its declaration.

    Raises:
        InputError: one that is out of its range, of another kind, or a tuple that is too short or
            does not increase.
    """
    for name, (declared, kind) in _declared(config.__class__).items():
        ends = ("low", "high", "above", "below")
        bounds: dict[str, Any] = {end: _number(config, getattr(declared, end)) for end in ends}
        _check(name, getattr(config, name), kind, declared._replace(**bounds))


def meanings(config: type) -> dict[str, str]:
    """What is said of each declared parameter of a configuration, by name."""
    return {name: declared.doc for name, (declared, _) in _declared(config).items()}


@functools.cache
def _declared(config: type) -> dict[str, tuple[Declared, Any]]:
    """Name to what was declared, by the class nearest to the configuration, and the annotation."""
    kinds = typing.get_type_hints(config)
    merged: dict[str, Declared] = {}
    for base in reversed(config.__mro__):
        for field in base.__dict__.get(_FIELDS, {}).values():
            if _KEY in field.metadata:
                declared = field.metadata[_KEY]
                before = merged.get(field.name, declared)
                merged[field.name] = before.refined(declared)
    return {name: (declared, kinds[name]) for name, declared in merged.items()}


def _check(name: str, value: Any, kind: Any, declared: Declared) -> None:
    """One value of an annotated kind."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return
        [kind] = [argument for argument in arguments if argument is not type(None)]
        _check(name, value, kind, declared)
    elif origin is tuple:
        if not isinstance(value, tuple | list):
            raise InputError(f"`{name}` must be a tuple of values; found {value!r}")
        kinds = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        for entry, one in zip(value, kinds, strict=False):
            _check(name, entry, one, declared)
        least = 1 + declared.increasing if declared.least is None else declared.least
        rises = not declared.increasing or all(a < b for a, b in pairwise(value))
        if len(value) < least or not rises:
            what = "increasing values" if declared.increasing else "value" + "s" * (least > 1)
            raise InputError(f"`{name}` must be at least {least} {what}; found {value}")
    elif origin is typing.Literal:
        check_choice(name, value, arguments)
    elif kind is bool:
        check_flag(name, value)
    elif kind is int:
        high = declared.high
        if high is None and isinstance(value, int) and value > MOST:
            high = MOST
        most = None if high is None or high == math.inf else int(high)
        check_integer(name, value, low=int(declared.low or 0), high=most)
    elif kind is float:
        check_number(
            name,
            value,
            low=_first_given(declared.above, declared.low, -math.inf),
            high=_first_given(declared.below, declared.high, math.inf),
            low_open=declared.above is not None,
            high_open=declared.below is not None,
        )


def _number(config: Any, bound: float | str | None) -> float | None:
    """A bound; None if it names a parameter that is no number, which its own check reports."""
    value = getattr(config, bound) if isinstance(bound, str) else bound
    return value if isinstance(value, int | float) else None


def _first_given(*bounds: Any) -> float:
    """The first bound that is given."""
    return float(next(bound for bound in bounds if bound is not None))

"""The axes of a sweep: which values each parameter takes, from text or from Python."""

from __future__ import annotations

import dataclasses
import math
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from linsys.validate import InputError
from ratecheck._experiment.model import Config, Experiment, plain
from ratecheck._experiment.options import parse
from ratecheck._names import check_name

#: Values of every parameter that a sweep changes, by name, in the order in which they vary: the
#: last one fastest.
Axes = Mapping[str, Sequence[Any]]
#: Configurations of one sweep.
MOST = 10**7
#: How many characters a range may have, and the largest whole number, as files hold 64 bits.
_LONGEST, _LARGEST = 400, 2**63 - 1
_RANGE = re.compile(r"(linspace|geomspace|range)\(([^()]*)\)")


def axes_of(experiment: Experiment[Any], settings: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """The axes that texts such as ``n=2,5,10`` give.

    A value is what ``ratecheck run --set`` takes; several have commas between, those of a list
    semicolons. ``linspace(a,b,k)`` and ``geomspace(a,b,k)`` stand for k values from a to b,
    ``range(a,b)`` and ``range(a,b,step)`` for whole numbers from a to below b. Of a whole number
    the values are rounded, of a list each makes a list of one.

    Raises:
        InputError: another form, an unknown parameter, or one that is given twice.

    >>> from ratecheck import find_experiment
    >>> axes_of(find_experiment("affpcl/rate_n"), ["t=1e6,geomspace(1e8,1e10,3)", "agents=1,3,9"])
    {'t': (1000000.0, 100000000.0, 1000000000.0, 10000000000.0), 'agents': ((1, 3, 9),)}
    """
    hints = typing.get_type_hints(experiment.config_type)
    names = [field.name for field in dataclasses.fields(experiment.config_type)]
    axes: dict[str, tuple[Any, ...]] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise InputError(f"`--set` must look like key=values; found {setting!r}")
        check_name(f"parameter of {experiment.id}", name, names)
        if name in axes:
            raise InputError(f"`{name}` must be given once; found it again in {setting!r}")
        axes[name] = tuple(_values(name, text, hints[name]))
    return checked(experiment, axes)


def checked(experiment: Experiment[Any], axes: Mapping[str, Iterable[Any]]) -> dict[str, Any]:
    """These axes, if they are of the experiment's parameters and not too many.

    Raises:
        InputError: an unknown parameter, no value, a value twice, or more than 10^7 configurations.
    """
    names = [field.name for field in dataclasses.fields(experiment.config_type)]
    made: dict[str, tuple[Any, ...]] = {}
    for name, values in axes.items():
        check_name(f"parameter of {experiment.id}", name, names)
        one = isinstance(values, str) or not isinstance(values, Iterable)
        made[name] = (values,) if one else tuple(map(_python, values))
        shown = [str(plain(value)) for value in made[name]]
        if not shown or len(set(shown)) < len(shown):
            twice = next((text for text in shown if shown.count(text) > 1), "none")
            raise InputError(f"`{name}` must have distinct values, at least one; found {twice}")
        if large := [v for v in made[name] if isinstance(v, int) and abs(v) > _LARGEST]:
            raise InputError(f"`{name}` of a sweep must be below 2^63; found {large[0]!r:.80}")
    if not made:
        raise InputError("a sweep must change a parameter; found none: --set n=2,5,10")
    if size(made) > MOST:
        raise _too_many(size(made))
    return made


def _too_many(count: int) -> InputError:
    return InputError(f"a sweep must have at most {MOST:,} configurations; found {count:,}")


def size(axes: Axes) -> int:
    """How many configurations there are."""
    return math.prod(len(values) for values in axes.values())


def configuration(axes: Axes, index: int) -> dict[str, Any]:
    """The values of one configuration.

    >>> [configuration({"n": (2, 5), "delta": (0.0, 0.5, 1.0)}, k) for k in (0, 1, 3)]
    [{'n': 2, 'delta': 0.0}, {'n': 2, 'delta': 0.5}, {'n': 5, 'delta': 0.0}]
    """
    chosen: dict[str, Any] = {}
    for name in reversed(list(axes)):
        index, at = divmod(index, len(axes[name]))
        chosen[name] = axes[name][at]
    return {name: chosen[name] for name in axes}


def base(experiment: Experiment[Any], profile: str) -> Config:
    """The configuration that a sweep changes."""
    check_name(f"`profile` of {experiment.id}", profile, list(experiment.profiles))
    config: Config = experiment.profiles[profile]
    return config


def _values(name: str, text: str, kind: Any) -> list[Any]:
    entry = _entry(kind)
    values: list[Any] = []
    for part in re.split(";" if entry is not None else r",(?![^()]*\))", text):
        stated = _RANGE.fullmatch(part.strip())
        if stated is None:
            values.append(parse(name, part.strip(), kind))
            continue
        numbers = _numbers(name, part.strip(), stated[1], stated[2].split(","))
        of = _plain_kind(kind if entry is None else entry)
        if of is int:
            numbers = list(dict.fromkeys(map(round, numbers)))
        elif of is float:
            numbers = [float(one) for one in numbers]
        else:
            raise InputError(f"`{name}` must be a list of values; found {part.strip()}")
        values += [one if entry is None else (one,) for one in numbers]
    return values


def _numbers(name: str, text: str, kind: str, arguments: Sequence[str]) -> Sequence[float]:
    """The values of one range; those of ``range`` are whole numbers."""

    def refused(expected: str, found: str = text) -> InputError:
        return InputError(f"`{name}` must have {expected}; found {found:.80}")

    if len(text) > _LONGEST:
        raise refused(f"ranges of at most {_LONGEST} characters")
    if len(arguments) not in ((2, 3) if kind == "range" else (3,)):
        raise refused("ranges of the form linspace(a,b,k), geomspace(a,b,k) or range(a,b)")
    letters = ("a", "b", "step" if kind == "range" else "k")[: len(arguments)]
    form = f"{kind}({','.join(letters)})"
    read: list[Any] = []
    for letter, argument in zip(letters, arguments, strict=True):
        of, what = (float, "a") if kind != "range" and letter != "k" else (int, "a whole")
        try:
            read.append(of(argument))
        except ValueError:
            expected = f"{what} number as {letter} of {form}"
            raise refused(expected, f"{argument.strip()!r} in {text}") from None
    if kind == "range":
        low, high, step = read if len(read) == 3 else (*read, 1)
        if step == 0:
            raise refused(f"a step other than 0 in {form}")
        count = max(0, -((low - high) // step))
    else:
        low, high, count = read
        if count < 1:
            raise refused(f"at least one value in {form}, k of them")
    if count > MOST:
        raise _too_many(count)
    if kind == "range":
        if max(abs(low), abs(high)) > _LARGEST:
            raise refused(f"ends in {form} below 2^63")
        return range(low, high, step)
    if not math.isfinite(high - low):
        raise refused(f"finite ends in {form}, less than 1.8e308 apart")
    if kind == "geomspace" and not (min(low, high) > 0 or max(low, high) < 0):
        raise refused(f"ends in {form} that are not zero and of one sign")
    spaced = np.linspace if kind == "linspace" else np.geomspace
    return [float(one) for one in spaced(low, high, count)]


def _entry(kind: Any) -> Any:
    """What the entries of a list are; None where the parameter is no list."""
    of = _plain_kind(kind)
    return typing.get_args(of)[0] if typing.get_origin(of) is tuple else None


def _plain_kind(kind: Any) -> Any:
    """The annotation without None."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        others = [one for one in typing.get_args(kind) if one is not type(None)]
        return others[0] if len(others) == 1 else kind
    return kind


def _python(value: Any) -> Any:
    """A value of NumPy as one of Python."""
    if isinstance(value, np.generic):
        return value.item()
    return tuple(map(_python, value)) if isinstance(value, list | tuple | np.ndarray) else value

"""The instances of a claim: their fields and sizes, and the assumptions that they meet."""

from __future__ import annotations

import inspect
import itertools
import math
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields as dataclass_fields
from difflib import get_close_matches
from functools import cached_property, partial
from numbers import Integral, Real
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linsys.linalg import precise
from linsys.validate import InputError, shown
from ratecheck._claims.counts import counting
from ratecheck._claims.fields import FEW, Field, Numbers
from ratecheck._claims.instead import called, instead, leaves
from ratecheck._claims.places import place_of
from ratecheck._processes.interrupts import may_be_ctrl_c
from ratecheck._processes.limit import TimeLimit

#: Arrays of B instances by field, each ``(B, *shape)``.
Fields = dict[str, Numbers]
Sizes = dict[str, int]
Predicate = Callable[[Any], Any]
_SUCH_AS = {
    "sizes": "such as {'n': (1, 4)}",
    "assumes": "such as {'x > 0': lambda i: i.x > 0}",
    "given": "such as {'x > 0': lambda i: i.x > 0}",
    "meaning": "such as {'x': 'the start'}",
    "credible": "such as {'p': (0.1, 0.9)}",
}
#: Numbers beyond these make a counterexample look like a corner case.
_LEAST, _MOST = 1e-6, 1e6


class Fault(Exception):
    """A claim or its space cannot be evaluated: why, and on which instance of a batch."""

    def __init__(self, reason: str, index: int = 0) -> None:
        super().__init__(reason)
        self.reason, self.index = reason, index


class Imprecise(Fault):
    """A measure leaves high precision."""


class Unsettled(Fault):
    """Two evaluations of one instance contradict each other, so that nothing is known of it."""


#: What computes expectations in every precision.
_EXACT = "exact moments within a measure: rc.LinearRecursion or linsys.affine"
#: What makes an array of a number, also of one in high precision.
_ONE = "a single number becomes an array by np.array([x])"
#: What to do where only an integer will do.
_WHOLE = "int(n) makes an integer of a whole number that is one of an array or was computed"
#: What to do where NumPy's function has no rule for such numbers.
_HYPOT = "np.sqrt(x**2 + y**2) is np.hypot(x, y)"
#: What to do about errors that most users meet once, by a part of their text; the first one counts.
_HINTS = {
    "object has no attribute 'hypot'": _HYPOT,
    "cannot be interpreted as an integer": _WHOLE,
    "only integer scalar arrays can be converted to a scalar index": _WHOLE,
    "only integers, slices": _WHOLE,
    "Cannot cast array data from dtype('float64') to dtype('int": _WHOLE,
    "must be a rectangular array of numbers; found [": _EXACT,
    "`system` must be a FiniteSystem": _EXACT,
    "'mpf' object is not subscriptable": _ONE,
    "'mpf' object has no attribute": _ONE,
}


@contextmanager
def quiet() -> Iterator[None]:
    """Within the block, warnings are ignored: what a user wrote may divide by zero on the way.

    Also a decorator. NaN and infinity are left to those who use the result. In a block within such
    a block nothing is set: what somebody has asked for in between, such as errors, stays.
    """
    if _QUIET.now:  # setting it anew takes longer than many a measure
        yield
        return
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        _QUIET.now = True
        try:
            yield
        finally:
            _QUIET.now = False


class _Quiet(threading.local):
    """Whether a thread is within such a block."""

    now = False


_QUIET = _Quiet()


def call(what: str, function: Callable[..., Any], *args: Any, index: int = 0) -> Any:
    """Call what a user wrote; whatever it raises becomes a Fault that names it."""
    try:
        value = function(*args)
    except (Fault, TimeLimit):
        raise
    # also what is no Exception: it must neither end the caller's process nor skip a test
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and may_be_ctrl_c():
            raise
        said = f": {error}" if str(error) else ""
        text = " ".join(f"{what} raised {type(error).__name__}{said}".split())
        added = [hint for sign, hint in _HINTS.items() if sign in text][:1]
        left = leaves(error)
        if left:
            unknown = called(error) or "float(), math and np.linalg"
            better = instead(error) or f"NumPy's arithmetic and rc.linalg in place of {unknown}"
            text, added = (
                f"{what} leaves high precision, in which violations are confirmed: use {better}",
                [],
            )
        at = place_of(error)
        if at is not None and what == "measure":
            added.append(f"{Path(at.filename).name}:{at.lineno}")
        kind = Imprecise if left else Fault
        raise kind("".join([text[:300], *(f" ({one})" for one in added)]), index) from error
    if what == "measure":
        _check_sides(function, value, index)
    return value


def _check_sides(measure: Callable[..., Any], sides: Any, index: int) -> None:
    """Name the side that is left out, as by a function without a return, or is the instance."""
    if not isinstance(sides, tuple):
        return
    if not any(side is None or isinstance(side, Instance) for side in sides[:2]):
        return
    code = getattr(inspect.unwrap(getattr(measure, "function", measure)), "__code__", None)
    for name, side in zip(("measured side", "bound"), sides, strict=False):
        if side is None:
            found = "None"
        elif isinstance(side, Instance):
            asked = next(iter(code.co_varnames), "") if code else ""
            near = get_close_matches(asked, vars(side), n=1)
            meant = f" (did you mean `{near[0]}`?)" if near else ""
            found = (
                f"the whole instance, for which the parameter `{asked}` stands, as it is none of "
                f"its fields {', '.join(vars(side))}{meant}"
            )
        else:
            continue
        at = f" ({Path(code.co_filename).name}:{code.co_firstlineno})" if code else ""
        raise Fault(f"the {name} must be a number or an array; found {found}{at}", index)


class Instance(SimpleNamespace):
    """One instance, or several where a space is batched: an attribute for each field.

    >>> Instance(x=1.0).y
    Traceback (most recent call last):
    ...
    AttributeError: an instance has the fields x; found no 'y'
    """

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"an instance has the fields {', '.join(vars(self))}; found no {name!r}"
        )


@dataclass(frozen=True, eq=False)
class Space:
    """Instances that satisfy the assumptions by construction.

    Args:
        fields: name to domain; see :mod:`ratecheck._claims.fields`.
        sizes: range of every named axis, such as {"n": (1, 3)}, both ends included; 1 to 4 where
            none is given.
        repair: makes joint assumptions true, such as a positive definite mean: arrays by name in,
            all of them out. It must leave alone what meets them, work on high-precision numbers,
            and see B instances at once if ``batched``.
        view: builds what ``measure`` gets from the arrays; by default an object with one attribute
            per field.
        assumes: name to predicate of an instance. They hold by construction; an instance that
            breaks one is reported as a fault of the space, never as a counterexample.
        given: name to predicate that instances are *filtered* by. Where none passes, the claim is
            vacuous.
        corners: instances that are always tried, arrays by name without the axis B.
        batched: whether measure, repair, view and predicates work on B instances at once, along the
            first axis of every array. Otherwise they get one instance at a time, and the engine
            loops.
        meaning: name of a field to one short line that says what the field is, where its name does
            not.
        credible: name of a field to the range, both ends included, in which a counterexample
            persuades: (0.001, 0.5) for the probability of an exception, (0.1, 0.99) for a discount.
            Of several counterexamples one within the ranges is shown.
        constructed: what instances are made of on purpose, in a line, where fields or repair build
            a special case instead of drawing from all instances; verdicts repeat it.

    Raises:
        InputError: no fields, or what does not fit them; the message names it.

    >>> import ratecheck as rc
    >>> space = rc.Space(
    ...     fields={"p": rc.simplex("S"), "f": rc.reals("S")},
    ...     sizes={"S": (2, 3)},
    ...     given={"a mean above 0": lambda i: i.p @ i.f > 0},
    ... )
    >>> @rc.Paper("mine", "mine").lower("largest", ref="1", on=space)
    ... def largest(f):
    ...     "Some value is positive."
    ...     return f.max(), 0
    >>> rc.judge(largest).verdict
    'holds'
    """

    fields: Mapping[str, Field]
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    repair: Callable[[Fields], Fields] | None = None
    view: Callable[..., Any] = Instance
    assumes: Mapping[str, Predicate] = field(default_factory=dict)
    given: Mapping[str, Predicate] = field(default_factory=dict)
    corners: Sequence[Mapping[str, ArrayLike]] = ()
    batched: bool = False
    meaning: Mapping[str, str] = field(default_factory=dict)
    credible: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    constructed: str = ""

    def __new__(cls, *arguments: Any, **options: Any) -> Space:
        """Refuse what a space does not have, and say what was meant."""
        known = [one.name for one in dataclass_fields(cls)]
        if unknown := [name for name in options if name not in known]:
            near = get_close_matches(unknown[0], known, n=1)
            meant = f" (did you mean `{near[0]}`?)" if near else ""
            raise InputError(
                f"`Space` must have arguments of {', '.join(known)}; found {unknown[0]}{meant}"
            )
        return super().__new__(cls)

    def __post_init__(self) -> None:
        if not isinstance(self.fields, Mapping):
            raise InputError(
                "`fields` must be names and their domains, such as {'x': interval()}; found "
                f"{shown(self.fields)}"
            )
        if not self.fields:
            raise InputError("`fields` must be at least one; found none")
        for what in ("sizes", "assumes", "given", "meaning", "credible"):
            if not isinstance(found := getattr(self, what), Mapping):
                raise InputError(f"`{what}` must be a dict, {_SUCH_AS[what]}; found {shown(found)}")
        for what, predicates in (("assumes", self.assumes), ("given", self.given)):
            for name, predicate in predicates.items():
                if not callable(predicate):
                    raise InputError(
                        f"`{what}` must have functions of an instance; found {name!r}: "
                        f"{shown(predicate)}"
                    )
        if self.repair is not None and not callable(self.repair):
            raise InputError(f"`repair` must be a function of fields; found {shown(self.repair)}")
        for name, domain in self.fields.items():
            if not isinstance(domain, Field):
                raise InputError(
                    f"field `{name}` must be a domain such as interval(); found {domain!r}"
                )
        axes = sorted({a for f in self.fields.values() for a in f.axes if isinstance(a, str)})
        if unknown := sorted(set(self.sizes) - set(axes)):
            raise InputError(f"`sizes` must be of the axes {axes}; found {unknown}")
        missing = {axis: (1, 4) for axis in axes if axis not in self.sizes}
        object.__setattr__(self, "sizes", {**self.sizes, **missing})
        for name, ends in self.sizes.items():
            low, high = _pair(f"size `{name}`", ends, (Integral,), "whole numbers, such as (1, 4)")
            if not 1 <= low <= high:
                raise InputError(f"size `{name}` must have 1 <= low <= high; found ({low}, {high})")
        for name, range_ in self.credible.items():
            _pair(f"`credible` of `{name}`", range_, (Real,), "numbers, such as (0.1, 0.9)")
        for corner in self.corners if isinstance(self.corners, Sequence) else (None,):
            if not isinstance(corner, Mapping) or set(corner) != set(self.fields):
                raise InputError(
                    f"`corners` must be a list of dicts of all fields, {sorted(self.fields)}; "
                    f"found {shown(self.corners)}"
                )
        for what, about in (("meaning", self.meaning), ("credible", self.credible)):
            if strangers := sorted(set(about) - set(self.fields)):
                raise InputError(
                    f"`{what}` must be about the fields {sorted(self.fields)}; found {strangers}"
                )

    def all_sizes(self) -> list[Sizes]:
        """Every combination of sizes, small ones first."""
        ranges = [range(low, high + 1) for low, high in self.sizes.values()]
        combined = [dict(zip(self.sizes, c, strict=True)) for c in itertools.product(*ranges)]
        return sorted(combined, key=lambda s: (int(np.prod(list(s.values()))), list(s.values())))

    def every_instance(self) -> Iterator[Fields] | None:
        """All instances, stacked by sizes, where they are at most :data:`FEW`; else None."""
        finite = {name: domain.values() for name, domain in self.fields.items()}
        stacks, total = [], 0
        for sizes in self.all_sizes():
            shapes = {name: domain.shape(sizes) for name, domain in self.fields.items()}
            factors: list[Numbers] = []
            for name, values in finite.items():
                if values is None:
                    return None
                factors += [values] * math.prod(shapes[name])
            total += math.prod(map(len, factors))
            if total > FEW:
                return None
            stacks.append((shapes, factors))
        return (self._all_of(shapes, factors) for shapes, factors in stacks)

    def _all_of(self, shapes: Mapping[str, tuple[int, ...]], factors: Sequence[Numbers]) -> Fields:
        grid = np.stack([axis.ravel() for axis in np.meshgrid(*factors, indexing="ij")], axis=1)
        ends = np.cumsum([math.prod(shape) for shape in shapes.values()])[:-1]
        parts = np.split(grid, ends, axis=1)
        return self.complete(
            {
                name: part.reshape(len(grid), *shape)
                for (name, shape), part in zip(shapes.items(), parts, strict=True)
            }
        )

    def layout(self, sizes: Sizes) -> Layout:
        """How many coordinates an instance of these sizes has and where each field's lie."""
        key = tuple(sizes.items())
        if key not in self._layouts:
            self._layouts[key] = Layout(self, sizes)
        return self._layouts[key]

    @cached_property
    def _layouts(self) -> dict[tuple[tuple[str, int], ...], Layout]:
        """Those that were asked for; every claim about the space asks for the same ones."""
        return {}

    def sizes_of(self, fields: Fields) -> Sizes:
        """The sizes that arrays (B, *shape) have."""
        sizes: Sizes = {}
        for name, domain in self.fields.items():
            shape = fields[name].shape[1:]
            if len(shape) != len(domain.axes):
                raise InputError(f"`{name}` must have axes {domain.axes}; found shape {shape}")
            for axis, length in zip(domain.axes, shape, strict=True):
                wanted = sizes.setdefault(axis, length) if isinstance(axis, str) else axis
                if wanted != length:
                    raise InputError(f"axis {axis} of `{name}` must be {wanted}; found {length}")
        return sizes

    @quiet()
    def complete(self, fields: Fields) -> Fields:
        """Arrays of B instances moved into the domains and made to meet the joint assumptions."""
        moved = {name: domain.repair(fields[name]) for name, domain in self.fields.items()}
        if self.repair is None:
            return moved
        if self.batched:
            return dict(call("repair", self.repair, moved))
        singles = [
            call("repair", self.repair, one, index=k) for k, one in enumerate(self._singles(moved))
        ]
        return {name: np.stack([np.asarray(s[name]) for s in singles]) for name in moved}

    def precise(self, fields: Fields) -> Fields:
        """Instances in high precision, with every assumption met exactly."""
        completed = self.complete({name: precise(values) for name, values in fields.items()})
        return {name: _all_precise(values) for name, values in completed.items()}

    def first_broken(self, fields: Fields, views: Any = None) -> tuple[str, int] | None:
        """The first assumption that an instance breaks, and which instance; None if all hold."""
        for name, kept in self._checks(fields, views):
            if not kept.all():
                return name, int(np.argmin(kept))
        return None

    def meets(self, fields: Fields, views: Any = None) -> NDArray[np.bool_]:
        """Which instances lie in the domains and meet ``assumes`` and ``given``, shape (B,).

        ``views`` are those of the fields, for a caller who needs them, too.
        """
        kept = np.ones(_count(fields), dtype=bool)
        for _, mask in self._checks(fields, views):
            kept &= mask
        return kept & self.passing(fields, views)

    def passing(self, fields: Fields, views: Any = None) -> NDArray[np.bool_]:
        """Which instances meet ``given``, shape (B,)."""
        passed = np.ones(_count(fields), dtype=bool)
        if self.given:
            views = self.views(fields) if views is None else views
            for name in self.given:
                passed &= self.passes(name, views)
        return passed

    def persuades(self, fields: Fields) -> NDArray[np.bool_]:
        """Of which instances all numbers are such that a counterexample persuades, shape (B,).

        They lie in the ranges of ``credible``; without one, numbers are zero or from 1e-6 to 1e6.
        """
        kept = np.ones(_count(fields), dtype=bool)
        for name, values in fields.items():
            flat = values.reshape(len(values), -1).astype(float)
            if name in self.credible:
                low, high = self.credible[name]
                kept &= ((flat >= low) & (flat <= high)).all(axis=1)
            else:
                size = np.abs(flat)
                kept &= ((size == 0) | ((size >= _LEAST) & (size <= _MOST))).all(axis=1)
        return kept

    def passes(self, name: str, views: Any) -> NDArray[np.bool_]:
        """Which instances meet one predicate of ``given``, shape (B,)."""
        return self._evaluate_predicate(name, self.given[name], views)

    @quiet()
    def views(self, fields: Fields) -> Any:
        """What predicates and measure get: one object if batched, else a list of B."""
        if self.batched:
            return call("view", partial(self.view, **fields))
        return [
            call("view", partial(self.view, **one), index=k)
            for k, one in enumerate(self._singles(fields))
        ]

    @quiet()
    def _evaluate_predicate(self, name: str, predicate: Predicate, views: Any) -> NDArray[np.bool_]:
        what = f"the predicate {name!r}"
        if self.batched:
            answers = np.atleast_1d(np.asarray(call(what, predicate, views)))
            return _all_true(what, answers.reshape(len(answers), -1))
        singles = [call(what, predicate, one, index=k) for k, one in enumerate(views)]
        if all(type(one) is np.bool_ or type(one) is bool for one in singles):
            return np.array(singles, dtype=bool)  # at once, as this is what most predicates say
        kept = [_all_true(what, np.reshape(one, (1, -1)), k) for k, one in enumerate(singles)]
        return np.concatenate([np.empty(0, dtype=bool), *kept])

    def _singles(self, fields: Fields) -> Iterator[Fields]:
        """The instances one by one; single whole numbers are such that a ``range`` takes them."""
        whole = {name for name, domain in self.fields.items() if domain.counts and not domain.axes}
        for k in range(_count(fields)):
            one = {name: values[k] for name, values in fields.items()}
            for name in whole:
                one[name] = counting(one[name])
            yield one

    def _checks(self, fields: Fields, views: Any) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        for name, domain in self.fields.items():
            yield f"domain of {name}", domain.holds(fields[name])
        if self.assumes:
            views = self.views(fields) if views is None else views
            for name, predicate in self.assumes.items():
                yield name, self._evaluate_predicate(name, predicate, views)

    @cached_property
    def corner_fields(self) -> list[Fields]:
        """The corners as stacks of one."""
        return [
            {name: np.asarray(corner[name], dtype=float)[None] for name in self.fields}
            for corner in self.corners
        ]


def _pair(what: str, ends: Any, kinds: tuple[type, ...], wanted: str) -> tuple[Any, Any]:
    """Two numbers of a kind, the ends of a range."""
    if (
        not isinstance(ends, Sequence)
        or len(ends) != 2
        or not all(isinstance(e, kinds) for e in ends)
    ):
        raise InputError(f"{what} must be two {wanted}; found {shown(ends)}")
    low, high = ends
    return low, high


def _all_precise(values: Numbers) -> Numbers:
    """The values, made precise where a repair has put in ints or floats, such as a limit."""
    result = values.astype(object)
    number = type(precise([1.0])[0])
    for place in np.ndindex(result.shape):
        if not isinstance(result[place], number):
            result[place] = precise([result[place]])[0]
    return result


def _all_true(what: str, answers: NDArray[Any], first: int = 0) -> NDArray[np.bool_]:
    """Of which instances a predicate's answers, (B, entries), are all true, shape (B,).

    NaN, which Python takes for true, is a fault; ``first`` is the number of the first instance.
    """
    unknown = (answers != answers).any(axis=1)  # NaN alone differs from itself, in every precision
    if unknown.any():
        raise Fault(f"{what} must be true or false; found NaN", first + int(np.argmax(unknown)))
    return np.asarray(answers.astype(bool).all(axis=1))


def _count(fields: Fields) -> int:
    return len(next(iter(fields.values())))


class Layout:
    """The box of coordinates [0, 1]^m of one combination of sizes."""

    def __init__(self, space: Space, sizes: Sizes) -> None:
        self.space, self.sizes = space, sizes
        self._parts: list[tuple[str, Field, tuple[int, ...], int, int, int]] = []
        at = 0
        for name, domain in space.fields.items():
            shape = domain.shape(sizes)
            middle = at + domain.controls
            stop = middle + math.prod(shape)
            self._parts.append((name, domain, shape, at, middle, stop))
            at = stop
        self.coordinates = at

    def decode(self, coordinates: Numbers) -> Fields:
        """Coordinates (B, m) to the arrays of B instances that meet all assumptions."""
        fields: Fields = {}
        for name, domain, shape, start, middle, stop in self._parts:
            elements = coordinates[:, middle:stop].reshape(len(coordinates), *shape)
            fields[name] = domain.decode(coordinates[:, start:middle], elements)
        return self.space.complete(fields)

    @cached_property
    def ties(self) -> list[NDArray[np.int64]]:
        """Of each axis, the coordinate that each one equals where the axis is tied: the first."""
        themselves = np.arange(self.coordinates)[None]
        return [self.tie(themselves, axis)[0] for axis in self.sizes]

    def ends(self) -> Numbers:
        """Coordinates (E, m): all fields at an end at once, then each alone, the others between."""
        places = [slice(start, stop) for *_, start, _, stop in self._parts]
        ends = np.full((2 + 2 * len(places), self.coordinates), 0.5)
        ends[0], ends[1] = 0, 1
        for number, place in enumerate(places, start=1):
            ends[2 * number, place], ends[2 * number + 1, place] = 0, 1
        return np.unique(ends, axis=0)

    def tie(self, coordinates: Numbers, axis: str) -> Numbers:
        """Coordinates with everything equal along one axis: all agents alike, all states alike."""
        tied = coordinates.copy()
        for _, domain, shape, _, middle, stop in self._parts:
            if axis not in domain.axes:
                continue
            where = 1 + domain.axes.index(axis)
            elements = tied[:, middle:stop].reshape(len(coordinates), *shape)
            first = np.take(elements, [0], axis=where)
            tied[:, middle:stop] = np.broadcast_to(first, elements.shape).reshape(
                len(coordinates), -1
            )
        return tied

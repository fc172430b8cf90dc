"""Theorems that state a claim: found beside it, compared with it, and proved for all dimensions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from linsys.linalg import Numbers, precision
from linsys.validate import InputError
from ratecheck._certify.check import rational
from ratecheck._certify.gram.forms import Form, Number
from ratecheck._certify.gram.problem import Problem
from ratecheck._certify.gram.solve import worst_case
from ratecheck._claims.claim import Claim, OfInstance
from ratecheck._claims.fields import magnitude_of
from ratecheck._claims.samples import COMBINATIONS, Batch, draw
from ratecheck._claims.space import Fault, quiet
from ratecheck._discover.catalogue import Item, module, section
from ratecheck._discover.papers import installed, modules
from ratecheck._names import check_name
from ratecheck._processes.limit import limit_in
from ratecheck._verdicts.certificates import INSTANCES

#: Digits with which a theorem is compared with its claim.
DIGITS = 40
#: So many times as many are drawn, where too few are instances of the claim's space.
_RARE = (1, 25, 250)
#: So many instances are drawn, where there are fewer combinations of sizes four of each.
_DRAWN = 1_000
#: So many numbers are compared of the instances of one combination of sizes, but at least one
#: instance, and so many in all.
_NUMBERS, _ALL_NUMBERS = 2_000, 200_000
#: How far the two sides may be apart, relative to the sum of what they add up: rounding in 40
#: digits, with room for what linear algebra loses of them.
_SAME = 1e-20
#: The same relative to the instance's largest number, squared: what should be zero is rounding.
_ZERO = 1e-32
#: Two sides that are so near to each other differ by a constant that float64 rounded.
_ROUNDED = 1e-14


@dataclass(frozen=True)
class Theorem:
    """A claim as a statement about vectors of any dimension.

    Args:
        id: of the claim.
        state: adds vectors, assumptions and the conclusion to a problem.
        at: instance of the claim to the vectors, values and parameters by name. Its parameters are
            names of the instance's fields, as those of the claim's function; what it returns has
            the shape of the claim's sides first, and then, for vectors, any number of axes.
        power: the sides of the conclusion are this power of the claim's, which are not negative,
        scale: times what this function of an instance returns, which is positive; one without.
        back: vectors and values by name to an instance of the claim's space, plain lists by field.
            Where there is no proof, the worst instance is tried on the claim itself.
        numbers: of the parameters, for the worst instance.
    """

    id: str
    state: Callable[[Problem], Any]
    at: Callable[..., Mapping[str, Any]]
    power: int = 1
    scale: Callable[..., Any] | None = None
    back: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    numbers: Mapping[str, Number] | None = None

    def candidate(self) -> Mapping[str, Any] | None:
        """An instance at which the claim may be false; None where none is recovered."""
        if self.back is None:
            return None
        worst = worst_case(self.problem.at(**(self.numbers or {})))
        instance = {**worst.vectors, **worst.values, **(self.numbers or {})}
        return {name: np.asarray(x).tolist() for name, x in self.back(instance).items()}

    @property
    def problem(self) -> Problem:
        """The problem, stated anew."""
        problem = Problem()
        self.state(problem)
        if problem.conclusion is None:
            raise InputError(f"theorem of {self.id} must show a conclusion; found none")
        return problem

    @property
    def text(self) -> str:
        """What the function that states it says in the first paragraph of its docstring."""
        return " ".join((inspect.getdoc(self.state) or "").split("\n\n")[0].split())


def theorem(
    id: str,
    *,
    at: Callable[..., Mapping[str, Any]],
    power: int = 1,
    scale: Callable[..., Any] | None = None,
    back: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
    numbers: Mapping[str, Number] | None = None,
) -> Callable[[Callable[[Problem], Any]], Theorem]:
    """Declare that a statement about vectors is a claim's, to be proved for all dimensions.

    The arguments are those of :class:`Theorem`.

    >>> @theorem("mine.parallelogram", at=lambda v, w: {"v": v, "w": w})
    ... def parallelogram(p):
    ...     "|v + w|^2 <= 2 |v|^2 + 2 |w|^2."
    ...     v, w = p.vectors("v w")
    ...     p.show((v + w).squared <= 2 * v.squared + 2 * w.squared)
    >>> parallelogram.text
    '|v + w|^2 <= 2 |v|^2 + 2 |w|^2.'
    """
    if power not in (1, 2):
        raise InputError(f"`power` must be 1 or 2; found {power!r}")

    def declare(state: Callable[[Problem], Any]) -> Theorem:
        return Theorem(id, state, at, power, scale, back, numbers)

    return declare


def theorem_of(item: Item) -> Theorem | None:
    """The theorem that states a claim, of the user's file or of the paper's folder ``proofs``.

    Raises:
        InputError: a theorem of the user's file names no claim of it, or two name the same.
    """
    if item.origin.endswith(".py"):
        theorems = _in_modules((item.origin,))
        for name in theorems.keys() - {item.id}:
            check_name("theorem's `id`", name, [other.id for other in section(item.origin)])
        return theorems.get(item.id)
    package = installed().get(item.entry.paper)
    if package is None:
        return None
    return _in_modules(tuple(modules(package, "proofs").values())).get(item.id)


@functools.lru_cache(maxsize=64)
def _in_modules(origins: tuple[str, ...]) -> dict[str, Theorem]:
    theorems: dict[str, Theorem] = {}
    for origin in origins:
        for value in vars(module(origin)).values():
            if isinstance(value, Theorem):
                other = theorems.setdefault(value.id, value)
                if other is not value:
                    raise InputError(f"theorems of {value.id} must be one; found two")
    return theorems


def evaluated(form: Form, instance: Mapping[str, Numbers]) -> tuple[Numbers, Numbers]:
    """The value of a form at instances, and the sum of the sizes of its terms.

    Args:
        form: of vectors (K, m), and of values and parameters (K,), with these names.
        instance: by name.
    """
    terms = terms_of(form, instance)
    return sum(terms, np.asarray(0)), sum(map(abs, terms), np.asarray(0))


def terms_of(form: Form, instance: Mapping[str, Numbers]) -> list[Any]:
    """The terms of a form at instances; their sum is its value."""
    terms = []
    for (monomial, atom), c in form.terms.items():
        term: Any = c.numerator
        for name, power in monomial:
            term = term * instance[name] ** power
        if len(atom) == 1:
            term = term * instance[atom[0]]
        elif atom:
            term = term * (instance[atom[0]] * instance[atom[1]]).sum(axis=-1)
        terms.append(term / c.denominator)
    return terms


def compare(theorem: Theorem, claim: Claim, batch: Batch, digits: int = DIGITS) -> str:
    """Why a theorem does not state the claim on these instances, in a line; empty where it does."""
    problem = theorem.problem
    assert problem.conclusion is not None
    with precision(digits), quiet():
        exact = Batch(claim.space, claim.space.precise(batch.fields), batch.sizes)
        views = exact.views if claim.space.batched else [*exact.views]
        for view in [views] if claim.space.batched else views:
            sides = np.broadcast_arrays(*sides_of(claim.measure(view)))
            lead = sides[0].shape
            given = OfInstance(theorem.at)(view)
            scale = 1 if theorem.scale is None else OfInstance(theorem.scale)(view)
            instance = shaped(problem, given, lead)
            if others := [name for name, x in instance.items() if not _finite(x)]:
                raise InputError(f"`at` must return finite numbers; found others in {others[0]!r}")
            scale = np.broadcast_to(np.asarray(scale), lead).reshape(-1)
            least = _ZERO * float(max(1.0, magnitude_of([*batch.fields.values()]).max())) ** 2
            if not (_finite(scale) and (scale > 0).all()):
                return "`scale` must be positive and finite; found a number that is not"
            stated = (problem.conclusion.measured, problem.conclusion.bound)
            names = ("measured", "bound")
            own = sides[::-1] if claim.relation == ">=" else sides
            for name, form, side in zip(names, stated, own, strict=True):
                flat = side.reshape(-1)
                if not _finite(flat):
                    return f"the claim's {name} side must be finite; found one that is not"
                if theorem.power == 2 and (flat < 0).any():
                    return f"the claim's {name} side must not be negative; found one that is"
                value, size = evaluated(form, instance)
                expected = scale * flat**theorem.power
                wrong = abs(value - expected) > _SAME * (size + abs(expected)) + least
                if np.any(wrong):
                    k = int(np.argmax(np.broadcast_to(wrong, flat.shape)))
                    pair = [np.broadcast_to(x, flat.shape)[k] for x in (expected, value)]
                    return f"`{name}` of the theorem must be that of the claim, {_beside(*pair)}"
            for assumption in problem.assumed:
                if reason := _broken(assumption, instance, least):
                    return f"assumption {assumption.name!r} must hold at instances; {reason}"
            for name in problem.parameters:
                if (instance[name] < 0).any():
                    return f"parameter {name} must not be negative; found one that is"
    return ""


def _beside(expected: Any, found: Any) -> str:
    """Two numbers that should be the same, and what may be the matter where they nearly are."""
    words = f"{float(expected):.9g}; found {float(found):.9g}"
    apart = float(abs(found - expected) / max(abs(found), abs(expected)))
    if apart > _ROUNDED:
        return words
    return f"{words}, {apart:.1e} of it apart, as where 1 / 3 * x is rounded and x / 3 is not"


def sides_of(answer: Any) -> list[Numbers]:
    sides = [np.asarray(side) for side in answer]
    width = max(side.ndim for side in sides)
    return [side.reshape((*side.shape, *[1] * (width - side.ndim))) for side in sides]


def shaped(problem: Problem, given: Mapping[str, Any], lead: tuple[int, ...]) -> dict[str, Numbers]:
    """Vectors (K, m), values and parameters (K,), K the number of the claim's sides."""
    needed = [*problem.spaces, *problem.scalars, *problem.parameters]
    if missing := sorted(set(needed) - set(given)):
        raise InputError(f"`at` must return every vector and parameter; found no {missing}")
    count = int(np.prod(lead))
    made: dict[str, Numbers] = {}
    for name in needed:
        array = np.asarray(given[name])
        if name in problem.spaces:
            array = array.reshape((*array.shape[: len(lead)], -1))
            made[name] = np.broadcast_to(array, (*lead, array.shape[-1])).reshape(count, -1)
        else:
            made[name] = np.broadcast_to(array, lead).reshape(-1)
    return made


def _finite(numbers: Numbers) -> bool:
    """Whether numbers of any kind are: inf - inf is NaN, which every comparison would let pass."""
    return bool(np.all(numbers - numbers == 0))


def _broken(assumption: Any, instance: Mapping[str, Numbers], least: float) -> str:
    """What an assumption comes out as where it does not hold up to rounding."""
    if len(assumption.matrix) > 1:
        pairs = [[evaluated(form, instance) for form in row] for row in assumption.matrix]
        shape = np.broadcast_shapes(*(np.shape(v) for row in pairs for v, _ in row))
        values, sizes = (
            np.stack(
                [[np.broadcast_to(pair[k], shape).astype(float) for pair in row] for row in pairs]
            ).reshape(len(pairs), len(pairs), -1)
            for k in (0, 1)
        )
        lowest = np.linalg.eigvalsh(np.moveaxis(values, -1, 0))[:, 0]
        least_allowed = -1e-9 * sizes.max(axis=(0, 1))
        return "" if (lowest >= least_allowed).all() else f"found an eigenvalue {lowest.min():.3g}"
    value, size = evaluated(assumption.matrix[0][0], instance)
    room = _SAME * size + least
    wrong = abs(value) > room if assumption.equal else value < -room
    return f"found {float(np.ravel(value)[np.argmax(wrong)]):.3g}" if np.any(wrong) else ""


def disagreement(theorem: Theorem, claim: Claim, total: int = INSTANCES, seed: str = "gram") -> str:
    """Why a theorem does not state its claim, from instances drawn of the claim's own space.

    All that are drawn first are compared, and of those drawn besides a few of each combination of
    sizes. What large sizes would take is left out, of many instances and of many sizes: the random
    ones go before those with equal coordinates, and small sizes before larger ones.
    """
    sizes = len(claim.space.all_sizes())
    fewest, each = max(total, min(4 * sizes, _DRAWN)), max(4, total // sizes + 1)
    least = -(-total // min(sizes, COMBINATIONS))
    for count in (times * fewest for times in _RARE):
        compared = numbers = 0
        for batch in draw(claim.space, seed, 0, count):
            if compared >= total and numbers > _ALL_NUMBERS:
                break
            kept = np.ones(len(batch), dtype=bool)
            for passes in batch.passing.values():
                kept &= np.asarray(passes, dtype=bool)
            rows = np.flatnonzero(kept)[: None if count == fewest else each]
            size = sum(values[0].size for values in batch.fields.values())
            rows = rows[-max(least, _NUMBERS // size) :]
            numbers += size * len(rows)
            if not len(rows):
                continue
            try:
                reason = compare(theorem, claim, batch.subset(rows))
            except InputError:
                raise
            except Exception as error:  # of a user's functions, whatever they do
                from ratecheck._certify.enclosures import told  # which needs python-flint

                if limit := limit_in(error):
                    raise limit from None
                cause = error.__cause__ if isinstance(error, Fault) and error.__cause__ else error
                reason = f"`at` must be evaluated in {DIGITS} digits: {told(cause)}"
            if reason:
                return reason
            compared += len(rows)
        if compared >= total:
            return ""
    return f"{total} instances of the claim's space must be compared; {compared} were drawn"


def excess_of(text: Any) -> Fraction:
    """The share that a certificate says a bound is exceeded by.

    Raises:
        ValueError: if it is no number.
    """
    share = rational(text)
    if share < 0:
        raise ValueError("no share")
    return share

"""That a theorem is its claim: both are the same functions, on every branch of them.

A theorem is proved of vectors, and its claim is a function of an instance. It is the claim where
each side, at the vectors, values and parameters that ``at`` gives of an instance, is the claim's
own side to the theorem's power, times its scale. Drawn instances say nothing of a branch of these
functions that none of them meets. So the two are compared as functions here, for given sizes, as
the two sides of an identity are: all are recorded as one program of plain operations, with both
outcomes of each comparison, and it is shown modulo a random prime that the sides are equal in every
case, whatever the numbers are (:mod:`ratecheck._certify.check_identity`). Maxima, absolute values,
exponentials and rounded constants are unknowns there, the same ones of the same numbers. Left out
are sides of the claim that have no value, such as NaN, of which a claim says nothing.

The theorem also needs signs: of its parameters, of the scale, of the claim's sides where these are
squared, and of what roots and logarithms in ``at`` are taken of, as it says nothing where it is
given no numbers. They are read off the program; those that it does not show are assumptions. Where
a divisor is zero both sides are limits, and an inequality holds of limits.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from linsys.linalg.recorded import Recorded, State
from linsys.linalg.tapes import NOT_NEGATIVE, POSITIVE
from ratecheck._certify import formulas
from ratecheck._certify.check import Wrong
from ratecheck._certify.enclosures import Unprovable, told
from ratecheck._certify.gram.declared import Theorem, shaped, sides_of, terms_of
from ratecheck._certify.random_points import whole_numbers
from ratecheck._certify.stated import check_left, same
from ratecheck._claims.claim import Claim, OfInstance
from ratecheck._claims.space import Sizes
from ratecheck._processes.limit import TimeLimit, limit_in, time_limit

#: CPU seconds for all sizes of a theorem, and for one combination.
SECONDS, _EACH = 6.0, 2.0
#: So many times as long the latter has where a certificate says that it suffices.
_PATIENCE = 4.0
#: So many cases a program has, and so many combinations of sizes are tried.
_CASES, _SIZES = 256, 256
#: After so many sizes in vain no more are tried.
_FAILURES = 3
_NO_TIME = "no answer within the time for it"
_NO_NUMBER = "`at` and `scale` must give numbers; found nan or an infinite one on a branch"
#: A rounded constant in a program. What holds of any number of its sign holds of the one meant.
_ROUNDED = re.compile(r"^rounded (-?)(.*)$", re.MULTILINE)
#: What the checker says of a branch, by the lines of a program that nobody sees here.
_LINES = re.compile(r"`formula` must have equal sides; found (lines \d+ and \d+ .*)?")
_DIFFER = "a side of the theorem is not shown to be the claim's"
#: What a certificate states of it, and may state besides.
_KEYS, _MORE = {"of", "sizes"}, {"signs", "left"}
#: What a sign is needed of beside parameters.
_SCALE, _SIDES, _UNDER_ROOTS = "scale", ("measured", "bound"), "numbers under roots"


@dataclass
class Known:
    """For which sizes a theorem is its claim, and what is assumed there.

    Args:
        of: how many combinations of sizes the claim's space has.
        sizes: those for which it is.
        signs: what is to be positive or not negative, and not known to be.
        left: why the first of all others is open; empty without any.
        prime: a random one, modulo which programs are evaluated.
    """

    of: int
    sizes: list[Sizes] = field(default_factory=list)
    signs: set[str] = field(default_factory=set)
    left: str = ""
    prime: int = field(default_factory=formulas.random_prime)

    def stated(self) -> dict[str, Any]:
        """What a certificate says of it."""
        others = self.of - len(self.sizes)
        return {
            "of": self.of,
            "sizes": [dict(one) for one in self.sizes],
            **({"signs": sorted(self.signs)} if self.signs else {}),
            **({"left": f"{others} others: {self.left}"} if others else {}),
        }


def known(theorem: Theorem, claim: Claim, seconds: float = SECONDS) -> Known:
    """For which sizes a theorem is its claim, as far as that is shown within some CPU seconds."""
    every = sorted(claim.space.all_sizes(), key=lambda one: sum(one.values()))
    found, started = Known(len(every)), time.process_time()
    failures = 0
    for sizes in every[:_SIZES]:
        left = seconds - (time.process_time() - started)
        if failures == _FAILURES or left <= 0:
            break
        reason = _add(theorem, claim, sizes, found, min(left, _EACH))
        failures += bool(reason)
        found.left = found.left or reason
    found.left = found.left or _NO_TIME
    return found


def check(stated: Any, theorem: Theorem, claim: Claim) -> None:
    """Refuse what a certificate states of the sizes at which a theorem is its claim.

    All of it is decided anew. It may say less: that a sign is assumed.

    Raises:
        Wrong: it states more than is found.
    """
    if not isinstance(stated, Mapping) or not _KEYS <= set(stated) <= _KEYS | _MORE:
        raise Wrong(f"`agrees` must have {', '.join(sorted(_KEYS))}; found {stated!r:.80}")
    given, signs = stated["sizes"], stated.get("signs", [])
    if not isinstance(given, list) or not isinstance(signs, list):
        raise Wrong("`agrees` must have lists of sizes and of signs; found something else")
    every = [json.dumps(one) for one in claim.space.all_sizes()]
    listed = [json.dumps(one) for one in given]
    if not set(listed) <= set(every) or len(set(listed)) < len(listed):
        raise Wrong("`sizes` must be different combinations that the claim's space has")
    if not same(stated["of"], len(every)):
        raise Wrong(f"`of` must be {len(every)}; found {stated['of']!r:.80}")
    found = Known(len(every))
    for sizes in given:
        if reason := _add(theorem, claim, sizes, found, _PATIENCE * _EACH):
            raise Wrong(f"the theorem must be the claim at the sizes {sizes}; found {reason}")
    if not all(isinstance(one, str) for one in signs) or not found.signs <= set(signs):
        raise Wrong(f"`signs` must have {', '.join(sorted(found.signs))}; found {signs!r:.80}")
    names = {*_SIDES, _SCALE, _UNDER_ROOTS, *map(_parameter, theorem.problem.parameters)}
    if not set(signs) <= names:
        raise Wrong(f"`signs` must be among {', '.join(sorted(names))}; found {signs!r:.80}")
    check_left(stated, len(every) - len(given))


def _add(theorem: Theorem, claim: Claim, sizes: Sizes, found: Known, seconds: float) -> str:
    """Add sizes at which a theorem is its claim; else why that is not known."""
    signs = _Signs()
    one = as_identity(theorem, claim, signs)
    every = whole_numbers(claim.space, sizes) or [{}]
    rounded: dict[str, None] = {}
    try:
        with time_limit(seconds):
            # where there are many whole numbers, any numbers stand for them
            for whole in every if len(every) <= formulas.WHOLE else [{}]:
                program = formulas.program(one, sizes, whole, most=_CASES)
                rounded |= dict.fromkeys(f"{one[1]}{one[2]}" for one in _ROUNDED.finditer(program))
                program = _ROUNDED.sub(lambda one: "in" if one[1] else "in >", program)
                formulas.check_one(sizes, whole, program, found.prime)
    except Unprovable as error:
        reason = _LINES.sub(lambda one: _DIFFER if one[1] else "", str(error))
        if not rounded:
            return reason
        return f"{reason}, with any number for a rounded constant ({', '.join(rounded)})"
    except TimeLimit as error:
        return str(error)
    except Exception as error:  # of these functions, whatever they do with such numbers
        return str(limit_in(error) or told(error))
    found.sizes.append(sizes)
    found.signs |= signs.missing
    return ""


def as_identity(theorem: Theorem, claim: Claim, signs: _Signs) -> Claim:
    """The identity of the theorem's sides with the claim's, which notes signs as it is recorded."""
    problem = theorem.problem
    assert problem.conclusion is not None
    stated = (problem.conclusion.measured, problem.conclusion.bound)

    def measure(view: Any) -> tuple[Any, Any]:
        sides = np.broadcast_arrays(*sides_of(claim.measure(view)))
        lead = sides[0].shape
        given = shaped(problem, OfInstance(theorem.at)(view), lead)
        scale = 1 if theorem.scale is None else OfInstance(theorem.scale)(view)
        scale = np.broadcast_to(np.asarray(scale), lead).reshape(-1)
        own = [side.reshape(-1) for side in (sides[::-1] if claim.relation == ">=" else sides)]
        some = [not (_is_nan(one) or _is_nan(other)) for one, other in zip(*own, strict=True)]
        for numbers in (scale, *given.values()):
            signs.exist(numbers[some])
        signs.need(_SCALE, scale[some], POSITIVE)
        for name in problem.parameters:
            signs.need(_parameter(name), given[name][some])
        for name, side in zip(_SIDES, own, strict=True):
            if theorem.power != 1:
                signs.need(name, side[some])
        values = [sum(terms_of(form, given), 0 * scale) for form in stated]
        expected = [scale * side**theorem.power for side in own]
        shape = (lead[0], -1) if claim.space.batched else (-1,)
        first, second = (
            np.concatenate([np.reshape(x, shape) for x in each], axis=-1)
            for each in (values, expected)
        )
        return first, second

    return replace(
        claim, kind="identity", relation="==", measure=OfInstance(measure), family=(), trivial=None
    )


class _Signs:
    """What a theorem needs of numbers at all instances, and a program does not show."""

    def __init__(self) -> None:
        self.missing: set[str] = set()
        self._tape: Any = None
        #: Of the lines of the tape whether each has a value wherever its divisors are not zero;
        #: None of nan, of an infinite number and of what is computed with one.
        self._sure: list[bool | None] = []

    def need(self, name: str, numbers: Any, sign: int = NOT_NEGATIVE) -> None:
        """Note a name if one of its numbers is not known to have a sign."""
        if not all(_sign(x) >= sign for x in np.ravel(numbers).tolist()):
            self.missing.add(name)

    def exist(self, numbers: Any) -> None:
        """Note numbers that may have no value at many points, as the root of a negative one.

        Raises:
            Unprovable: one of them is nan or infinite, on the branch that is recorded.
        """
        if any(isinstance(x, float) and not math.isfinite(x) for x in np.ravel(numbers).tolist()):
            raise Unprovable(_NO_NUMBER)
        if not all(map(self._exists, np.ravel(numbers).tolist())):
            self.missing.add(_UNDER_ROOTS)

    def _exists(self, number: Any) -> bool:
        if not isinstance(number, Recorded):
            return math.isfinite(number)
        tape = State.tape
        if tape is not self._tape:
            self._tape, self._sure = tape, []
        for name, *of in tape.lines[len(self._sure) :]:
            sure = [self._sure[k] for k in of if isinstance(k, int)]
            known: bool | None = name != "acos" and all(sure)
            if of[:1] in (["nan"], ["inf"], ["-inf"]) or None in sure:
                known = None
            elif name in ("root", "length", "log"):
                known = known and tape.signs[of[0]] >= NOT_NEGATIVE
            self._sure.append(known)
        found = self._sure[number.place]
        if found is None:
            raise Unprovable(_NO_NUMBER)
        return found


def _sign(number: Any) -> int:
    """What is known of a number's sign at all points."""
    if isinstance(number, Recorded):
        return State.tape.signs[number.place]
    return POSITIVE if number > 0 else NOT_NEGATIVE if number == 0 else NOT_NEGATIVE - 1


def _is_nan(number: Any) -> bool:
    """Whether a side has no value on the branch that is recorded: a claim says nothing of it."""
    if isinstance(number, Recorded):
        return State.tape.lines[number.place] == ("const", "nan")
    return math.isnan(number)


def _parameter(name: str) -> str:
    return f"parameter {name}"

"""The formula of a claim as a program of plain operations, which a certificate carries.

Whoever checks it needs neither the claim's function nor this package: see
:mod:`ratecheck._certify.check_formula`. That the program is the claim's is seen by recording the
function anew.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from linsys.linalg.balls import Ball, Undecided, as_ball, every_case
from linsys.linalg.recorded import Recorded, given
from linsys.linalg.recorded_arithmetic import recording
from linsys.linalg.tapes import Tape, Unrecorded
from ratecheck._certify import check_formula
from ratecheck._certify.enclosures import BITS, MOST, Unprovable, both_sides, told, worst
from ratecheck._claims.claim import Claim
from ratecheck._claims.space import Fault, quiet

#: So many characters a certificate's program has at most.
LONGEST = 200_000
#: What is said of a number that leaves the arithmetic.
LEFT = "a number becomes a float"


def packed(text: str) -> str:
    """A program as a certificate has it.

    >>> from ratecheck._certify.check_formula import unpacked
    >>> unpacked(packed("in"))
    'in'
    """
    return base64.b85encode(zlib.compress(text.encode(), 9)).decode()


@contextmanager
def recorded(tape: Tape, bits: int = BITS[0]) -> Iterator[None]:
    """Within the block numbers are written down on the tape.

    Raises:
        Unprovable: what the block does is no program of these operations.
    """
    try:
        with recording(tape, bits), quiet():
            yield
    except (Fault, Undecided, Unrecorded, TypeError, ValueError, ZeroDivisionError) as error:
        cause = error.__cause__ if isinstance(error, Fault) and error.__cause__ else error
        raise Unprovable(told(cause)) from error


def with_formula(certificate: Mapping[str, Any], claim: Claim) -> dict[str, Any]:
    """A counterexample's certificate that carries the formula of its claim.

    Raises:
        Unprovable: the formula is no such program, or does not break the claim by itself.
    """
    formula = at_instance(claim, certificate["instance"], certificate["bits"] or BITS[0])
    made = {**certificate, "formula": formula}
    check(made)
    return made


def check(certificate: Mapping[str, Any]) -> None:
    """Evaluate the formula of a counterexample's certificate.

    Raises:
        Unprovable: it does not break the claim at the instance, as the certificate says.
    """
    try:
        check_formula.counterexample(certificate)
    except (check_formula.Wrong, check_formula.Open, *check_formula.ILL) as error:
        raise Unprovable(f"`formula` must break the claim by itself; found {error}") from None


def check_program(certificate: Mapping[str, Any], claim: Claim) -> None:
    """Record the claim's function anew, and check what a certificate's formula shows by itself.

    Raises:
        Unprovable: the certificate carries another formula than the claim's, or it shows less.
    """
    recorded = at_instance(claim, certificate["instance"], certificate["bits"] or BITS[0])
    try:
        same = check_formula.unpacked(certificate["formula"]) == check_formula.unpacked(recorded)
    except (check_formula.Wrong, *check_formula.ILL):
        same = False
    if not same:
        raise Unprovable("`formula` must be the program of the claim; found another one")
    check(certificate)


def at_instance(claim: Claim, instance: Mapping[str, Any], bits: int, most: int = MOST) -> str:
    """The program of a claim at an instance, whose numbers it is given in the order of the fields.

    It has the exact repair of the space, and of each case the entry of which certificates tell.

    Args:
        claim: the claim.
        instance: plain lists by field.
        bits: of the balls that decide comparisons; an open one comes out both ways.
        most: so many cases.

    Raises:
        Unprovable: it is no program of these operations, or is too long.
    """
    space = claim.space
    tape = Tape()

    def case(fields: Mapping[str, Any]) -> None:
        tape.start()
        views = space.views(space.precise(dict(fields)))
        sides = both_sides(claim, views, LEFT)
        measured, bound = ([Recorded(0) + x for x in side.ravel().tolist()] for side in sides)
        balls = [[as_ball(x.ball) for x in side] for side in (measured, bound)]
        entry = worst(claim.relation, balls[0], balls[1]).entry
        tape.leaf(str(entry), measured[entry].place, bound[entry].place)

    with recorded(tape, bits):
        fields = {}
        for name in space.fields:
            numbers = np.asarray(instance[name], dtype=float)[None]
            inputs = np.empty(numbers.shape, dtype=object)
            for place in np.ndindex(numbers.shape):
                inputs[place] = given(Ball(float(numbers[place])))
            fields[name] = inputs
        every_case(lambda: case(fields), most)
    text = packed(tape.text())
    if len(text) > LONGEST:
        raise Unprovable(f"its program has {len(text):,} characters")
    return text

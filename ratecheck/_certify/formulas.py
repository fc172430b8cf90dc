"""The formulas of an identity, as programs of plain operations for the sizes of its certificate.

What a program is given are coordinates: the numbers of an instance, or what they are made of by
plain operations, such as a distribution u_i / sum u. Whoever checks it, see
:mod:`ratecheck._certify.check_identity`, shows that both sides are equal for all values of these.
A space's joint assumptions are not used, if it can be shown without them, or else its exact repair.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import flint
import numpy as np

from linsys.linalg.balls import every_case
from linsys.linalg.recorded import Recorded, given
from linsys.linalg.recorded_signs import SignTape
from linsys.linalg.tapes import ANY, NOT_NEGATIVE, POSITIVE, Tape
from ratecheck._certify import check_identity
from ratecheck._certify.constant_formula import check_boxes
from ratecheck._certify.enclosures import Unprovable, both_sides
from ratecheck._certify.formula import LEFT, check_program, packed, recorded
from ratecheck._certify.random_points import Whole, some_whole_numbers, whole_numbers, within
from ratecheck._claims import fields as domains
from ratecheck._claims.claim import Claim
from ratecheck._claims.space import Sizes, Space

#: So many characters the programs of a certificate have at most, and so many outcomes of
#: comparisons the formula of one combination of sizes.
LONGEST, CASES = 100_000, 64
#: Up to so many combinations of whole numbers each has its program. Of more any numbers stand for
#: the whole ones, or else there are programs for every one where so many are counted as proved, and
#: for so many of them where they are drawn.
WHOLE = 64
#: CPU seconds for the formulas of a certificate; after so many sizes in vain no more are tried.
SECONDS, _FAILURES = 20.0, 3
#: A prime for what is tried first; what is found is checked with a random one.
_TRIED = 2**521 - 1


def with_formulas(
    certificate: Mapping[str, Any], claim: Claim, seconds: float = SECONDS
) -> dict[str, Any]:
    """An identity's certificate that carries its formulas, for the sizes at which they show it.

    Raises:
        Unprovable: they show it at none.
    """
    started, programs = time.process_time(), dict[str, str]()
    failed: list[str] = []
    for sizes in sorted(certificate["sizes"], key=lambda one: sum(one.values())):
        if len(failed) == _FAILURES or time.process_time() - started > seconds:
            break
        try:
            more = {**programs, **_at_sizes(claim, sizes)}
            if len(_text(more)) > LONGEST:
                break
            programs = more
        except Unprovable as error:
            failed.append(str(error))
    if not programs:
        raise Unprovable(failed[0] if failed else "its programs are too long")
    made = {**certificate, "formula": _text(programs)}
    check(made)
    return made


def _text(programs: Mapping[str, str]) -> str:
    return packed("\n".join(f"@ {head}\n{text}" for head, text in programs.items()))


def _at_sizes(claim: Claim, sizes: Sizes) -> dict[str, str]:
    """The programs of some sizes, by these and the whole numbers, if they show the identity."""
    error = Unprovable("none")
    for every, way in itertools.product(_whole(claim, sizes), _ways(claim)):
        try:
            found = dict[str, str]()
            for one in every:  # each at once, as the first may say that it is in vain
                head, text = _head(sizes, one), program(claim, sizes, one, *way)
                if text not in found.values():
                    check_one(sizes, one, text, _TRIED)
                found[head] = text
            return found
        except Unprovable as reason:
            error = reason
    raise error


def _ways(claim: Claim) -> list[tuple[bool, bool]]:
    """With the space's repair or without, and with more signs or without; the plain one first."""
    return [
        *itertools.product((False, True)[: 1 + (claim.space.repair is not None)], (False, True))
    ]


def _head(sizes: Sizes, whole: Whole) -> str:
    return json.dumps([sizes, whole])[1:-1]


def _whole(claim: Claim, sizes: Sizes) -> list[list[Whole]]:
    """Combinations of whole numbers that have programs: those which say most come first.

    Where there are many, any numbers stand for them, or else these are what the certificate says.
    """
    every = whole_numbers(claim.space, sizes)
    if every is not None and len(every) <= WHOLE:
        return [every]
    return [[{}], some_whole_numbers(claim.space, sizes, WHOLE) if every is None else every]


def check(certificate: Mapping[str, Any], prime: int = 0) -> None:
    """Whether the formulas of an identity's certificate have equal sides.

    Raises:
        Unprovable: that is not shown.
    """
    try:
        check_identity.identity(certificate, prime)
    except (check_identity.Open, *check_identity.ILL) as error:
        raise Unprovable(f"`formula` must have equal sides; found {error}") from None


def check_one(sizes: Sizes, whole: Whole, program: str, prime: int = 0) -> None:
    """Whether both sides of one program are equal, as :func:`check` of a certificate's.

    Raises:
        Unprovable: that is not shown.
    """
    check({"sizes": [sizes], "formula": _text({_head(sizes, whole): program})}, prime)


def random_prime() -> int:
    """A prime that nobody knows before, of as many bits as the checker takes."""
    least = 2 ** (check_identity.BITS - 1)
    number = 0
    while not flint.fmpz(number).is_prime():
        number = least + secrets.randbelow(least)
    return number


def check_formula(certificate: Mapping[str, Any], claim: Claim) -> None:
    """Record the claim's function anew, and check what a certificate's formula shows by itself.

    Raises:
        Unprovable: it is another one than the claim's, or shows less.
    """
    if "formula" in certificate:
        of_kind = {
            "identity": check_programs,
            "counterexample": check_program,
            "constant": check_boxes,
        }
        of_kind[certificate["kind"]](certificate, claim)


def check_programs(certificate: Mapping[str, Any], claim: Claim) -> None:
    """Compare an identity's formulas with those of its claim, recorded anew, and check them."""
    try:
        programs = check_identity.unpacked(certificate["formula"])
        sizes_of = {head: json.loads(f"[{head}]")[0] for head in programs}
    except check_identity.ILL as error:
        raise Unprovable(f"`formula` must hold programs; found {error}") from None
    for sizes in certificate["sizes"]:
        some = {head: text for head, text in programs.items() if sizes_of[head] == sizes}
        if some:
            _check_at_sizes(some, claim, sizes)
    check(certificate)


def _check_at_sizes(programs: Mapping[str, str], claim: Claim, sizes: Sizes) -> None:
    """Compare the programs of some sizes, by their heads, with the claim's."""
    for every in _whole(claim, sizes):
        named = {_head(sizes, whole): whole for whole in every}
        if named.keys() == programs.keys():
            if not all(_is_program(programs[head], claim, sizes, named[head]) for head in named):
                raise Unprovable("`formula` must have the programs of the claim; found another one")
            return
    raise Unprovable(
        "`formula` must be for all whole numbers of some of the sizes, or for all that are chosen "
        "of them where there are many"
    )


def _is_program(text: str, claim: Claim, sizes: Sizes, whole: Whole) -> bool:
    """Whether a program is the claim's, recorded anew."""
    for way in _ways(claim):
        with contextlib.suppress(Unprovable):
            if text == program(claim, sizes, whole, *way):
                return True
    return False


def program(
    claim: Claim,
    sizes: Sizes,
    whole: Whole,
    repaired: bool = False,
    signs: bool = False,
    most: int = CASES,
) -> str:
    """Both sides of a claim at free coordinates, for every outcome of its comparisons.

    Args:
        claim: the claim.
        sizes: of the instances.
        whole: their whole numbers by field.
        repaired: whether the space's repair is a part of it.
        signs: whether comparisons, absolute values, maxima and roots are left out that the ranges
            of the space's numbers decide.
        most: so many outcomes of comparisons.

    Raises:
        Unprovable: it is no program of these operations.
    """
    space, tape = claim.space, SignTape() if signs else Tape()

    def case(fields: Mapping[str, Any]) -> None:
        tape.start()
        views = space.views(_repaired(space, fields) if repaired else dict(fields))
        sides = both_sides(claim, views, LEFT)
        pairs = zip(*(side.ravel().tolist() for side in sides), strict=True)
        tape.leaf(*((Recorded(0) + side).place for pair in pairs for side in pair))

    with recorded(tape):
        fields = {
            name: _free(domain, (1, *domain.shape(sizes)), whole.get(name, []))
            for name, domain in space.fields.items()
        }
        if isinstance(tape, SignTape):
            _tell_ranges(tape, space, fields)
        every_case(lambda: case(fields), most)
    return tape.text()


def _tell_ranges(tape: SignTape, space: Space, fields: Mapping[str, Any]) -> None:
    """Tell a tape between which ends the numbers of an interval lie."""
    for name, domain in space.fields.items():
        if isinstance(domain, domains.Interval):
            low, high = map(Fraction, within(domain.low, domain.high))
            for number in fields[name].ravel().tolist():
                if number.known is None:
                    tape.between(number.place, low, high)


def _repaired(space: Space, fields: Mapping[str, Any]) -> dict[str, Any]:
    assert space.repair is not None
    if space.batched:
        return dict(space.repair(dict(fields)))
    one = space.repair({name: values[0] for name, values in fields.items()})
    return {name: np.asarray(values)[None] for name, values in one.items()}


def _free(domain: domains.Field, shape: tuple[int, ...], whole: Sequence[int]) -> Any:
    """The numbers of a field as coordinates, or made of them; of a sphere all but a pole."""

    def numbers(sign: int = ANY, at: tuple[int, ...] = shape) -> Any:
        return _array([given(None, sign) for _ in range(int(np.prod(at)))], at)

    if isinstance(domain, domains.Whole) and whole:
        return _array([Recorded(number) for number in whole], shape)
    if isinstance(domain, domains.Interval):
        return numbers(POSITIVE if domain.low > 0 else NOT_NEGATIVE if domain.low == 0 else ANY)
    if isinstance(domain, domains.Simplex):
        parts = numbers(NOT_NEGATIVE)
        return parts / parts.sum(axis=-1, keepdims=True)
    if isinstance(domain, domains.Sphere) and shape[-1] == 1:
        signs = numbers()
        return np.abs(signs) / signs
    if isinstance(domain, domains.Sphere):
        t = numbers(at=(*shape[:-1], shape[-1] - 1))
        square = (t * t).sum(axis=-1, keepdims=True)
        return np.concatenate([2 * t, square - 1], axis=-1) / (square + 1)
    return numbers()


def _array(entries: Sequence[Any], shape: tuple[int, ...]) -> Any:
    made = np.empty(len(entries), dtype=object)
    made[:] = entries
    return made.reshape(shape)

"""What ranges of numbers decide is left out of an identity's formulas, and nothing else is."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from linsys.linalg import norm, recorded_signs, tapes
from ratecheck._certify import formulas
from ratecheck._certify.check_identity import identity
from ratecheck._certify.enclosures import Unprovable
from ratecheck._certify.formulas import check_programs, program, with_formulas
from ratecheck._claims.claim import Claim
from tests._slow import slow_but

#: A number of any sign, and others between two ends.
FIELDS: dict[str, Any] = {
    "w": rc.reals(),
    "x": rc.interval(low=-1, high=2),
    "y": rc.interval(low=0, high=1),
    "z": rc.interval(low=0.25, high=3),
}
ENDS = {"w": (-2, 2), "x": (-1, 2), "y": (0, 1), "z": (Decimal("0.25"), 3)}


def claim_of(function: Callable[..., Any]) -> Claim:
    made = rc.Paper("mine", "mine").identity("planted", ref="1", on=FIELDS)(_named(function))
    assert isinstance(made, Claim)
    return made


def _named(function: Callable[..., Any]) -> Callable[..., Any]:
    def value(w: Any, x: Any, y: Any, z: Any) -> Any:
        "They are equal."
        return function(w, x, y, z)

    return value


TRUE: dict[str, Callable[..., Any]] = {
    "an absolute value": lambda w, x, y, z: (np.abs(1 - y), 1 - y),
    "one of what is negative": lambda w, x, y, z: (np.abs(x - z - 3), 3 + z - x),
    "what cancels": lambda w, x, y, z: (np.abs((w + z) - (w - z)), 2 * z),
    "a product": lambda w, x, y, z: (np.abs((2 - x) * (1 - y)), (2 - x) * (1 - y)),
    "a quotient": lambda w, x, y, z: (np.abs((1 - y) / (3 - x)), (1 - y) / (3 - x)),
    "a maximum": lambda w, x, y, z: (np.maximum(z * z, 10 - y), 10 - y + 0 * w),
    "a maximum of squares": lambda w, x, y, z: (np.maximum((y + z) ** 2, z**2), (y + z) ** 2),
    "a comparison": lambda w, x, y, z: (np.where(y + 1 > x - 2, w, w + 1), w),
    "one of two products": lambda w, x, y, z: (np.where((1 + z) ** 2 > 1, w, w + 1), w),
    "one with an exponential": lambda w, x, y, z: (np.where(1 + np.exp(w) == 1, w + 1, w), w),
    "a length": lambda w, x, y, z: (norm(np.stack([z, 2 * z])), z * np.sqrt(5 + 0 * z)),
    "a root of a square": lambda w, x, y, z: (np.sqrt(4 * (x - 3) ** 2 / z**2), 2 * (3 - x) / z),
    "what is zero": lambda w, x, y, z: (np.where(w * w > 0, x, x + w), x),
    "what is zero together": lambda w, x, y, z: (np.where(w * w + y > 0, x, x + w + y), x),
    "what is equal": lambda w, x, y, z: (np.where(np.abs(w - x * z) > 0, x, x + w - x * z), x),
}
FALSE: dict[str, Callable[..., Any]] = {
    "an end of a range": lambda w, x, y, z: (np.where(y < 1, x, x + 1), x),
    "the other end": lambda w, x, y, z: (np.where(y > 0, x, x + 1), x),
    "a corner": lambda w, x, y, z: (np.where((2 - x) * (1 - y) + 3 - z > 0, x, x + 1), x),
    "a product at an end": lambda w, x, y, z: (np.where(y * (1 - y) * z > 0, x, x + 1), x),
    "a sign": lambda w, x, y, z: (np.abs(1 - x), 1 - x),
    "a maximum": lambda w, x, y, z: (np.maximum(y, x), x),
    "a root of a square": lambda w, x, y, z: (np.sqrt((x - 1) ** 2), 1 - x),
    "what has no value": lambda w, x, y, z: (np.where(np.sqrt(w) + z > 0, x, x + 1), x),
    "a quotient without one": lambda w, x, y, z: (np.where((w / w) > 0, x, x + 1), x),
    "a maximum without one": lambda w, x, y, z: (
        np.where(np.maximum(z + 1, z * (w / w)) > 0, x, x + 1),
        x,
    ),
    "a root without one": lambda w, x, y, z: (np.where(np.sqrt(z * z * (w / w)) > 0, x, x + 1), x),
    "what is zero elsewhere": lambda w, x, y, z: (np.where(w * w > 0, x + w, x), x),
    "what is not zero": lambda w, x, y, z: (np.where(w * z > 0, x, x + w), x),
    "a sum that is not zero": lambda w, x, y, z: (np.where(w * w + x > 0, x, x + w), x),
}


@pytest.mark.parametrize("what", TRUE)
def test_what_ranges_decide_is_shown(what: str) -> None:
    claim = claim_of(TRUE[what])
    content = with_formulas({"sizes": [{}]}, claim)
    assert identity(content) == "1 of its sizes"
    check_programs(content, claim)


@pytest.mark.parametrize("what", FALSE)
def test_what_they_do_not_decide_is_not(what: str) -> None:
    with pytest.raises(Unprovable, match="not equal"):
        with_formulas({"sizes": [{}]}, claim_of(FALSE[what]))


def test_ranges_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formulas, "_tell_ranges", lambda *_: None)  # mutation
    shown = 0
    for function in TRUE.values():
        with contextlib.suppress(Unprovable):
            shown += bool(with_formulas({"sizes": [{}]}, claim_of(function)))
    assert shown < len(TRUE) - 5


def test_ends_of_ranges_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every corner counts as apart from zero, identities that are false there are shown."""
    of_sum = recorded_signs._of_sum
    monkeypatch.setattr(
        recorded_signs, "_of_sum", lambda each: of_sum(each) - {0} or frozenset((0,))
    )  # mutation
    assert with_formulas({"sizes": [{}]}, claim_of(FALSE["the other end"]))


#: What random formulas are made of: how many numbers each takes.
STEPS = {"+": 2, "-": 2, "*": 2, "/": 2, "abs": 1, "max": 2, "min": 2, "sqrt": 1, "where": 4}
#: Others, of which some are infinite, or zero where a logarithm is.
INFINITE = {"exp": 1, "log": 1, "power": 1, "zero": 3, "lowest": 3}
Steps = list[tuple[str, list[int]]]


def random_steps(rng: random.Random, infinite: bool) -> Steps:
    names = [*STEPS, "-", "*", "abs", "max", "where", *([*INFINITE] * 2 if infinite else [])]
    found: Steps = []
    for _ in range(rng.randint(3, 9)):
        name = rng.choice(names)
        count = (STEPS | INFINITE)[name]
        found.append((name, [rng.randrange(6 + len(found)) for _ in range(count)]))
    return found


def of_steps(steps: Steps, numbers: list[Any], one: dict[str, Callable[..., Any]]) -> Any:
    values = [*numbers, numbers[0] * 0 + 1, numbers[0] * 0 + 2]
    for name, of in steps:
        values.append(one[name](*(values[k] for k in of)))
    return values[-1]


RECORDED: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "abs": np.abs,
    "max": np.maximum,
    "min": np.minimum,
    "sqrt": np.sqrt,
    "where": lambda a, b, c, d: np.where(a < b, c, d),
    "exp": np.exp,
    "log": np.log,
    "power": lambda a: np.abs(a) ** 0.3,
    "zero": lambda a, b, c: np.where(a == 0, b, c),
    "lowest": lambda a, b, c: np.where(a == -np.inf, b, c),
}
_TINY = Decimal(10) ** -25


def known(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that has no value where one of its numbers has none."""

    def value(*of: Any) -> Any:
        made = None if None in of else function(*of)
        return None if made is None or made.is_nan() else made

    return value


def below(a: Any, b: Any) -> bool:
    return None not in (a, b) and a != b and b - a > _TINY


def equal(a: Any, b: Any) -> bool:
    return None not in (a, b) and not below(a, b) and not below(b, a)


def logarithm(a: Any) -> Any:
    return None if a < -_TINY else Decimal("-inf") if a < _TINY else a.ln()


def exponential(a: Any) -> Any:
    return a.exp() if a.is_infinite() or abs(a) < 20 else None


PLAIN: dict[str, Callable[..., Any]] = {
    "+": known(lambda a, b: a + b),
    "-": known(lambda a, b: a - b),
    "*": known(lambda a, b: a * b),
    "/": known(lambda a, b: a / b if abs(b) > _TINY else None),
    "abs": known(abs),
    "neg": known(lambda a: -a),
    "max": known(max),
    "min": known(min),
    "sqrt": known(lambda a: max(a, Decimal(0)).sqrt() if a > -_TINY else None),
    "where": lambda a, b, c, d: c if below(a, b) else d,
    "exp": known(exponential),
    "log": known(logarithm),
    "power": known(lambda a: exponential(Decimal("0.3") * logarithm(abs(a)))),
    "zero": lambda a, b, c: b if equal(a, Decimal(0)) else c,
    "lowest": lambda a, b, c: b if a == Decimal("-inf") else c,
}
PLAIN |= {"root": PLAIN["sqrt"], "length": PLAIN["sqrt"]}
HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "<": below,
    ">": lambda a, b: below(b, a),
    "<=": lambda a, b: None not in (a, b) and not below(b, a),
    ">=": lambda a, b: None not in (a, b) and not below(a, b),
    "==": equal,
    "!=": lambda a, b: not equal(a, b),
}


def of_program(text: str, numbers: list[Any]) -> Any:
    """The first side of a program at a point."""
    values: list[Any] = []
    left = iter(numbers)
    lines = [line.split(" ") for line in text.split("\n")]
    for name, *words in lines:
        if name == "in":
            values.append(next(left))
        elif name == "const":
            top, _, bottom = words[0].partition("/")
            values.append(None if top == "nan" else Decimal(top) / Decimal(bottom or 1))
        elif name not in "!?=":
            values.append(PLAIN[name](*(values[len(values) - int(word)] for word in words)))
    at = len(values)

    def leaf(taken: bool) -> Any:
        nonlocal at
        name, *words = lines[at]
        at += 1
        if name == "=":
            return values[int(words[0])] if taken else None
        holds = HOLDS[words[0]](values[int(words[1])], values[int(words[2])])
        if name == "!":
            assert holds or not taken
            return leaf(taken)
        first, second = leaf(taken and holds), leaf(taken and not holds)
        return first if holds else second

    return leaf(True)


def differ(seeds: range, signs: bool = True, infinite: bool = False) -> Iterator[bool]:
    """At points where random formulas have a value, whether their program has another."""
    for seed in seeds:
        rng = random.Random(seed)
        steps = random_steps(rng, infinite)
        claim = claim_of(lambda *x, steps=steps: (of_steps(steps, [*x], RECORDED), 0 * x[0]))
        try:
            text = program(claim, {}, {}, signs=signs)
        except Unprovable:
            continue
        for _ in range(12):
            with localcontext(prec=60) as arithmetic:
                arithmetic.traps[InvalidOperation] = False
                numbers = []
                for low, high in ENDS.values():
                    share = rng.choice([Decimal(k) / 4 for k in range(5)])
                    numbers.append(low + (high - low) * share)
                true, found = of_steps(steps, numbers, PLAIN), of_program(text, numbers)
                met = true is not None and true.is_finite()
                wrong = met and (
                    found is None or abs(found - true) > Decimal(10) ** -20 * (1 + abs(true))
                )
            if met:
                yield wrong


def test_programs_of_random_formulas_are_these_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    met = [*differ(range(250))]
    assert len(met) > 1000
    assert not any(met)
    monkeypatch.setattr(recorded_signs, "_of_term", lambda *_: frozenset((1,)))  # mutation
    assert any(differ(range(250)))


#: Seeds among which is one of the few formulas that ask whether a power is zero, where it may be.
SEEDS = range(800, 1000)


@pytest.mark.parametrize("signs", slow_but([False], [False, True]))
def test_programs_of_what_may_be_infinite_are_these_formulas(
    signs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    met = [*differ(SEEDS, signs, infinite=True)]
    assert len(met) > 700
    assert not any(met)
    sign = tapes._sign
    monkeypatch.setattr(
        tapes, "_sign", lambda name, *of: tapes.POSITIVE if name == "exp" else sign(name, *of)
    )  # mutation
    assert any(differ(SEEDS, signs, infinite=True))


def test_a_logarithm_may_be_minus_infinity(monkeypatch: pytest.MonkeyPatch) -> None:
    least = tapes.Tape._signs_of
    monkeypatch.setattr(tapes.Tape, "_signs_of", lambda *of: least(*of) - {0} or {0})  # mutation
    assert any(differ(SEEDS, False, infinite=True))

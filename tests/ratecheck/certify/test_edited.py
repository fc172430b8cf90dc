"""A certificate that somebody edited is refused, or says nothing that it did not say before."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from linsys import InputError
from ratecheck._certify import against_claims, stated
from ratecheck._certify.against_claims import Refused, verify
from ratecheck._certify.enclosures import Unprovable
from ratecheck._certify.prove import Proof, prove, prove_constant
from ratecheck._certify.verify_many import check_one, contents
from ratecheck._claims.claim import Claim
from ratecheck._claims.space import Space
from ratecheck._discover.catalogue import Item, find_claims
from ratecheck._verdicts import certificates as kept
from tests._slow import slow_but

HERE = Path(__file__).parent
#: Instances at which claims are false, by the claims' ids.
FALSE: dict[str, dict[str, Any]] = {
    "mine.root": {"x": 0.1},
    "mine.given": {"x": 0.25},
    "mine.constant": {"x": 0.25},
    "mine.tie": {"x": 0.25},
    "mine.vectors": {"v": [0.3, -0.1], "w": [0.0, 0.0]},
}
#: A certificate of each kind, by the file of its claim.
EDITED = {
    **dict.fromkeys(FALSE, "false_claims.py"),
    "same.square": "identities.py",
    "same.parts": "identities.py",
    "same.powers": "identities.py",
    "doubt.equal": "doubts.py",
    "doubt.one_in_a_million": "doubts.py",
    "bounds.product": "bounds.py",
    "bounds.mean": "bounds.py",
    "vec.mix": "theorems.py",
}
#: What may be left out, as the certificate says less without it. Not checked are the reason of what
#: was left out, a measurement, and how many ways there are for whole numbers that were drawn.
LESS, UNCHECKED = {"found", "bound"}, {"seconds", "left"}


def item_of(name: str) -> Item:
    (item,) = find_claims([f"{HERE / EDITED[name]}::{name}"])
    return item


@cache
def text_of(name: str) -> str:
    item = item_of(name)
    if EDITED[name] == "bounds.py":
        proof: Proof = prove_constant(item, limit=20.0)
    else:
        proof = prove(item, FALSE.get(name))
    assert proof.certificate is not None, proof.reason
    return json.dumps(proof.certificate)


def certificate(name: str) -> dict[str, Any]:
    return dict(json.loads(text_of(name)))


def said(content: dict[str, Any]) -> tuple[str, ...]:
    """All that is shown of a certificate that the checker accepts."""
    told = verify(content)
    return told, kept.in_words(content), kept.tables({"certificates": [content], "unproved": []})


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something can be changed in a certificate."""
    if at:
        yield at
    if isinstance(value, dict):
        for key, one in value.items():
            yield from places(one, (*at, key))
    elif isinstance(value, list):
        for key, one in enumerate(value):
            yield from places(one, (*at, key))


def others(value: Any, rng: random.Random) -> list[Any]:
    """Values of other types, and other values of the same type."""
    strange: list[Any] = [None, True, -1, 0.5, "", "x\ny", [], {}, [value], {"x": value}]
    if isinstance(value, bool):
        return [*strange, not value, int(value)]
    if isinstance(value, int | float):
        return [*strange, value + 1, -value, float(value), str(value), value * 1e9]
    if isinstance(value, str):
        near = [f"{value} ", value[:-1], value[::-1], f"{rng.randrange(9)}{value}"]
        numbers = [str(f * Fraction(k, 7)) for f in _fraction(value) for k in (-7, 0, 6, 8)]
        return [*strange, *near, *numbers]
    if isinstance(value, list):
        return [
            *strange,
            value + value[:1],
            value[:-1],
            value[::-1],
            dict.fromkeys(map(str, value)),
        ]
    return [*strange, {**value, "more": 1}, list(value)]


def _fraction(text: str) -> list[Fraction]:
    try:
        return [Fraction(text)]
    except (ValueError, ZeroDivisionError):
        return []


def edited(content: dict[str, Any], seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """A change at every place: left out, there twice, and two others that a seed chooses."""
    rng = random.Random(seed)
    for at in [*places(content)]:
        found = content
        for key in at:
            found = found[key]
        for value in [KeyError, *rng.sample(others(found, rng), 2)]:
            other = copy.deepcopy(content)
            inside: Any = other
            for key in at[:-1]:
                inside = inside[key]
            if value is KeyError:
                del inside[at[-1]]
            else:
                inside[at[-1]] = value
            yield f"{at} = {value!r:.60}", other
    for key in ("more", "proof", "bound", "left", "every_branch", "ways", "found", "charts"):
        for value in (None, 1, "x", [], {}):
            if key not in content:
                yield f"{key} = {value!r}", {**content, key: value}


def ends(content: dict[str, Any]) -> list[list[str]]:
    """The intervals that a certificate proves."""
    if content["kind"] == "counterexample":
        return [case[name] for case in content["cases"] for name in ("measured", "bound")]
    if content["kind"] == "constant":  # the boxes prove the target
        return [[content["ratio"][0], min(content["ratio"][1], content["target"], key=Fraction)]]
    return [[content["found"]["ratio"], "1"]] if "found" in content else []


def says_less(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether something is left out, or an interval is wider and everything else as before."""
    if any(key in before and key not in after for key in LESS):
        return True
    pairs = [*zip(ends(before), ends(after), strict=True)]
    wider = all(
        Fraction(new[0]) <= Fraction(old[0]) and Fraction(old[1]) <= Fraction(new[1])
        for old, new in pairs
    )
    stated = before.get("ratio") != after.get("ratio")
    return wider and (stated or any(old != new for old, new in pairs))


def checked(content: dict[str, Any]) -> dict[str, Any]:
    unchecked = UNCHECKED | ({"ways"} if content.get("drawn") else set())
    return {key: value for key, value in content.items() if key not in unchecked}


def news(name: str, seed: int) -> list[str]:
    """The edits that are accepted and that say something new."""
    content = certificate(name)
    before, new = said(content), []
    for what, other in edited(content, seed):
        try:
            after = said(other)
        except (Refused, InputError):
            continue
        except (LookupError, TypeError, AttributeError):  # accepted, and cannot be shown
            new.append(what)
            continue
        only_unchecked = checked(other) == checked(content)
        if after != before and not only_unchecked and not says_less(content, other):
            new.append(what)
    return new


@pytest.mark.parametrize(
    "name", slow_but(["mine.root"], ["mine.root", "mine.given", "bounds.mean", "same.square"])
)
def test_an_edit_is_refused_or_says_nothing_new(name: str) -> None:
    assert news(name, seed=0) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", EDITED)
def test_other_edits_are_refused_or_say_nothing_new(name: str, seed: int) -> None:
    assert news(name, seed) == []


def test_edits_say_something_new_to_a_checker_that_compares_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(against_claims, "_compare", lambda *_: None)
    assert news("mine.root", seed=0) != []


def change(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda content: content.update(values)


def a_half(content: dict[str, Any]) -> None:
    content["sizes"] = {"n": 1.5}


PLANTED: dict[str, tuple[str, Callable[[dict[str, Any]], None], str]] = {
    "a size twice, for all": (
        "same.parts",
        lambda c: c.update(sizes=[*c["sizes"], c["sizes"][0]], all_sizes=True),
        "`sizes` must be different",
    ),
    "sizes as fractions": ("same.square", change(sizes=[{"d": 2.0}]), "`sizes` must be combinat"),
    "sizes left out and not told": ("same.parts", lambda c: c.pop("left"), "`left` must begin"),
    "fewer sizes left out": ("same.parts", change(left="0 others: none"), "`left` must begin"),
    "sizes left out of all": ("same.square", change(left="1 others: x"), "`left` must not be"),
    "sizes outside of the space": (
        "mine.vectors",
        change(instance={"v": [0.3] + [-0.1] * 4, "w": [0.0] * 5}),
        "size `d` must be from 1 to 4; found 5",
    ),
    "an instance in words": ("mine.root", change(instance={"x": "0.1"}), "must have finite num"),
    "entries as text": (
        "mine.vectors",
        lambda c: c["cases"][0].update(entry="0"),
        "`entry` must be 0",
    ),
    "an enclosure of digits": (
        "mine.root",
        lambda c: c["cases"][0].update(measured="01"),
        "`cases` must hold enclosures",
    ),
    "another key": ("mine.root", change(proved="everywhere"), "no other keys; found proved"),
    "no time": ("mine.root", change(seconds="fast"), "`seconds` must be a number"),
    "a negative time": ("mine.root", change(seconds=-1), "`seconds` must be a number"),
    "an endless time": ("mine.root", change(seconds=float("inf")), "`seconds` must be a number"),
    "a sign that is not known": ("bounds.mean", change(bound=None), "`bound` must be that of"),
    "a fraction of a size": ("bounds.mean", a_half, "size `n` must be from 1 to 4"),
    "true for a number": ("bounds.mean", change(boxes=True), "`boxes` must be"),
    "a target in digits": ("bounds.product", change(target=0.25), "must be numbers, as text"),
    "a proof of words": ("vec.mix", lambda c: c["terms"][0].update(why="clear"), "`terms` must"),
    "a ratio everywhere": ("vec.mix", lambda c: c["found"].update(all=True), "`found` must have"),
    "a file of a paper": ("mine.root", change(file=["false_claims.py"]), "`file` must be text"),
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_certificate_is_refused(what: str) -> None:
    name, edit, reason = PLANTED[what]
    content = certificate(name)
    assert verify(content)
    edit(content)
    with pytest.raises((Refused, InputError)) as error:
        verify(content, [str(HERE / EDITED[name])])
    assert reason in str(error.value)


def test_an_assumption_that_is_not_met_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the certificate says so, and where balls do not decide and float64 denies it."""
    content = certificate("mine.given")
    content["instance"] = {"x": 0.75}
    content["assumptions"] = {"x < 1/2": "not met"}
    content["cases"][0] = {"entry": 0, "measured": ["3/4"] * 2, "bound": ["9/16"] * 2}
    with pytest.raises(Refused, match="does not meet 'x < 1/2'"):
        verify(content)
    claim = item_of("mine.given").entry
    assert isinstance(claim, Claim)
    open_ = {"x < 1/2": "checked in float64 only: roots"}
    stated.check_met(claim, {"x": 0.25}, open_)
    with pytest.raises(Unprovable, match="must be met in float64"):
        stated.check_met(claim, {"x": 0.75}, open_)
    monkeypatch.setattr(Space, "meets", lambda space, fields: fields["x"] > 0)  # mutation
    stated.check_met(claim, {"x": 0.75}, open_)


def test_what_a_file_has_twice_or_besides_is_refused(tmp_path: Path) -> None:
    path, one = tmp_path / "file.json", text_of("mine.root")
    path.write_text(f'{{"certificates": [{one}], "unproved": []}}')
    assert [check_one(one).refused for one in contents(path)] == [""]
    path.write_text(one.replace('"bits"', '"bits": 3, "bits"'))
    with pytest.raises(InputError, match="each key once; found 'bits' twice"):
        contents(path)
    path.write_text(f'{{"certificates": [{one}], "proved": ["mine.holds"]}}')
    with pytest.raises(InputError, match="certificates and unproved; found 'proved'"):
        contents(path)


def test_a_refusal_is_one_line(tmp_path: Path) -> None:
    content = certificate("mine.root") | {"id": "mine.x: refused\nmine.root: violated"}
    (tmp_path / "file.json").write_text(json.dumps(content))
    (content,) = contents(tmp_path / "file.json")
    one = check_one(content, [str(HERE / "false_claims.py")])
    assert one.refused
    assert "\n" not in one.id + one.refused


@pytest.mark.parametrize("number", ["1e9000", f"-1{'0' * 400}", "1e-9000"])
@pytest.mark.parametrize("name", slow_but(["mine.root"], ["mine.root", "bounds.mean", "vec.mix"]))
def test_numbers_too_long_to_compute_with_are_answered_in_a_line(
    name: str, number: str, tmp_path: Path
) -> None:
    path = tmp_path / "edited.json"
    refused = 0
    for at in places(certificate(name)):
        inside: Any = (other := certificate(name))
        for key in at[:-1]:
            inside = inside[key]
        if isinstance(inside[at[-1]], str) and _fraction(inside[at[-1]]):
            inside[at[-1]] = number
            path.write_text(json.dumps(other))
            (one,) = map(check_one, contents(path))
            assert "\n" not in one.said + one.refused
            refused += bool(one.refused)
    assert refused

"""Certificates of theorems: what is proved is the claim, and false certificates are refused."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from linsys import InputError
from ratecheck._certify import check as exact
from ratecheck._certify.against_claims import Refused, verify
from ratecheck._certify.gram import declared
from ratecheck._certify.gram.certificate import stated
from ratecheck._certify.gram.declared import disagreement, theorem_of
from ratecheck._certify.prove import prove
from ratecheck._claims.claim import Claim
from ratecheck._claims.samples import Batch
from ratecheck._discover.catalogue import find_claims
from ratecheck._verdicts.certificates import in_words
from tests._slow import slow_but
from tests.ratecheck.certify._files import ClaimsOf

CLAIMS = ClaimsOf("theorems.py")
ITEMS = CLAIMS.items
FILE = CLAIMS.file


@cache
def proved_once(name: str) -> str:
    content = prove(ITEMS[name], None).certificate
    assert content is not None
    return json.dumps(content)


def proved(name: str) -> dict[str, Any]:
    """A certificate as a file has it, new each time."""
    result: dict[str, Any] = json.loads(proved_once(name))
    return result


@pytest.mark.parametrize("name", slow_but(["mix"], ["mix", "product", "length"]))
def test_a_claim_is_proved_for_all_dimensions_and_the_proof_is_verified(name: str) -> None:
    content = proved(name)
    assert content["kind"] == "quadratic"
    assert content["excess"] == "0"
    assumed = content["theorem"]["assumes"]
    word = "under assumptions, for all dimensions," if assumed else "for all dimensions"
    assert verify(content).startswith(f"proved {word} by exact rationals from ")
    if name != "product":  # its sides are negative
        assert Fraction(content["found"]["ratio"]) > Fraction(99, 100)  # both are attained


def test_a_certificate_says_what_is_assumed_and_when_that_is_what_is_shown() -> None:
    def theorem(bound: int) -> dict[str, Any]:
        def shown(p: rc.gram.Problem) -> None:
            x = p.parameter("x")
            p.assume(x**2 <= bound, "the square")
            p.show(2 * x**2 <= 4)

        return stated(declared.Theorem("mine.square", shown, at=lambda x: {"x": x}))

    assert theorem(2)["itself"] == ["the square"]
    assert "itself" not in theorem(1)
    assert theorem(1)["assumes"] != theorem(2)["assumes"]
    content = proved("mix")
    content["theorem"]["itself"] = ["a <= 1"]
    assert "it is one of them, but for a factor: a <= 1" in in_words(content)
    with pytest.raises(Refused, match="`theorem` must be what is declared"):
        verify(content)


def test_a_theorem_that_is_another_statement_proves_nothing() -> None:
    assert "`bound` of the theorem must be that of the claim" in prove(ITEMS["other"], None).reason


def test_an_assumption_that_instances_break_proves_nothing() -> None:
    assert "assumption '|v| <= |w|' must hold" in prove(ITEMS["unmet"], None).reason


def test_the_comparison_sees_a_wrong_power(monkeypatch: pytest.MonkeyPatch) -> None:
    claim, theorem = ITEMS["length"].entry, theorem_of(ITEMS["length"])
    assert isinstance(claim, Claim)
    assert theorem is not None
    assert disagreement(theorem, claim) == ""
    wrong = declared.Theorem(theorem.id, theorem.state, theorem.at, power=1)
    assert "`measured` of the theorem must be" in disagreement(wrong, claim)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_state_no_claim(bad: float) -> None:
    claim = rc.Paper("mine", "my paper").upper("square", ref="1", on={"x": rc.interval()})(square)
    theorem = declared.Theorem("mine.square", squared, at=lambda x: {"x": x})
    assert disagreement(theorem, claim) == ""
    scaled = replace(theorem, scale=lambda x: bad)
    assert "`scale` must be positive and finite" in disagreement(scaled, claim)
    with pytest.raises(InputError, match="`at` must return finite numbers; found others in 'x'"):
        disagreement(replace(theorem, at=lambda x: {"x": x * bad}), claim)


def test_a_claim_about_rare_instances_is_compared_with_more_draws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of a hundred numbers is an instance, and none of the first ones that are drawn."""
    rare = rc.Space({"x": rc.interval()}, given={"rare": lambda s: abs(s.x - 0.905) < 0.005})
    claim = rc.Paper("mine", "my paper").upper("square", ref="1", on=rare)(square)
    theorem = declared.Theorem("mine.square", squared, at=lambda x: {"x": x})
    assert disagreement(theorem, claim) == ""
    other = declared.Theorem("mine.square", squared, at=lambda x: {"x": 2 * x})
    assert "`measured` of the theorem must be" in disagreement(other, claim)
    monkeypatch.setattr(declared, "_RARE", (1,))
    assert disagreement(other, claim).endswith(
        "instances of the claim's space must be compared; 0 were drawn"
    )


def sum_of_squares(x: Any) -> rc.Sides:
    """|x|^2 <= 2 |x|^2, for matrices."""
    return (x * x).sum(), 2 * (x * x).sum()


def all_squares(p: rc.gram.Problem) -> None:
    """The same."""
    (x,) = p.vectors("x")
    p.show(x.squared <= 2 * x.squared)


@pytest.mark.parametrize(("largest", "most"), [(4, 16 * 16 * 4), (60, 130_000)])
def test_a_theorem_is_compared_at_large_sizes_with_few_instances(
    largest: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 3600 combinations of sizes 64 are drawn from, each with an instance or more."""
    sizes = {"n": (1, largest), "d": (1, largest)}
    space = rc.Space({"x": rc.reals("n", "d")}, sizes=sizes)
    claim = rc.Paper("mine", "my paper").upper("sum", ref="1", on=space)(sum_of_squares)
    seen: list[tuple[int, ...]] = []
    compare = declared.compare

    def counted(theorem: Any, claim: Claim, batch: Batch) -> str:
        seen.append(batch.fields["x"].shape)
        return "" if largest > 4 else compare(theorem, claim, batch)

    monkeypatch.setattr(declared, "compare", counted)
    theorem = declared.Theorem("mine.sum", all_squares, at=lambda x: {"x": x})
    assert disagreement(theorem, claim) == ""
    assert len(seen) == min(largest**2, 64)
    assert seen[-1][1:] == (largest, largest)
    assert all(count >= 4 for count, n, d in seen if n * d <= 100)
    assert sum(math.prod(shape) for shape in seen) <= most
    monkeypatch.setattr(declared, "_ALL_NUMBERS", 100)
    seen.clear()
    assert disagreement(theorem, claim) == ""
    assert sum(shape[0] for shape in seen) >= declared.INSTANCES
    assert seen[-1][1:] != (largest, largest)


def square(x: Any) -> rc.Sides:
    """x^2 <= 2 x^2."""
    return x * x, 2 * x * x


def squared(p: rc.gram.Problem) -> None:
    """The same."""
    x = p.parameter("x")
    p.show(x**2 <= 2 * x**2)


def test_the_worst_instance_of_a_false_bound_is_a_counterexample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = proved("false")
    assert content["kind"] == "counterexample"
    v, w = content["instance"]["v"], content["instance"]["w"]
    assert len(v) == len(w) == 1  # as few dimensions as needed
    assert verify(content).startswith("violated: measured in [")
    theorem = theorem_of(ITEMS["false"])
    assert theorem is not None
    monkeypatch.setattr(declared.Theorem, "candidate", lambda self: {"v": v, "w": [0.0], "a": 0.5})
    assert "there are no multipliers" in prove(ITEMS["false"], None).reason


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('rc.gram.theorem("vec.mixed", at=_given)', "`id` must be one of .*found 'vec.mixed'"),
        ('rc.gram.theorem("vec.mix", at=_given)', "theorems of vec.mix must be one; found two"),
        ('rc.gram.theorem("vec.mix", at=_given, power=3)', "`power` must be 1 or 2; found 3"),
    ],
)
def test_a_theorem_of_no_claim_or_of_a_claim_that_has_one_is_refused(
    line: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "more.py"
    more = f"another = {line}(lambda p: p.show(p.vector('x').squared <= 1))\n"
    path.write_text(f"{FILE.read_text()}\n{more}")
    with pytest.raises(InputError, match=message):
        theorem_of(find_claims([f"{path}::vec.length"])[0])


Change = Callable[[dict[str, Any]], Any]


def term(content: dict[str, Any], name: str) -> dict[str, Any]:
    """The term that multiplies what begins with a name."""
    (one,) = [t for t in content["terms"] if t["of"][0].startswith(name)][:1]
    result: dict[str, Any] = one
    return result


def set_multiplier(name: str, value: list[list[str]]) -> Change:
    return lambda content: term(content, name).update(multiplier=value)


FALSE: dict[str, tuple[str, Change, str]] = {
    "another multiplier": (
        "product",
        set_multiplier("Cauchy-Schwarz", [["2"]]),
        "must be the sum of the terms",
    ),
    "a negative multiplier": (
        "product",
        set_multiplier("Cauchy-Schwarz", [["-1"]]),
        "no negative eigenvalue",
    ),
    "a square with a negative eigenvalue": (
        "mix",
        set_multiplier("squares", [["1", "-2"], ["-2", "1"]]),
        "no negative eigenvalue",
    ),
    "no symmetric matrix": (
        "mix",
        set_multiplier("squares", [["1", "-1"], ["0", "1"]]),
        "must be a symmetric matrix",
    ),
    "no number": ("mix", set_multiplier("squares", [["x"]]), "must be a symmetric matrix"),
    "a term left out": ("mix", lambda c: c["terms"].pop(), "must be the sum of the terms"),
    "terms that are none": ("mix", lambda c: c.update(terms=[1]), "`terms` must be a list"),
    "an assumption of its own": (
        "product",
        lambda c: term(c, "Cauchy-Schwarz")["of"].__setitem__(0, "everything"),
        "must be a part of the theorem",
    ),
    "a factor of any sign": (
        "product",
        lambda c: term(c, "Cauchy-Schwarz")["of"].__setitem__(1, "x"),
        "must be a part of the theorem",
    ),
    "another theorem": ("mix", lambda c: c["theorem"].update(shows="1 <= 2"), "`theorem` must be"),
    "fewer assumptions": ("mix", lambda c: c["theorem"].update(assumes=[]), "`theorem` must be"),
    "an excess that is not needed": (
        "mix",
        lambda c: c.update(excess="1/10"),
        "must be the sum of the terms",
    ),
    "a negative excess": ("mix", lambda c: c.update(excess="-1/10"), "`excess` must be"),
    "no excess": ("mix", lambda c: c.update(excess=None), "`excess` must be"),
    "another arithmetic": ("mix", lambda c: c.update(arithmetic="balls"), "`arithmetic` must be"),
    "another claim": ("mix", lambda c: c.update(id="vec.length"), "`theorem` must be"),
    "another revision": ("mix", lambda c: c.update(revision="0123456789abcdef"), "`revision`"),
    "another relation": ("mix", lambda c: c.update(relation=">="), "`relation` must be <="),
    "a ratio that no instance has": (
        "mix",
        lambda c: c["found"].update(ratio="1.01"),
        "the ratio at `instance` must be 101/100 or more",
    ),
    "another instance": (
        "mix",
        lambda c: c["found"]["instance"].update(v=[1.0], w=[-1.0], a=0.5),
        "the ratio at `instance` must be",
    ),
    "other sizes of the instance": (
        "mix",
        lambda c: c["found"].update(sizes={"d": 3}),
        "`instance` must be of the sizes",
    ),
    "no instance": ("mix", lambda c: c["found"].pop("instance"), "`found` must have instance"),
    "a key left out": ("mix", lambda c: c.pop("terms"), "certificate must have terms"),
}


@pytest.mark.parametrize("what", FALSE)
def test_a_false_certificate_is_refused(what: str) -> None:
    name, change, reason = FALSE[what]
    content = proved(name)
    change(content)
    with pytest.raises(Refused) as error:
        verify(content)
    assert reason in str(error.value)


def test_the_checker_asks_whether_the_theorem_is_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    content = proved("mix")
    monkeypatch.setattr(
        "ratecheck._certify.gram.certificate.disagreement", lambda *_: "not the claim"
    )
    with pytest.raises(Refused, match="not the claim"):
        verify(content)


def test_eigenvalues_are_decided_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = Fraction(1, 10**40)
    assert exact.negative([[Fraction(1), Fraction(1)], [Fraction(1), 1 + tiny]]) is None
    assert exact.negative([[Fraction(1), Fraction(1)], [Fraction(1), 1 - tiny]]) == 1
    assert exact.negative([[Fraction(0), Fraction(1)], [Fraction(1), Fraction(5)]]) == 0
    # without the decision, a false certificate is accepted
    content = proved("product")
    change = FALSE["a negative multiplier"][1]
    change(content)
    monkeypatch.setattr(exact, "negative", lambda _: None)
    with pytest.raises(Refused, match="must be the sum"):
        verify(content)


def test_the_checker_needs_no_solver(tmp_path: Path) -> None:
    path = tmp_path / "mix.json"
    path.write_text(json.dumps(proved("mix")))
    program = (
        "import sys\n"
        "sys.modules['cvxpy'] = sys.modules['clarabel'] = None\n"
        "from pathlib import Path\n"
        "from ratecheck._certify.verify_many import check_one, contents\n"
        f"every = map(check_one, contents(Path({str(path)!r})))\n"
        "print([one.said or one.refused for one in every])\n"
        "from ratecheck import gram\n"
        "p = gram.Problem()\n"
        "x = p.vector('x')\n"
        "p.show(x.squared <= 2 * x.squared)\n"
        "try:\n"
        "    gram.prove(p)\n"
        "except (ValueError, ImportError) as error:\n"
        "    print(type(error).__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    said, without = done.stdout.splitlines()
    assert said.startswith(
        "['proved under assumptions, for all dimensions, by exact rationals from 1 assumption (1 "
    )
    assert without in ("InputError", "ModuleNotFoundError", "ValueError")

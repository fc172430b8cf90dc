"""Statements as decorated functions: texts, parameters by name, relations, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from linsys import InputError

PAPER = rc.Paper("mine", "My paper")
MASSES = {"p": rc.simplex("k"), "q": rc.simplex("k")}


@PAPER.upper("mass", ref="Lemma 1", tex=r"\max_kp_k\le1", on=MASSES)
def mass(p: Any) -> rc.Sides:
    """No probability
    exceeds one.

    For who reads the code.
    """
    return p, 1 + 0 * p


def test_a_statement_is_its_docstring_and_its_place() -> None:
    assert (mass.id, mass.source, mass.kind) == ("mine.mass", "My paper, Lemma 1", "upper")
    assert (mass.text, mass.latex) == ("No probability exceeds one.", r"\max_kp_k\le1")
    assert mass.space.sizes == {"k": (1, 4)}
    assert rc.judge(mass).verdict == "holds"


def test_a_statement_can_be_called_as_the_function_that_it_is() -> None:
    measured, bound = mass(np.array([0.25, 0.75]))
    assert (measured.tolist(), bound.tolist()) == ([0.25, 0.75], [1.0, 1.0])


@pytest.mark.parametrize(
    "measure",
    [
        lambda p, q: (p - q, 0 * p + 1),
        lambda q, p, half=0.5: (p - q, 0 * p + 2 * half),
        lambda instance: (instance.p - instance.q, 0 * instance.p + 1),
    ],
)
def test_parameters_are_fields_or_the_instance(measure: Any) -> None:
    claim = replace(mass, measure=measure)
    instance = claim.space.view(p=np.array([0.75, 0.25]), q=np.array([0.5, 0.5]))
    measured, bound = claim.measure(instance)
    assert (measured.tolist(), bound.tolist()) == ([0.25, -0.25], [1.0, 1.0])
    again = replace(claim, text="the same").measure(instance)
    assert again[0].tolist() == measured.tolist()


def test_an_unknown_parameter_is_named_with_the_fields_that_there_are() -> None:
    said = r"parameter `weight` of mine\.mass must be a field .* found the fields p, q$"
    with pytest.raises(InputError, match=said):
        replace(mass, measure=lambda p, weight: (p, weight))
    made = replace(mass.space, repair=lambda fields: fields | {"weight": fields["p"]})
    replace(mass, space=made, measure=lambda p, weight: (p, weight))  # only it knows its fields


def test_what_an_instance_computes_is_not_computed_to_be_found() -> None:
    class Lazy:
        asked = 0

        @property
        def p(self) -> float:
            Lazy.asked += 1
            return 0.5

    claim = replace(mass, measure=lambda p: (p, 1.0))
    assert claim.measure(Lazy()) == (0.5, 1.0)
    assert Lazy.asked == 1


def test_a_statement_without_words_is_refused() -> None:
    with pytest.raises(InputError, match=r"docstring of mine.silent must hold the statement"):
        PAPER.upper("silent", ref="Lemma 2", on=MASSES)(lambda p: (p, 1))


def test_other_statements_of_the_paper_are_named_without_it() -> None:
    @PAPER.identity("again", ref="Lemma 1, again", on=MASSES, reading_of="mass", corrected="a.b")
    def again(p: Any) -> rc.Sides:
        """The masses sum to one."""
        return p.sum(), 1

    assert (again.reading_of, again.corrected, again.sharpens) == ("mine.mass", "a.b", None)
    assert again.relation == "=="


@pytest.mark.parametrize(
    ("said", "printed_as"),
    [
        ({}, "statement"),
        ({"sharpens": "mass"}, "ours"),
        ({"sharpens": "mass", "printed_as": "misprint"}, "misprint"),
    ],
)
def test_a_sharper_form_is_ours_unless_it_says_otherwise(
    said: dict[str, Any], printed_as: str
) -> None:
    @PAPER.identity("sharp", ref="Lemma 1, sharper", on=MASSES, **said)
    def sharp(p: Any) -> rc.Sides:
        """The masses sum to one."""
        return p.sum(), 1

    assert sharp.printed_as == printed_as


def test_a_rate_is_a_function_without_parameters() -> None:
    @PAPER.rate("slope", ref="Theorem 1")
    def slope() -> list[rc.Regime]:
        """The error is of the order 1/t."""
        return [rc.Regime("late", "t", -1.0, -1.0, -1.01, -0.99)]

    assert rc.judge(slope).verdict == "consistent"
    assert slope()[0].predicted == -1.0


def test_options_are_those_of_a_claim() -> None:
    with pytest.raises(
        InputError, match=r"options of mine\.x must be among corrected, .*; found \['foo'\]"
    ):
        PAPER.upper("x", ref="Lemma 2", on=MASSES, foo=1)(mass.function)  # type: ignore[call-arg]


def test_a_misspelt_keyword_is_named_with_the_one_that_was_meant() -> None:
    options: dict[str, Any] = {"id": "mine.x", "source": "p", "text": "t", "kind": "upper"}
    with pytest.raises(InputError, match=r"found \['field'\] \(did you mean `fields`\?\)"):
        rc.claim(**options, field=MASSES)
    with pytest.raises(InputError, match=r"found \['expected'\] \(did you mean `expect`\?\)"):
        rc.claim(**options, fields=MASSES, expected="holds")


def test_a_statement_without_instances_is_refused() -> None:
    declare: list[Any] = [PAPER.upper, partial(PAPER.statistical, between=(-1, 1), within=0.1)]
    said = r"^`on` of mine\.x must be a space or its fields, .*; found none"
    for decorator in declare:
        with pytest.raises(InputError, match=f"{said}, but `field`$"):
            decorator("x", ref="Lemma 2", field=MASSES)
        with pytest.raises(InputError, match=f"{said}$"):
            decorator("x", ref="Lemma 2")


def test_what_is_no_verdict_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(InputError, match=r"must be one of holds, violated, .*; found 'false'"):
        replace(mass, expect="false")


def test_a_side_that_is_missing_is_named_with_its_formula() -> None:
    def no_bound(p: Any) -> Any:
        """A formula whose bound is a function that returns nothing."""
        return p, None

    line = no_bound.__code__.co_firstlineno
    for on, said in ((no_bound, "bound"), (lambda p: (None, p), "measured side")):
        reason = rc.judge(replace(mass, measure=on)).reason
        assert reason.startswith(f"the {said} must be a number or an array; found None (")
    assert f"(test_paper.py:{line})" in rc.judge(replace(mass, measure=no_bound)).reason


def test_exponents_are_a_list_of_regimes() -> None:
    def regimes() -> Any:
        """Some exponents."""
        return [1]

    verdict = rc.judge(PAPER.rate("x", ref="Theorem 1")(regimes))
    assert verdict.verdict == "error"
    assert verdict.reason == "regimes must be a list of Regime; found [1]"


@PAPER.upper("scaled", ref="Lemma 2", on=MASSES, note="Known.", trivial=lambda p: 1 + 0 * p)
def scaled(p: Any, most: float = 1, power: int = 1) -> rc.Sides:
    """No probability exceeds one."""
    return p**power, most + 0 * p


def test_a_claim_with_another_constant_is_a_claim() -> None:
    half = scaled.changed(
        "scaled_half",
        {"most": 0.5, "power": 2},
        text="No square exceeds 1/2.",
        note="A point mass.",
    )
    assert (half.id, half.text) == ("mine.scaled_half", "No square exceeds 1/2.")
    assert half.source == "My paper, Lemma 2, with most = 0.5, power = 2"
    assert (half.expect, half.printed_as, half.corrected) == ("violated", "ours", "mine.scaled")
    assert (half.note, half.space, half.trivial) == ("A point mass.", scaled.space, scaled.trivial)
    assert [side.tolist() for side in half(np.array([0.25]))] == [[0.0625], [0.5]]
    assert [side.tolist() for side in half(np.array([0.25]), most=2)] == [[0.0625], [2.0]]
    verdict = rc.judge(half)
    assert verdict.verdict == "violated"
    assert rc.certify(half, verdict.counterexample).certificate is not None
    assert rc.judge(scaled).verdict == "holds"  # which has not changed
    again = half.changed("scaled_twice", {"most": 2}, text="None exceeds 2.", expect="holds")
    assert (again.note, again.corrected) == ("", None)
    assert [side.tolist() for side in again(np.array([0.5]))] == [[0.25], [2.0]]
    assert rc.judge(again).verdict == "holds"


def test_a_changed_claim_says_what_its_options_say() -> None:
    told = scaled.changed(
        "told", {"most": 2}, text="None exceeds 2.", ref="Section 3", tex="p\\le2",
        expect="holds", corrected="mass", printed_as="misprint", uses=["mass"], main=True,
    )  # fmt: skip
    assert (told.source, told.latex, told.expect) == ("My paper, Section 3", "p\\le2", "holds")
    assert (told.corrected, told.printed_as, told.uses) == ("mine.mass", "misprint", ("mine.mass",))
    assert told.main


def test_a_changed_claim_keeps_its_paper_s_name() -> None:
    paper = rc.Paper("ten", "Kaczmarz of Strohmer and Vershynin")

    @paper.upper("mass", ref="Lemma 1", on=MASSES)
    def mass(p: Any, most: float = 1) -> rc.Sides:
        """No probability exceeds one."""
        return p, most

    half = mass.changed("half", {"most": 0.5}, text="None exceeds 1/2.", ref="Lemma 2")
    again = half.changed("third", {"most": 0.3}, text="None exceeds 0.3.", ref="Lemma 3")
    assert [half.source, again.source] == [f"{paper.name}, Lemma 2", f"{paper.name}, Lemma 3"]
    alone = rc.Claim(
        id="ten.mass", source="A book, second edition, Lemma 1", text="None exceeds one.",
        kind="upper", space=rc.Space(MASSES), measure=mass.function,
    )  # fmt: skip
    other = alone.changed("half", {"most": 0.5}, text="None exceeds 1/2.", ref="A book, Lemma 2")
    assert other.source == "A book, Lemma 2"


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (
            {"p": 1},
            {},
            "values of mine.other must be of .* default, which are most, power; found p",
        ),
        ({"half": 1}, {}, "found half"),
        ({}, {}, "found none"),
        ({"most": 1}, {"notes": ""}, r"options of mine.other .* \(did you mean `note`\?\)"),
        (
            {"most": 1},
            {"relation": ">="},
            "options of mine.other must be among .* found .'relation'",
        ),
        ({"most": 1}, {"family": ()}, "options of mine.other must be among .* found .'family'"),
        ({"most": 1}, {"trivial": abs}, "options of mine.other must be among .* found .'trivial'"),
        ({"most": 1}, {"text": ""}, "`text` of mine.other must hold the statement; found ''"),
        ({"most": 1}, {"expect": "maybe"}, "`expect` of mine.other must be one of"),
    ],
)
def test_what_cannot_be_changed_is_refused(
    values: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        scaled.changed("other", values, **{"text": "Another one.", **options})
    without = rc.NotChecked(id="mine.taste", source="p", text="t", note="why")
    with pytest.raises(InputError, match="`changed` must be of a claim with a function; found"):
        without.changed("other", {"most": 1}, text="Another one.")


def test_statements_of_means_and_exponents_are_changed_alike() -> None:
    @PAPER.statistical(
        "noise", ref="Lemma 3", on={"p": rc.interval()}, between=(-1, 1), within=0.05
    )
    def noise(p: float, rng: Any, share: float = 1.0) -> Any:
        """The mean of a Bernoulli variable is p at most."""
        return rng.binomial(1, p, size=1000) - share * p

    @PAPER.rate("decay", ref="Lemma 4")
    def decay(stated: float = -1.0) -> list[rc.Regime]:
        """Errors fall like 1/t."""
        return [rc.Regime("all", "t", stated, -1.0, -1.0, -1.0)]

    less = noise.changed("noise_less", {"share": 0.5}, text="Its mean is p / 2 at most.")
    faster = decay.changed("decay_faster", {"stated": -2.0}, text="Errors fall like 1/t^2.")
    assert [rc.judge(claim).verdict for claim in (noise, less)] == ["holds", "violated"]
    assert [rc.judge(claim).verdict for claim in (decay, faster)] == ["consistent", "violated"]
    assert (less.corrected, faster.corrected) == ("mine.noise", None)


DECORATOR = '@PAPER.upper("mass", ref="Lemma 1", on={"p": rc.simplex("k")})'
CHANGED = f"""
import ratecheck as rc

PAPER = rc.Paper("my", "My paper")


{DECORATOR}
def mass(p, most=1):
    'No probability exceeds one.'
    return p, most


mass.changed("mass_half", {{"most": 0.5}}, text="None exceeds one half.")
"""


@pytest.mark.slow
def test_a_changed_claim_of_a_file_is_listed_judged_and_tested(
    ratecheck: Any, tmp_path: Path
) -> None:
    file = tmp_path / "masses.py"
    file.write_text(CHANGED)
    assert [item.id for item in rc.find_claims(str(file))] == ["my.mass", "my.mass_half"]
    out = ("--out", tmp_path / "results")
    for command in ("list", "audit", "certify"):
        said = ratecheck(command, file, *(out if command != "list" else ()))
        assert (said.code, said.err) == (0, "")
        assert "my.mass_half" in said.out
    shown = ratecheck("audit", f"{file}::my.mass_half", "--show", *out).out
    # the place is that of the function whose constant is changed
    assert f"masses.py:{1 + CHANGED.splitlines().index(DECORATOR)}" in shown
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "2 passed" in done.stdout, done.stdout + done.stderr

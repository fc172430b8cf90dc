"""The page for a paper's authors: complete, in order, and readable whatever came out."""

from __future__ import annotations

import re
from typing import Any

import pytest

import ratecheck as rc
from ratecheck._discover.catalogue import catalogue
from ratecheck._report.findings import findings
from ratecheck._verdicts.records import Result


def record(name: str, verdict: str = "holds", **options: Any) -> dict[str, Any]:
    """A record of my paper with what is not of interest filled in."""
    plain: dict[str, Any] = {
        "id": f"mine.{name}",
        "verdict": verdict,
        "expected": verdict,
        "kind": "upper",
        "relation": "<=",
        "source": f"Mine, Lemma {name}",
        "section": "Mine, Section 1",
        "place": "mine/section_1",
        "text": f"statement {name}",
        "ratio": 0.5 if verdict == "holds" else None,
        "effort": "quick",
        "seed": 0,
        "details": {},
        "counterexample": None,
        "meaning": {},
        "main": False,
        **dict.fromkeys(("latex", "note", "derivation", "reason", "measured", "bound"), ""),
        "corrected": None,
    }
    return {**plain, **options}


def false(name: str, **options: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "counterexample": {"p": [1 / 3, 2 / 3], "floor": 0.001},
        "measured": "0.30000000000000004",
        "bound": "0.2",
        "ratio": 1.5,
        "note": "a step that breaks",
        **options,
    }
    return record(name, "violated", **fields)


def chapter(page: str, title: str) -> str:
    """The text between this heading and the next one of its level or above."""
    level = len(title.partition(" ")[0])
    return re.split(rf"\n#{{1,{level}}} ", page.partition(f"\n{title}\n")[2])[0]


def test_a_false_statement_is_told_in_full() -> None:
    better = record("a_corrected", ratio=0.999999999, text="a better one", derivation="a proof")
    wrong = false("a", corrected="mine.a_corrected", latex=r"a\le b")
    page = findings([wrong, better], {"mine.a": "ratecheck audit --replay a.json"})
    assert page.startswith("# Findings: Mine\n\n2 statements audited (quick search, seed 0).")
    assert chapter(page, "### 1. Mine, Lemma a (`mine.a`)") == (
        "\n> statement a\n\n```math\na\\le b\n```\n\nCounterexample:\n\n"
        "    p = (1/3, 2/3)\n    floor = 0.001\n\n"
        "There the measured side is 0.3, 1.5 times the bound; stated: at most 0.2.\n\n"
        "*Where it breaks.* a step that breaks\n\n"
        "*Corrected* (`mine.a_corrected`; holds, tightest ratio 1). a better one\n\n"
        "*Why.* a proof\n\nAgain: `ratecheck audit --replay a.json`\n"
    )
    assert "Not as expected" not in page
    assert "| counterexample |" not in page  # one needs no overview
    assert page.endswith("## Not checked\n\nEvery statement of the catalogue was checked.\n")


def test_other_readings_are_told_under_their_statement() -> None:
    records = [
        false("a", corrected="mine.a_corrected"),
        record("a_corrected"),
        record("b"),
        false("b_sec4", corrected="mine.b", relation="==", kind="identity", reading_of="mine.b"),
        false("a_again", corrected="mine.a_corrected"),
        false("late", corrected="mine.a_corrected", source="Mine, without a condition"),
    ]
    page = findings(records, {})
    printed = chapter(page, "## False as printed")
    assert re.findall(r"### .*", printed) == ["### 1. Mine, Lemma a (`mine.a`)"]
    assert printed.index("**Also: Mine, Lemma a\\_again** (`mine.a_again`).") > 0
    assert "**Also: Mine, without a condition** (`mine.late`)." in printed
    assert printed.count("*Corrected* as above (`mine.a_corrected`).") == 2
    other = chapter(page, "## True as read here, false under another reading")
    assert "### Mine, Lemma b (`mine.b`): holds, tightest ratio 0.5" in other
    assert "**Mine, Lemma b\\_sec4** (`mine.b_sec4`)." in other
    assert "the measured side is 0.3; stated: equal to 0.2." in other


def test_of_a_users_file_nobody_knows_what_is_printed() -> None:
    wrong, right = false("a", corrected="mine.b"), record("b")
    of_file = [{**one, "file": "my_paper.py"} for one in (wrong, right)]
    page = findings(of_file, {})
    assert "### 1. Mine, Lemma a (`mine.a`)" in chapter(page, "## False as stated")
    assert "printed" not in page
    assert "No statement was found to be false as stated." in findings(of_file[1:], {})
    assert "## False as printed" in findings([wrong, right], {})


def test_what_is_false_is_told_and_counted_by_what_is_printed() -> None:
    records = [
        false("step", printed_as="proof step"),
        false("own", printed_as="ours"),
        false("slip", printed_as="misprint"),
        false("assumed", printed_as="assumption"),
        false("a"),
        false("own_reading", printed_as="ours", reading_of="mine.a"),
        false("read", reading_of="mine.true", reading="Section 4 calls the same thing so."),
        record("true", decided="proved for all dimensions", proof="proved so by rationals"),
        record("empty", "vacuous"),
        record("also", decided="searched"),
    ]
    page = findings(records, {})
    headings = re.findall(r"^##+ (.*)", page, re.MULTILINE)
    assert headings[:12] == [
        "False as printed",
        "1. Mine, Lemma a (`mine.a`)",
        "Misprints",
        "2. Mine, Lemma slip (`mine.slip`)",
        "False steps of proofs",
        "3. Mine, Lemma step (`mine.step`)",
        "False statements of ours",
        "4. Mine, Lemma own (`mine.own`)",
        "5. Mine, Lemma own\\_reading (`mine.own_reading`)",
        "Assumptions that nothing meets",
        "6. Mine, Lemma assumed (`mine.assumed`)",
        "True as read here, false under another reading",
    ]
    assert "*Read so:* Section 4 calls the same thing so." in page
    table = page.partition("| statements that are | number |")[2].partition("\n\n")[0]
    assert dict(re.findall(r"\| (.*?) \| (\d) \|", table)) == {
        "holds": "2",
        "false as printed": "1",
        "false under a second reading": "1",
        "misprint": "1",
        "false step of a proof": "1",
        "false statement of ours": "2",
        "assumption that nothing meets": "2",
    }
    decided = page.partition("| decided by | that is | number |")[2].partition("\n\n")[0]
    assert re.findall(r"\| (.*?) \| .*? \| (\d) \|", decided) == [
        ("proved for all dimensions", "1"),
        ("searched", "1"),
    ]


@pytest.mark.parametrize(
    ("witness", "label", "said"),
    [
        ((0.75, True, True), "", "within 1 %, 75% violate it as well"),
        ((0.0, True, True), ", degenerate", "*Degenerate*: none of its"),
        ((1.0, False, True), ", at the edge", "Its numbers are at the edge"),
        ((1.0, True, False), ", narrowly", "It misses the bound by less than 5 %"),
        # only the gravest doubt is a label, but all are told
        ((0.0, False, False), ", degenerate", "It misses the bound by less than 5 %"),
        ((0.1, False, False), ", at the edge", "It misses the bound by less than 5 %"),
    ],
)
def test_it_is_said_how_generic_a_counterexample_is(
    witness: tuple[float, bool, bool], label: str, said: str
) -> None:
    signs = dict(zip(("near", "credible", "clear"), witness, strict=True), far=0.5)
    page = findings([false("a", witness=signs), false("b")], {})
    assert "*degenerate*, none of its neighbours" in page
    assert f"| Mine, Lemma a | 0.3{label} | at most 0.2 |" in page
    assert said in chapter(page, f"### 1. Mine, Lemma a (`mine.a`){label}")
    assert said not in chapter(page, "### 2. Mine, Lemma b (`mine.b`)")


def test_a_ratio_without_meaning_is_not_written_in_digits() -> None:
    page = findings([false("a", ratio=1.22e161), false("b", ratio=999_999.0)], {})
    assert "is 0.3, > 1e6 times the bound; stated: at most 0.2" in page
    assert "is 0.3, 1e+06 times the bound" in page
    assert "e+161" not in page


def test_what_falls_with_a_false_lemma_is_told() -> None:
    tried = {"families": {"mine.a": {"tried": 4, "violated": 3}}}
    records = [
        false("a"),
        false("t", uses=["mine.middle"], details=tried),
        record("middle", uses=["mine.a"]),
        record("alone", uses=["mine.true"]),
        record("true"),
    ]
    told = chapter(findings(records, {}), "## What rests on what is false").splitlines()
    assert [line.split(" | ")[2:] for line in told[5:]] == [
        ["violated, tightest ratio 1.5", "`mine.a` (3 of 4 violate it) |"],
        ["holds, tightest ratio 0.5", "`mine.a` |"],
    ]


def test_several_false_statements_are_told_in_one_table_first() -> None:
    better = record("a_corrected", ratio=1.0)
    rate = false("r", kind="rate", relation="", measured="-0", bound="-1")
    known = record("k", "holds", expected="violated")
    page = findings([false("a", corrected="mine.a_corrected"), rate, known, better], {})
    assert chapter(page, "## False as printed").startswith(
        "\n|  | statement | counterexample | stated | correction |\n|---|---|---|---|---|\n"
        "| 1 | Mine, Lemma a | 0.3 | at most 0.2 | `mine.a_corrected`, holds, tightest ratio 1 |\n"
        "| 2 | Mine, Lemma r | exponent 0 | at most -1 | see 2 |\n"
        "| 3 | Mine, Lemma k | none by this search |  | see 3 |\n"
    )


def test_an_explicit_bound_is_no_reading_of_a_rate() -> None:
    rate = record("d", "consistent", kind="rate", relation="", ratio=None)
    page = findings([rate, false("d_explicit", kind="upper")], {})
    assert "### 1. Mine, Lemma d\\_explicit (`mine.d_explicit`)" in page


def test_main_results_come_first_then_the_steps_they_rest_on() -> None:
    step = false("b", main=True)
    result = false("z", main=True, place="mine/rates")
    page = findings([false("a"), step, false("c"), result], {})
    headings = re.findall(r"### (\d)\. Mine, Lemma (.)", page)
    assert headings == [("1", "z"), ("2", "b"), ("3", "a"), ("4", "c")]


def test_fields_are_explained_below_a_counterexample() -> None:
    meaning = {"floor": "the least p_k", "gone": "no field of this instance"}
    page = findings([false("a", meaning=meaning), false("b")], {})
    assert "    floor = 0.001\n\n(floor: the least p\\_k)\n\nThere" in page
    assert page.count("the least") == 1
    assert "gone" not in page


def test_what_was_not_expected_stands_before_all_and_stays_readable() -> None:
    lost = record("a", "holds", expected="violated", note="known before")
    new = false("b", expected="holds", note="")
    broken = record("c", "error", expected="holds", reason="measure raised RuntimeError: no")
    slow = record(
        *("r", "violated"),
        kind="rate",
        relation="",
        measured="-0.5",
        bound="-1",
        reason="late: exponent of t in [-0.6, -0.4], stated -1",
        expected="consistent",
    )
    page = findings([lost, new, broken, slow], {})
    assert chapter(page, "## Not as expected") == (
        "\n- `mine.a`: holds, expected: violated.\n- `mine.b`: violated, expected: holds.\n"
        "- `mine.c`: error, expected: holds. Measure raised RuntimeError: no.\n"
        "- `mine.r`: violated, expected: consistent. Late: exponent of t in \\[-0.6, -0.4], "
        "stated -1.\n"
    )
    assert "This search found no counterexample (verdict: holds, tightest ratio 0.5)" in page
    assert "*Where it breaks* is not known yet." in page
    assert "The exponent is -0.5; stated: at most -1. Late: exponent of t in" in page
    assert "(`mine.c`; error). statement c Measure raised" in page


def test_tightness_counts_what_is_attained_and_what_is_sharper() -> None:
    records = [
        record("a", ratio=1 - 1e-9),
        record("b", ratio=1 - 1e-5),
        record("c", ratio=0.25, decided="searched"),
        record("c_sharper", ratio=1.0, text="half of it", derivation="why", sharpens="mine.c"),
        record("e", kind="identity", relation="==", ratio=1.0),
        record("m", ratio=0.1, place="mine/main_bounds", note="only for large n"),
        false("x"),
        record("lost", expected="violated"),
    ]
    page = findings(records, {})
    assert "Of 5 bounds that held, 2 are attained" in page
    assert chapter(page, "### Attained") == "\n- Mine, Section 1: `mine.a`, `mine.c_sharper`.\n"
    rows = chapter(page, "### Not attained").strip().splitlines()[2:]
    assert rows == [
        "| `mine.m` | Mine, Lemma m |  | 0.1 |  |",
        "| `mine.c` | Mine, Lemma c | searched | 0.25 | `mine.c_sharper`, holds, "
        "tightest ratio 1 |",
        "| `mine.b` | Mine, Lemma b |  | 0.9999 |  |",
    ]
    assert chapter(page, "### Sharper constants") == (
        "\n- Mine, Lemma c\\_sharper (`mine.c_sharper`; holds, tightest ratio 1). half of it "
        "*Why.* why\n"
    )
    assert chapter(page, "### The main results") == (
        "\n- Mine, Lemma m (`mine.m`; holds, tightest ratio 0.1: on every instance tried at least "
        "10 times too large). statement m Only for large n.\n"
    )


@pytest.mark.parametrize(
    ("verdict", "title"),
    [("not checked", "## Not checked"), ("vacuous", "## Conditions that nothing satisfies")],
)
def test_what_was_not_checked_says_why(verdict: str, title: str) -> None:
    page = findings([record("a", verdict, reason="it needs a limit")], {})
    told = "\n- Mine, Lemma a (`mine.a`; " + verdict + "). statement a It needs a limit.\n"
    assert chapter(page, title) == told
    assert "No statement was found to be false as printed." in page
    assert "How tight" not in page


def test_formulas_are_no_markup() -> None:
    page = findings([false("a", text="x_*^i <= [x_*^c](y) * ||z||_inf $ `q`", note="a_*b*")], {})
    assert r"> x\_\*^i \<= \[x\_\*^c](y) \* ||z||\_inf \$ \`q\`" in page
    assert r"*Where it breaks.* a\_\*b\*" in page


@pytest.mark.slow
def test_the_real_catalogue_reads_well() -> None:
    """Every statement with the verdict that is known for it."""
    records = []
    for item in catalogue():
        entry = item.entry
        verdict = rc.Verdict(entry.id, entry.expect, instances=9)
        if isinstance(entry, rc.Claim):
            wrong = entry.expect == "violated"
            verdict.measured, verdict.bound = ("3.0", "2.0") if wrong else ("1.0", "2.0")
            verdict.ratio = 1.5 if wrong else 0.5
            verdict.counterexample = {"A": [[[1.0]], [[0.5]]]} if wrong else None
        elif entry.expect == "not checked":
            verdict.reason = entry.note
        records.append(Result(item, verdict, "quick", 0).to_record())
    page = findings(records, {})
    for told in records:
        headings = re.findall(rf"^(?:### |\*\*).*\(`{told['id']}`\)", page, re.MULTILINE)
        if told["verdict"] == "violated":
            assert len(headings) == 1, told["id"]
        if told["verdict"] == "not checked":
            assert f"(`{told['id']}`; not checked)" in page
    false_ones = {told["id"]: told["category"] for told in records if told["category"]}
    for name, title in (("false as printed", "## False as printed"), ("misprint", "## Misprints")):
        told = chapter(page, title)
        inside = set(re.findall(r"^(?:###|\*\*Also:).*\(`(\S+)`\)", told, re.MULTILINE))
        assert inside >= {one for one in false_ones if false_ones[one] == name}
        assert {false_ones[one] for one in inside} <= {name, "false under a second reading"}
    assert not re.search(r"\bNone\b|\bnan\b|\{\}| $", page, re.MULTILINE)
    numbers = re.findall(r"^### (\d+)\. ", page, re.MULTILINE)
    assert numbers == [str(k + 1) for k in range(len(numbers))]
    assert len(numbers) > 10
    assert page == findings(records, {})

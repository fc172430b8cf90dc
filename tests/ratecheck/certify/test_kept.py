"""The certificates that papers keep are of their counterexamples, and pages say the same."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import ROUND_FLOOR
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from ratecheck._certify import check_constant, check_identity, formulas, ratios
from ratecheck._certify.against_claims import verify
from ratecheck._certify.constant_formula import check_boxes
from ratecheck._certify.ratios import at_smallest_sizes, found
from ratecheck._claims.claim import Claim
from ratecheck._claims.space import Sizes
from ratecheck._discover import papers
from ratecheck._discover.catalogue import Item, find_claims
from ratecheck._report import kept as report_kept
from ratecheck._report.export import AUTHORS, renew
from ratecheck._report.kept import decided, found_before, proof
from ratecheck._report.verdicts import show_claim
from ratecheck._verdicts import certificates as kept, certified
from ratecheck._verdicts.certificates import in_words
from ratecheck._verdicts.evidence import MEANING, Evidence, of_certificate
from ratecheck._verdicts.records import Records

KEPT = {
    paper: Path(*package.split(".")) / "results" for paper, package in papers.installed().items()
}
#: The pages on certificates: for users, for referees, and the lists of what is proved.
PAGE, METHODS, LISTS = (
    Path("docs", f"certificates{part}.md") for part in ("", "-methods", "-results")
)


@pytest.mark.parametrize("paper", KEPT)
def test_every_claim_is_proved_or_has_a_reason(paper: str) -> None:
    whole = kept.read(KEPT[paper])
    verdicts = json.loads((KEPT[paper] / "verdicts.json").read_text())["claims"]
    names = [one["id"] for one in (*whole["certificates"], *whole["unproved"])]
    assert sorted(names) == sorted(one["id"] for one in verdicts)
    assert all(one["reason"] for one in whole["unproved"])
    false, identities = kept.counts(whole)["false"], kept.counts(whole)["identities"]
    assert false[0] >= 0.98 * false[1] - 1
    assert identities[0] > 0


@pytest.mark.parametrize("paper", KEPT)
def test_certificates_are_of_the_counterexamples_that_are_kept(paper: str) -> None:
    verdicts = json.loads((KEPT[paper] / "verdicts.json").read_text())["claims"]
    instances = {one["id"]: one["counterexample"] for one in verdicts}
    for one in kept.read(KEPT[paper])["certificates"]:
        if one["kind"] == "counterexample":
            assert one["instance"] == instances[one["id"]], one["id"]


@pytest.mark.parametrize("paper", KEPT)
def test_the_tables_are_made_from_the_certificates(paper: str) -> None:
    whole = kept.read(KEPT[paper])
    assert (KEPT[paper] / kept.TABLES).read_text() == kept.tables(whole)
    assert (KEPT[paper] / kept.FILE).read_text() == kept.text(whole)


def test_the_page_counts_what_is_kept() -> None:
    page = PAGE.read_text()
    for folder in KEPT.values():
        whole = kept.read(folder)
        false, true = kept.counts(whole).values()
        proved = f"{false[0]} of {false[1]} | {true[0]} of {true[1]} | {kept.enclosed(whole)}"
        row = f"| {folder.parent.name} | {proved} |\n"
        assert row in page, row


def every_certificate() -> list[Mapping[str, Any]]:
    return [one for folder in KEPT.values() for one in kept.read(folder)["certificates"]]


def claims_by_id() -> dict[str, Claim]:
    entries = [item.entry for item in find_claims(list(KEPT))]
    return {entry.id: entry for entry in entries if isinstance(entry, Claim)}


def nearly_known() -> Iterator[tuple[Mapping[str, Any], Sizes, bool]]:
    """What says a constant to 1 %, at which sizes, and whether they are the least of the space."""
    claims = claims_by_id()
    for one in every_certificate():
        if kept.enclosed({"certificates": [one]}):
            sizes = one["sizes"] if one["kind"] == "constant" else one["found"]["sizes"]
            least = {name: low for name, (low, _) in claims[one["id"]].space.sizes.items()}
            yield one, sizes, sizes == least


@pytest.mark.slow
def test_the_page_counts_constants_at_the_smallest_sizes_that_say_something() -> None:
    claims, first, others = claims_by_id(), 0, 0
    for one, sizes, of_space in nearly_known():
        if of_space:
            first += 1
        else:
            low = at_smallest_sizes(claims[one["id"]])
            others += low.ratio > 0 and low.sizes == sizes
    page, known = " ".join(PAGE.read_text().split()), sum(1 for _ in nearly_known())
    assert (
        f"{first + others} of the {known} are known at the smallest sizes at which both sides are "
        f"ever positive, as a search finds: {first} at the smallest of the space, and {others} "
        "where at all smaller ones a side is zero" in page
    )


def test_the_page_says_what_the_certificates_leave_open() -> None:
    every, claims = every_certificate(), claims_by_id()
    near = Counter((one["kind"], of_space) for one, _, of_space in nearly_known())
    bounds = sum(one.expect == "holds" and one.relation != "==" for one in claims.values())
    words = Counter(of_certificate(one) for one in every if one["kind"] != "quadratic")
    identities = [one for one in every if one["kind"] == "identity"]
    plain = [one for one in identities if of_certificate(one) == Evidence.SIZES]
    ways = sum(one["branches"] == "every one" for one in plain)
    none = sum(one["branches"] == "none" for one in plain)
    proved = [one for one in identities if of_certificate(one) != Evidence.MET]
    (true, total) = (
        sum(kept.counts(kept.read(one))["identities"][k] for one in KEPT.values()) for k in (0, 1)
    )
    some, met = sum("every_branch" in one for one in proved), words[Evidence.MET]
    theorems = sum(one["kind"] == "quadratic" for one in every)
    boxes, proofs = ((near[kind, True], near[kind, False]) for kind in ("constant", "quadratic"))
    page = " ".join(PAGE.read_text().split())
    for said in (
        f"| every identity is proved for all numbers | {true} of {total} |",
        f"{met} more hold on the branches met and are not counted, with which it would be "
        f"{true + met}. Of the other {total - true - met} nothing is proved",
        f"Of the {len(proved)} some leave more open than the chance",
        f"| nothing, as they compare no numbers | {none} |",
        f"| nothing, as they are proved on every branch of the formula | {ways} |",
        f"| branches that no point met, for some of their sizes | {some} |",
        f"| whole numbers that were not drawn | {words[Evidence.WHOLE]} |",
        f"| points at which numbers that the formula compares are equal | {words[Evidence.TIES]} |",
        f"| {sum(boxes + proofs)} of the {bounds} bounds that hold |",
        f"| boxes | {boxes[0]} | {boxes[1]} | {sum(boxes)} |",
        "| a theorem for all dimensions, and an instance near its bound "
        f"| {proofs[0]} | {proofs[1]} | {sum(proofs)} |",
        f"| {theorems} of {bounds} |",
        f"{words[Evidence.SIZES] - len(plain)} more bounds are proved at sizes, by boxes",
    ):
        assert said in page, said
    false = [one for one in every if one["kind"] == "counterexample"]
    alone = sum("formula" in one for one in false)
    carried = [one for one in identities if "formula" in one]
    constants = [one for one in every if one["kind"] == "constant"]
    shown = [one for one in constants if "formula" in one]
    both = [one for one in shown if "at" in one]
    complete = sum(_sizes_of(one) == len(one["sizes"]) for one in carried)
    assert (
        f"{theorems} theorems, {alone} of {len(false)} false claims, {len(carried)} of "
        f"{len(identities)} identities, both ends of {len(both)} of {len(constants)} constants "
        f"and the upper one of {len(shown) - len(both)} more" in page
    )
    one, other = (f"`{one['id']}`" for one in shown if one not in both)
    assert f"At the instances of {one} and {other} both sides" in page
    assert f"{len(shown)} of the {len(constants)} constants carry a formula" in page
    left = re.search(r"In (\d+) of the others both sides vanish .* In (\d+) it needs", page)
    assert left is not None
    assert sum(map(int, left.groups())) == len(constants) - len(shown)
    assert f"up to 10^{round(math.log10(check_constant.WORK))} lines" in METHODS.read_text()
    some, of_all = sum(map(_sizes_of, carried)), sum(len(one["sizes"]) for one in carried)
    assert (
        f"{complete} of the {len(carried)} identities carry their formulas at all of their sizes "
        f"and the others at small ones, together at {some:,} of their {of_all:,} combinations of "
        "sizes" in page
    )
    assert f"Of the {len(identities) - len(carried)} other identities" in page
    few = [one for one in carried if one["drawn"] and '"' in _heads(one)[0].partition("}, {")[2]]
    assert {len(_heads(one)) / _sizes_of(one) for one in few} == {formulas.WHOLE}
    assert f"{len(few)} of the {len(carried)} do so at {formulas.WHOLE} combinations" in page


@pytest.mark.parametrize(
    ("name", "imports"),
    [
        ("check", "the standard library"),
        ("check_formula", "the standard library and python-flint"),
        ("check_identity", "the same"),
        ("check_constant", "the same"),
    ],
)
def test_the_page_says_how_long_the_programs_are_that_check_alone(name: str, imports: str) -> None:
    lines = len(Path(f"ratecheck/_certify/{name}.py").read_text().splitlines())
    assert lines < 300
    assert f"| `{name}.py` | {lines} | {imports} |" in PAGE.read_text()


#: Constants whose boxes were many for the proof, which are also many for the checker, and others
#: whose formulas take it as long as those of all others together.
MANY = 1_000
LONG = {"fslora.d4_equality_corrected", "psl.chain_noise_all", "psl.chain_noise_own"}


@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_formulas_of_kept_constants_show_their_ends(many: bool) -> None:
    claims = claims_by_id()
    every = [one for one in every_certificate() if one["kind"] == "constant" and "formula" in one]
    assert {one["id"] for one in every} > LONG
    shown = [one for one in every if (one["boxes"] > MANY or one["id"] in LONG) == many]
    assert len(shown) > 10
    for one in shown:
        check_boxes(one, claims[one["id"]])


def _heads(identity: Mapping[str, Any]) -> list[str]:
    """The sizes and whole numbers of an identity's programs."""
    return [*check_identity.unpacked(identity["formula"])]


def _sizes_of(identity: Mapping[str, Any]) -> int:
    """For how many sizes an identity carries formulas."""
    heads = _heads(identity)
    of_head = {head: json.dumps(json.loads(f"[{head}]")[0]) for head in heads}
    known = {json.dumps(sizes) for sizes in identity["sizes"]}
    assert all(head.startswith(f"{of_head[head]}, {{") for head in heads)
    assert known >= set(of_head.values())
    return len(set(of_head.values()))


#: What a bound has that is proved for vectors of every dimension.
THEOREM = (Evidence.ALL, Evidence.ASSUMED, Evidence.STEP)


def rows_of(pairs: list[tuple[Item, Item]]) -> list[str]:
    """A table's rows: a claim, the one in its place, what is known of that, and its page."""
    folders = {paper: folder.parent.name for paper, folder in KEPT.items()}
    return [
        f"| `{one.id}` | `{other.id}` | {decided(other, '')} | [{one.entry.source}]"
        f"(/papers/{folders[one.entry.paper]}-findings.md) |"
        for one, other in pairs
    ]


def proved_instead() -> tuple[list[str], list[str]]:
    """Rows of false claims whose correction is a theorem, and of constants that are improved."""
    items = find_claims(list(KEPT))
    known = {item.id: item for item in items}
    broken = [
        (item, known[item.entry.corrected])
        for item in items
        if decided(item, "") == Evidence.FALSE and item.entry.corrected in known
    ]
    sharper = [(known[item.entry.sharpens], item) for item in items if item.entry.sharpens in known]
    return (
        rows_of([(one, other) for one, other in broken if decided(other, "") in THEOREM]),
        rows_of([(one, other) for one, other in sharper if decided(other, "") is not None]),
    )


@pytest.mark.slow
def test_the_page_lists_what_proofs_replaced_and_which_constants_they_improved() -> None:
    sections = LISTS.read_text().split("\n## ")
    for title, told, rows in zip(
        ("False claims, and what", "Bounds that hold with a smaller"),
        ("claims are proved false by a certificate", "bounds hold with a smaller constant"),
        proved_instead(),
        strict=True,
    ):
        (section,) = (one for one in sections if one.startswith(title))
        assert [line for line in section.splitlines() if line.startswith("| `")] == rows
        assert f"{len(rows)} {told}" in section


def test_the_page_says_how_long_proofs_take() -> None:
    every = every_certificate()
    known = sorted((one["seconds"], one["id"]) for one in every if "seconds" in one)
    unknown = sorted(one["id"] for one in every if "seconds" not in one)
    seconds = [taken for taken, _ in known]
    largest, slowest = known[-1]
    half, most = (seconds[int(share * len(known))] for share in (0.5, 0.9))
    page = " ".join(PAGE.read_text().split())
    assert largest < 600
    assert (
        f"{len(known)} of the {len(every)} certificates of our papers have it: half of these took "
        f"at most {half:.2g} s on one core, nine of ten at most {most:.0f} s, and the largest, "
        f"`{slowest}`, {largest:.0f} s" in page
    )
    named = ", ".join(f"`{name}`" for name in unknown)
    assert not unknown or f"Of {len(unknown)} the time is not known: {named}." in page


@pytest.mark.slow
def test_an_instance_near_a_theorem_is_looked_for_from_other_seeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    claim = claims_by_id()["ood.D2_jensen_corrected"]
    monkeypatch.setattr(ratios, "_SIZES", 1)
    assert float(found(claim)["found"]["ratio"]) > 0.999
    monkeypatch.setattr(ratios, "_ALL", ratios.EFFORT)
    monkeypatch.setattr(ratios, "_SEEDS", ())  # mutation
    assert 0.9 < float(found(claim)["found"]["ratio"]) < 0.99


def test_the_instance_that_a_paper_keeps_is_known_to_the_next_search(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (item,) = find_claims(["affpcl.d2_A"])
    (one,) = found_before(item)
    kept_one = next(one for one in every_certificate() if one["id"] == item.id)
    assert one == kept_one["found"]["instance"]
    (without,) = find_claims(["affpcl.bias_identity"])
    assert found_before(without) == []
    damaged = tmp_path / kept.FILE
    monkeypatch.setattr(report_kept, "_file", lambda origin, name: damaged)
    for text in ("{", "[]", "3", '{"certificates": [3]}', f'{{"id": "{item.id}"}}'):
        damaged.write_text(text)
        assert found_before(item) == []
    damaged.unlink()
    assert found_before(item) == []


@pytest.mark.slow
def test_the_sizes_of_the_instance_are_the_smallest_at_which_the_constant_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A larger ratio at larger sizes says less; and 100/101 in digits would be no 1 %."""
    claim = claims_by_id()["affpcl.ex7"]
    near = found(claim)["found"]
    assert (near["ratio"], near["sizes"]) == ("100/101", {"S": 1, "d": 1})
    one = {"kind": "quadratic", "excess": "0", "found": near}
    assert kept.enclosed({"certificates": [one]}) == 1
    rounded = {**near, "ratio": ratios.rounded(Fraction(100, 101), ROUND_FLOOR)}
    assert kept.enclosed({"certificates": [{**one, "found": rounded}]}) == 0  # mutation
    monkeypatch.setattr(ratios, "_KNOWN", ratios._NEAR)  # mutation
    assert found(claim)["found"]["sizes"] != {"S": 1, "d": 1}


def test_the_readme_adds_up_what_is_kept() -> None:
    every = [kept.read(folder) for folder in KEPT.values()]
    sums = {
        name: [sum(kept.counts(whole)[name][k] for whole in every) for k in (0, 1)]
        for name in ("false", "identities")
    }
    (proved, false), (true, identities) = sums["false"], sums["identities"]
    bounds = sum(map(kept.enclosed, every))
    pages = [(folder / "verdicts.md").read_text() for folder in KEPT.values()]
    number = {kind: sum(page.count(f"| {kind} |") for page in pages) for kind in Evidence}
    theorems = (Evidence.ALL, Evidence.ASSUMED, Evidence.STEP)
    alone, assumed, steps = (number[kind] for kind in theorems)
    some = sum(
        "every_branch" in one and of_certificate(one) != Evidence.MET for one in every_certificate()
    )
    readme = " ".join(Path("README.md").read_text().split())
    for said in (
        f"of {false} that are false at an instance {proved} are proved false.",
        f"of {identities} {true} are proved. {some} of these are proved for some of their sizes, "
        f"{number[Evidence.WHOLE]} for the whole numbers that were drawn, and "
        f"{number[Evidence.TIES]} but for instances at which numbers that they compare are equal. "
        f"{number[Evidence.MET]} more hold on those branches of their formulas that random points "
        "met.",
        f"the best constant of {bounds} is known to 1 %. {alone + assumed + steps} have a proof "
        f"for all dimensions ([which](docs/certificates-results.md)): {alone} without an "
        f"assumption, {assumed} under assumptions that it lists, and {steps} from statements that "
        "are not proved so themselves.",
    ):
        assert said in readme, said
    assert (
        f"{alone} of the {alone + assumed + steps} assume nothing, {assumed} are proved under "
        f"assumptions and {steps} from premises."
    ) in " ".join(PAGE.read_text().split())


def test_some_certificates_are_verified() -> None:
    """The shortest one of each kind of a paper; all of them in the slow tests."""
    by_kind: dict[str, dict[str, Any]] = {}
    for one in sorted(kept.read(KEPT["firm"])["certificates"], key=lambda one: -len(str(one))):
        by_kind[one["kind"]] = one
    assert len(by_kind) == 4
    for one in by_kind.values():
        assert verify(one)


#: Every certificate by its claim's id, which no other one has. Each is a test of its own, as some
#: take a minute and most a moment: so parts of the tests and workers share them.
CERTIFICATES = dict(sorted((one["id"], one) for one in every_certificate()))


def test_every_certificate_is_of_another_claim() -> None:
    assert len(CERTIFICATES) == len(every_certificate()) > 480


@pytest.mark.slow
@pytest.mark.parametrize("name", CERTIFICATES)
def test_every_certificate_is_verified(name: str) -> None:
    assert verify(CERTIFICATES[name])


def test_an_audit_says_what_a_current_certificate_proves(monkeypatch: pytest.MonkeyPatch) -> None:
    (item,) = find_claims(["fslora.loss_bias"])
    assert proof(item) == "proved false by exact rationals"
    (identity,) = find_claims(["fslora.unbiased"])
    assert proof(identity) == (
        "proved at sizes: all of its space (N 1-2, s 1-2, m 1-2, n 1-2, r 1-3), "
        "for every whole number k, but for a chance below 2^-100"
    )
    (inequality,) = find_claims(["firm.lemma4_corrected"])
    assert proof(inequality) == ""
    monkeypatch.setattr(certified, "revision", lambda origin: "another revision")
    assert proof(item) == ""


#: A statement for each kind of evidence that a certificate gives.
KINDS = {
    "fslora.loss_bias": Evidence.FALSE,
    "firm.eq15": Evidence.ALL,
    "firm.lemma1": Evidence.ASSUMED,
    "affpcl.corE1": Evidence.STEP,
    "fslora.unbiased": Evidence.SIZES,
    "firm.batch_needed": Evidence.SIZES,
    "affpcl.never_worse_gain": Evidence.TIES,
    "ood.alg_1_corrected": Evidence.WHOLE,
    "affpcl.ex4": Evidence.MET,
    "firm.lemma10_corrected": Evidence.FACTOR,
    "firm.eq52_sharper": Evidence.FACTOR,
}


@pytest.mark.parametrize("name", KINDS)
def test_every_page_has_the_same_word_for_the_evidence(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (item,), word = find_claims([name]), KINDS[name]
    folder = KEPT[item.entry.paper]
    verdicts, pages = (folder / "verdicts.md").read_text(), folder.resolve()
    (row,) = [line for line in verdicts.splitlines() if line.startswith(f"| `{name}` |")]
    assert row.split(" | ")[3] == word
    monkeypatch.chdir(tmp_path)  # the word does not depend on where one asks
    assert decided(item, "searched") == word
    assert proof(item).startswith(word)
    show_claim(item, Records(tmp_path, writable=False), None)
    told = [
        proof(item),
        *(f"assumed: {one}" for one in report_kept.assumes(item)),
        f"the proof: ratecheck certify {name}",
        "as the file says, and not checked anew: ratecheck certify --check",
        str(pages / kept.FILE),
    ]
    assert " ".join(told) in " ".join(capsys.readouterr().out.split())
    assert f"| {word} | {MEANING[word]} |" in (pages / "findings.md").read_text()
    assert re.search(rf"What decided them: [^;]*\d+ {word}", (pages / "authors.md").read_text())
    monkeypatch.setattr(certified, "revision", lambda origin: "another revision")
    assert decided(item, "searched, as ever") == "searched"


@pytest.mark.parametrize(
    ("assumes", "excess", "premise", "word"),
    [
        ([], "0", None, Evidence.ALL),
        (["1. f is convex"], "0", None, Evidence.ASSUMED),
        (["1. mine.lemma"], "0", Evidence.ALL, Evidence.ASSUMED),
        (["1. mine.lemma"], "0", Evidence.ASSUMED, Evidence.ASSUMED),
        (["1. mine.lemma", "2. f is convex"], "0", Evidence.ALL, Evidence.ASSUMED),
        (["1. mine.lemma"], "0", Evidence.MET, Evidence.STEP),
        (["1. mine.lemma"], "0", Evidence.FACTOR, Evidence.STEP),
        (["1. mine.lemma"], "0", None, Evidence.STEP),
        ([], "1/1000000", None, Evidence.FACTOR),
        (["1. mine.lemma"], "1/1000000", None, Evidence.FACTOR),
    ],
)
def test_the_word_for_a_theorem_is_the_weakest_that_is_true_of_it(
    assumes: list[str], excess: str, premise: Evidence | None, word: Evidence
) -> None:
    theorem = {"assumes": dict.fromkeys(assumes, "gap >= 0")}
    one = {"kind": "quadratic", "id": "mine.step", "excess": excess, "theorem": theorem}
    known = {"mine.lemma": premise} if "1. mine.lemma" in assumes else {}
    assert of_certificate(one, known) == word
    said = in_words({**one, "arithmetic": "exact rationals"}, known)
    assert said.startswith(word)
    assert "for all dimensions" in said


def test_a_premise_that_is_not_proved_is_named() -> None:
    (item,) = find_claims(["affpcl.corE1"])
    assert "; affpcl.e2 is only proved from premises;" in proof(item)
    assert "affpcl.e1 is" not in proof(item)  # which has a theorem
    assert "from 3 assumptions (1 that is no claim) that 12 or more instances meet" in proof(item)
    (premise,) = find_claims(["affpcl.e2"])
    assert "; affpcl.e2_H1 is only proved at sizes; " in proof(premise)


def test_a_new_certificate_is_on_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paper = tmp_path / "mine" / "results"
    shutil.copytree(KEPT["fslora"], paper)
    shutil.copy(KEPT["fslora"].parent / AUTHORS, paper.parent)
    monkeypatch.setattr(certified, "folder_of", lambda name: paper)
    items = find_claims(["fslora"])
    renew(items[:1], paper)
    words = "fslora.unbiased` | FSLoRA, Section 3.1 | holds | proved at sizes |"
    before = {name: (paper / name).read_text() for name in ("verdicts.md", "findings.md", AUTHORS)}
    whole = kept.read(paper)
    fewer = [one for one in whole["certificates"] if one["id"] != "fslora.unbiased"]
    (paper / kept.FILE).write_text(kept.text({**whole, "certificates": fewer}))
    renew(items[:1], paper)
    after = {name: (paper / name).read_text() for name in before}
    assert [name for name in before if before[name] == after[name]] == []
    assert (words in before["verdicts.md"], words in after["verdicts.md"]) == (True, False)


def test_the_documentation_explains_every_word() -> None:
    page = PAGE.read_text()
    table = page.partition("| word | what it means |\n|---|---|\n")[2].partition("\n\n")[0]
    assert table.splitlines() == [f"| {kind} | {meaning} |" for kind, meaning in MEANING.items()]


USERS = '''
import numpy as np

import ratecheck as rc

PAPER = rc.Paper("mine", "my paper")


@PAPER.identity("cube", ref="Lemma 1", on={"x": rc.reals()})
def cube(x):
    """(1 + x)^3 = 1 + 3 x + 3 x^2 + x^3."""
    return (1 + x) ** 3, 1 + 3 * x + 3 * x**2 + x**3


@PAPER.identity("larger", ref="Lemma 2", on={"x": rc.reals(), "y": rc.reals()})
def larger(x, y):
    """max(x, y) = (x + y + ((x - y)^2)^(1/2)) / 2, as sin(x) <= 5, which no rule says."""
    return (y if y > x or np.sin(x) > 5 else x), (x + y + ((x - y) ** 2) ** 0.5) / 2


@PAPER.upper("mean", ref="Lemma 3", on={"x": rc.interval(), "y": rc.interval()})
def mean(x, y):
    """(x + y) / 2 <= x + y."""
    return (x + y) / 2, x + y
'''


@pytest.mark.slow
def test_certificates_of_a_users_claims_are_found_where_certify_left_them(
    ratecheck: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(USERS)

    def evidence() -> list[str]:
        told = json.loads(ratecheck("audit", "mine.py", "--show", "--json").out)
        page = ratecheck("audit", "mine.py").out
        words = [one["evidence"] for one in told]
        assert all(word in page for word in words)
        assert [one["result"]["evidence"] for one in told] == words
        assert [
            one["evidence"] for one in json.loads(ratecheck("audit", "mine.py", "--json").out)
        ] == words
        return words

    assert ratecheck("audit", "mine.py").code == 0
    assert evidence() == ["searched", "searched", "searched"]
    assert ratecheck("certify", "mine.py").code == 0
    assert evidence() == ["proved at sizes", "holds on branches met", "searched"]
    assert ratecheck("certify", "mine.py::mine.mean", "--constant").code == 0
    assert evidence() == ["proved at sizes", "holds on branches met", "proved at sizes"]
    page = " ".join(ratecheck("audit", "mine.py").out.split())
    assert (
        "Certificates: as the file says, and not checked anew: ratecheck certify --check "
        "results/certificates/mine.cube.json results/certificates/mine.larger.json "
        "results/certificates/mine.mean.constant.json" in page
    )
    shown = " ".join(ratecheck("show", "mine.py::mine.larger").out.split())
    assert (
        "holds on branches met: all of its space (one size), but for a chance below 2^-100" in shown
    )
    assert "ratecheck certify mine.py::mine.larger" in shown
    assert ratecheck("report").code == 0
    assert (
        "holds on branches met: all of its space (one size)"
        in Path("results/report.html").read_text()
    )
    Path("mine.py").write_text(USERS.replace("3 * x**2", "2 * x**2 + x**2"))
    assert ratecheck("audit", "mine.py").code == 0
    assert evidence() == ["searched", "searched", "searched"]


@pytest.mark.parametrize("kind", ["identity", "constant", "quadratic", "counterexample"])
def test_a_damaged_certificate_of_a_users_claim_is_none(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = next(one for one in kept.read(KEPT["firm"])["certificates"] if one["kind"] == kind)
    monkeypatch.setattr(kept, "revision", lambda origin: whole["revision"])
    path = tmp_path / kept.file_of(whole["id"])

    def found(content: Any) -> Any:
        path.write_text(json.dumps(content))
        return next(iter(kept.left_by_certify(tmp_path, "mine.py", whole["id"])), None)

    assert found(whole) == whole
    used = 0
    for key in whole.keys() - {"id", "revision"}:
        less = {name: value for name, value in whole.items() if name != key}
        for content in (less, {**less, key: 5}, [less]):
            left = found(content)
            used += left is None
            if left is not None:  # what is shown of it needs no such part
                assert kept.in_words(left)
                assert report_kept.assumptions(left) is not None
    assert used > len(whole)


FALSE_CLAIM = '''
import ratecheck as rc

PAPER = rc.Paper("mine", "my paper")


@PAPER.upper("half", ref="Lemma 1", on={"x": rc.interval()})
def half(x):
    """x <= x / 2."""
    return x, x / 2
'''


def test_certificates_that_contradict_each_other_or_a_counterexample_are_said(
    ratecheck: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (planted,) = (c for c in every_certificate() if c["id"] == "firm.eq15")
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(FALSE_CLAIM)
    assert ratecheck("audit", "mine.py").code == 1  # it was expected to hold
    before = " ".join(ratecheck("show", "mine.py::mine.half").out.split())
    assert "confirmed at 40 and 80 digits" in before
    assert "CONTRADICTORY" not in before  # and so it is with a certificate that says the same
    assert ratecheck("certify", "mine.py").code == 0
    shown = " ".join(ratecheck("show", "mine.py::mine.half").out.split())
    assert "proved false by exact rationals" in shown
    assert "CONTRADICTORY" not in shown
    proved = Path("results/certificates/mine.half.json")
    one = json.loads(proved.read_text())
    theorem = {**planted, "id": "mine.half", "revision": one["revision"], "file": one["file"]}
    theorem["agrees"] = {"of": 1, "sizes": [{}]}
    proved.write_text(json.dumps(theorem))
    said = (
        "CONTRADICTORY: a certificate says proved for all dimensions, and a counterexample "
        "confirmed: one is wrong"
    )
    for command in (("show", "mine.py::mine.half"), ("audit", "mine.py")):
        assert said in " ".join(ratecheck(*command).out.split())
    (told,) = json.loads(ratecheck("show", "mine.py::mine.half", "--json").out)
    assert (told["contradiction"], told["evidence"]) == (said, "confirmed")
    Path("results/certificates/mine.half.constant.json").write_text(json.dumps(one))
    (told,) = json.loads(ratecheck("show", "mine.py::mine.half", "--json").out)
    assert told["contradiction"].endswith("and a certificate proved false: one is wrong")
    assert told["evidence"] == "proved false"
    monkeypatch.setattr(certified, "PROVED", ())  # mutation
    assert "CONTRADICTORY" not in ratecheck("show", "mine.py::mine.half").out


def test_two_theorems_that_assume_each_other_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def theorem(name: str, premise: str) -> dict[str, Any]:
        stated = {"assumes": {f"1. {premise}": "gap >= 0"}}
        return {"kind": "quadratic", "id": name, "excess": "0", "theorem": stated}

    proofs = {"mine.a": theorem("mine.a", "mine.b"), "mine.b": theorem("mine.b", "mine.a")}
    monkeypatch.setattr(certified, "every", lambda origin, name: [proofs[name]])
    entry = replace(find_claims(["fslora.unbiased"])[0].entry, id="mine.a")
    assert decided(Item(entry, "mine.py", ""), "searched") == Evidence.STEP

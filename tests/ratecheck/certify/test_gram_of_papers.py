"""The papers' theorems: each is its claim, and is proved; a bound below it is not."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from ratecheck import gram
from ratecheck._certify.gram import correspondence
from ratecheck._certify.gram.declared import Theorem, disagreement, theorem_of
from ratecheck._claims.claim import Claim
from ratecheck._discover.catalogue import Item, find_claims, module
from ratecheck._discover.papers import installed, modules
from ratecheck._verdicts.certificates import read
from ratecheck._verdicts.evidence import assumed

#: The lists of what is proved.
LISTS = Path("docs/certificates-results.md")
ITEMS = [(item, stated) for item in find_claims([]) if (stated := theorem_of(item))]
#: Some quick ones; all of them in the slow tests.
QUICK = ("firm.lemma1", "psl.eq_B9_linear")

#: CPU seconds for a comparison of functions that takes 13.
_PATIENCE = 120.0
#: Theorems with a bound that another one halves or lowers.
LOOSE = {
    "firm.eq41_42": "it is twice firm.eq41_sharper",
    "affpcl.corF3_lyap": "affpcl.corF3_lyap_sharper has less of one kind of noise",
}
#: Theorems that the comparison of functions does not show to be their claims, by their papers: it
#: has over 256 cases, or needs what the checker has no rule for, such as which norm is the largest.
OPEN = {
    "affpcl": (
        "corF1 corF1_sharper corF2 corF2_sharper corF3_lyap corF3_lyap_sharper "
        "corG2_first_corrected corG2_first_sharper e2_sharper f2_sharper f4_sharper c6_lambda "
        "c6_nu_corrected ex6_corrected ex7 ex7_sharp d2_A d2_A_sharper d2_Phi_corrected d1g "
        "d1h ex2_monotone"
    ),
    "firm": "law_without_beta law_true_large_beta",
    "ood": "lemma_5_corrected lemma_4_recursion",
    "psl": (
        "eq_B9_linear eq_B10_corrected lemma_5_coverage B2_pessimism_corrected "
        "B2_zeta_step_corrected eq_B3_corrected theorem_4_2_corrected def_A3 eq_B11_corrected "
        "lemma_7_corrected lemma_4 corollary_4_1_corrected chain_value theorem_B3_corrected "
        "chain_radius eq_B17_corrected theorem_4_1_corrected chain_dist"
    ),
}
EACH = [
    pytest.param(
        item, stated, id=item.id, marks=() if item.id.startswith(QUICK) else pytest.mark.slow
    )
    for item, stated in ITEMS
]


def test_every_paper_has_theorems() -> None:
    assert {item.entry.paper for item, _ in ITEMS} == set(installed())
    assert len(ITEMS) >= 15
    for package in installed().values():
        for name in modules(package, "proofs").values():
            named = {one.id for one in vars(module(name)).values() if isinstance(one, Theorem)}
            assert named <= {item.id for item, _ in ITEMS}


@pytest.mark.parametrize(("item", "stated"), EACH)
def test_a_theorem_is_its_claim_and_proved(item: Item, stated: Theorem) -> None:
    assert isinstance(item.entry, Claim)
    assert stated.text
    assert disagreement(stated, item.entry, total=40, seed="test") == ""
    proof = gram.prove(stated.problem)
    assert proof.excess == 0
    proof.check()


@pytest.mark.parametrize(("item", "stated"), EACH)
def test_a_smaller_bound_is_not_the_claim(item: Item, stated: Theorem) -> None:
    """A comparison that accepted another bound would accept any theorem."""

    def smaller(p: gram.Problem) -> None:
        stated.state(p)
        assert p.conclusion is not None
        bound = p.conclusion.bound
        p.show(p.conclusion.measured - bound / 10 <= bound * Fraction(8, 10))

    assert isinstance(item.entry, Claim)
    changed = Theorem(stated.id, smaller, stated.at, stated.power, stated.scale)
    assert "must be that of the claim" in disagreement(changed, item.entry)


@pytest.mark.parametrize(("item", "stated"), EACH)
def test_a_theorem_is_its_claim_as_a_function_at_the_smallest_sizes(
    item: Item, stated: Theorem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(correspondence, "_SIZES", 1)
    monkeypatch.setattr(correspondence, "_EACH", _PATIENCE)
    assert isinstance(item.entry, Claim)
    found = correspondence.known(stated, item.entry, _PATIENCE)
    paper, name = item.id.split(".")
    assert bool(found.sizes) == (name not in OPEN.get(paper, "").split()), found.left


def test_the_docs_say_of_how_many_that_is_shown() -> None:
    missing = sum(len(names.split()) for names in OPEN.values())
    text = " ".join(Path("docs/certificates.md").read_text().split())
    assert f"{len(ITEMS) - missing} of the {len(ITEMS)} are their claims on every branch" in text
    assert f"The other {missing} have over 256 cases there" in text


def _tightened(stated: Theorem) -> Callable[[], gram.Problem]:
    """The same with less on the larger side: by a tenth of the sizes of its terms."""

    def problem() -> gram.Problem:
        p = stated.problem
        assert p.conclusion is not None
        difference = p.conclusion.slack
        size = gram.Form({key: abs(c) for key, c in difference.terms.items() if _square(key[1])})
        p.show(p.conclusion.measured + size / 10 <= p.conclusion.bound)
        return p

    return problem


def _square(atom: tuple[str, ...]) -> bool:
    return not atom or (len(atom) == 2 and atom[0] == atom[1])


@pytest.mark.parametrize(("item", "stated"), [each for each in EACH if str(each.id) not in LOOSE])
def test_a_stronger_statement_has_no_proof(item: Item, stated: Theorem) -> None:
    with pytest.raises(gram.Unproved):
        gram.prove(_tightened(stated)(), excess=Fraction(0))


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOSE)
def test_what_is_called_loose_is(name: str) -> None:
    (stated,) = [stated for item, stated in ITEMS if item.id == name]
    proof = gram.prove(_tightened(stated)())
    proof.check()
    assert proof.excess == 0


def test_the_page_names_them() -> None:
    page = LISTS.read_text()
    packages = {paper: package.split(".")[-1] for paper, package in installed().items()}
    for paper, folder in packages.items():
        (row,) = re.findall(
            rf"^\*\*{folder}\*\* \((\d+)\): (.*?)\.$", page, re.MULTILINE | re.DOTALL
        )
        names = {item.id.partition(".")[2] for item, _ in ITEMS if item.entry.paper == paper}
        assert (int(row[0]), set(re.findall(r"`(\w+)`", row[1]))) == (len(names), names)
    readme = " ".join(Path("README.md").read_text().split())
    assert f" {len(ITEMS)} have a proof for all dimensions" in readme


def test_the_page_lists_what_is_assumed_without_such_a_proof() -> None:
    words: dict[str, str] = {}
    by: dict[str, list[str]] = {}
    proved: set[str] = set()
    for package in installed().values():
        folder = Path(*package.split("."), "results")
        for row in (folder / "verdicts.md").read_text().splitlines():
            if claim := re.match(r"\| `(\w+\.\w+)` \|", row):
                words.setdefault(claim[1], row.split(" | ")[3])
        for one in read(folder)["certificates"]:
            if one["kind"] == "quadratic":
                proved.add(one["id"])
                for name in assumed(one):
                    by.setdefault(name, []).append(one["id"])
    rows = [
        f"| `{name}` | {words[name]} | {', '.join(f'`{one}`' for one in by[name])} |"
        for name in sorted(by.keys() - proved)
    ]
    table = LISTS.read_text().partition("| premise | ")[2].partition("\n\n")[0]
    assert table.splitlines()[2:] == rows != []


@pytest.mark.parametrize("paper", installed())
def test_papers_keep_their_certificates(paper: str) -> None:
    folder = Path(*installed()[paper].split("."), "results")
    certificates = {one["id"]: one["kind"] for one in read(folder)["certificates"]}
    names = [item.id for item, _ in ITEMS if item.entry.paper == paper]
    assert {certificates.get(name) for name in names} == {"quadratic"}

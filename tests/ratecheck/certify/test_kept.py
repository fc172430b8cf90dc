"""The certificates that papers keep are of their counterexamples, and pages say the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ratecheck._certify.check import check_file, verify
from ratecheck._discover import papers
from ratecheck._discover.catalogue import find_claims
from ratecheck._report import kept as report_kept
from ratecheck._report.kept import proof
from ratecheck._verdicts import certificates as kept

KEPT = {
    paper: Path(*package.split(".")) / "results" for paper, package in papers.installed().items()
}


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
    page = Path("docs/certificates.md").read_text()
    for folder in KEPT.values():
        whole = kept.read(folder)
        false, true = kept.counts(whole).values()
        proved = f"{false[0]} of {false[1]} | {true[0]} of {true[1]} | {kept.enclosed(whole)}"
        row = f"| {folder.parent.name} | {proved} |\n"
        assert row in page, row


@pytest.mark.parametrize("paper", KEPT)
def test_some_certificates_are_verified(paper: str) -> None:
    """The first, a middle and the last one; all of them in the slow test."""
    certificates = kept.read(KEPT[paper])["certificates"]
    for one in {0, len(certificates) // 2, len(certificates) - 1}:
        assert verify(certificates[one])


@pytest.mark.slow
@pytest.mark.parametrize("paper", KEPT)
def test_all_certificates_are_verified(paper: str) -> None:
    checked = list(check_file(KEPT[paper] / kept.FILE))
    assert [(one.id, one.refused) for one in checked if one.refused] == []
    assert len(checked) == len(kept.read(KEPT[paper])["certificates"])


def test_an_audit_says_what_a_current_certificate_proves(monkeypatch: pytest.MonkeyPatch) -> None:
    (item,) = find_claims(["fslora.loss_bias"])
    assert proof(item) == "proved false by exact rationals"
    (identity,) = find_claims(["fslora.unbiased"])
    assert proof(identity) == (
        "proved at every size of its space (N 1-2, s 1-2, m 1-2, n 1-2, r 1-3) with k as drawn, "
        "but for a chance below 2^-100"
    )
    (inequality,) = find_claims(["firm.lemma4_corrected"])
    assert proof(inequality) == ""
    monkeypatch.setattr(report_kept, "meaning_of_module", lambda origin: "another revision")
    assert proof(item) == ""

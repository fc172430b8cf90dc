"""A certificate that proves a claim false, beside a search that found no counterexample."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ratecheck as rc
from ratecheck._conformance import claims as conformance
from ratecheck._discover.catalogue import find_claims
from ratecheck._report import findings
from ratecheck._verdicts import certified
from ratecheck._verdicts.testing import origin_of

#: False at one number, which no search meets; and the same with the right bound.
CLAIMS = '''
"""Bounds."""

import numpy as np

import ratecheck as rc

PAPER = rc.Paper("mine", "my paper")


@PAPER.upper("point", ref="Lemma 1", on={"x": rc.interval()})
def point(x):
    """1 everywhere."""
    return 1 + np.where(x * 10 == 3, 1, 0), 1


@PAPER.upper("square", ref="Lemma 2", on={"x": rc.interval()})
def square(x):
    """x^2 <= x."""
    return x**2, x
'''
#: Without the plugins that are installed.
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(Path(__file__).parents[3]),
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}
SAID = "CONTRADICTORY: a certificate says proved false, and the verdict is holds: one is wrong"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the claims, without a certificate."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(CLAIMS)
    return tmp_path


def write_certificate(folder: Path) -> Path:
    """Prove the first claim false, and leave the certificate where audits look for it."""
    (item,) = find_claims([f"{folder / 'mine.py'}::mine.point"])
    certificate = rc.certify(item.entry, instance={"x": 0.3}).certificate
    assert certificate is not None
    path = folder / "results" / "certificates" / "mine.point.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(certificate))
    return path


def test_a_verdict_that_a_certificate_contradicts_is_not_as_expected(
    ratecheck: Callable[..., Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def audit() -> tuple[int, str, list[dict[str, Any]]]:
        done = ratecheck("audit", "mine.py")
        rows = json.loads(ratecheck("audit", "mine.py", "--json").out)
        return done.code, " ".join(done.out.split()), rows

    code, page, rows = audit()
    assert (code, [row["ok"] for row in rows]) == (0, [True, True])
    assert "2 claims: 2 hold; all as expected" in page
    assert [row["contradiction"] for row in rows] == ["", ""]
    path = write_certificate(folder)
    code, page, rows = audit()
    assert (code, [row["ok"] for row in rows]) == (1, [False, True])
    assert "mine.point holds CONTRADICTORY" in page
    assert SAID in page
    assert "2 claims: 2 hold; not as expected: mine.point" in page
    assert [row["contradiction"] for row in rows] == [SAID, ""]
    with monkeypatch.context() as mutated:
        mutated.setattr(certified, "_TRUE", ())
        assert audit()[0] == 0
    other = {**json.loads(path.read_text()), "revision": "another"}
    path.write_text(json.dumps(other))  # of another state of the file, it says nothing
    assert audit()[0] == 0


@pytest.mark.slow
def test_every_page_says_what_is_contradictory(ratecheck: Callable[..., Any], folder: Path) -> None:
    assert ratecheck("audit", "mine.py").code == 0
    write_certificate(folder)
    assert SAID in " ".join(ratecheck("show", "mine.py::mine.point").out.split())
    assert ratecheck("report").code == 0
    assert SAID in Path("results/report.html").read_text()
    assert ratecheck("audit", "mine.py", "--write", "kept").code == 1
    (row,) = [r for r in Path("kept/verdicts.md").read_text().splitlines() if "`mine.point`" in r]
    assert "| holds | CONTRADICTORY |" in row
    assert f"## Not as expected\n\n- `mine.point`: {SAID}." in Path("kept/findings.md").read_text()


@pytest.mark.slow
def test_a_contradiction_counts_where_the_verdict_is_the_expected_one(
    ratecheck: Callable[..., Any], folder: Path
) -> None:
    text = CLAIMS.replace("return x**2, x", "return x, x**2")
    text = text.replace('"square", ref="Lemma 2"', '"square", ref="Lemma 2", expect="violated"')
    (folder / "mine.py").write_text(text)
    assert ratecheck("audit", "mine.py").code == 0
    assert ratecheck("certify", "mine.py::mine.square").code == 0
    assert ratecheck("audit", "mine.py").code == 0  # both say that it is false
    path = folder / "results/certificates/mine.square.json"
    proof = json.loads(path.read_text())
    right = {"kind": "constant", "sizes": {}, "ratio": ["0.9", "1"], "boxes": 1}
    common = {name: proof[name] for name in ("format", "id", "file", "revision")}
    path.write_text(json.dumps({**common, **right}))
    done = ratecheck("audit", "mine.py")
    assert done.code == 1
    assert "a counterexample confirmed: one is wrong" in " ".join(done.out.split())
    assert "not as expected: mine.square" in done.out
    (item,) = find_claims([f"{folder / 'mine.py'}::mine.square"])
    with pytest.raises(AssertionError, match=r"is violated.*\n.*CONTRADICTORY"):
        rc.check_claim(item.entry)


@pytest.mark.slow
def test_a_test_of_a_claim_fails_where_a_certificate_contradicts_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_pytest() -> str:
        command = [sys.executable, "-m", "pytest", "-p", "ratecheck.pytest_plugin", "mine.py"]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        return done.stdout

    assert "2 passed" in run_pytest()
    write_certificate(folder)
    said = run_pytest()  # what passed before is judged again
    assert "1 failed, 1 passed" in said
    assert f"mine.point (my paper, Lemma 1) holds: 1 everywhere.\n{SAID}\n" in said
    (item,) = find_claims([f"{folder / 'mine.py'}::mine.point"])
    for check in (rc.assert_holds, rc.check_claim):
        with pytest.raises(AssertionError, match=SAID):
            check(item.entry)
    monkeypatch.setattr(conformance, "check_certificates", lambda *of: None)  # mutation
    rc.check_claim(item.entry)


def test_a_claim_of_a_paper_has_the_certificates_of_its_module() -> None:
    for name in ("affpcl.d1f_sec12", "firm.eq15"):
        (item,) = find_claims([name])
        assert origin_of(item.entry) == item.origin
        assert certified.every(item.origin, name)


def test_findings_of_what_is_not_contradicted_name_nothing() -> None:
    record = {"id": "mine.a", "verdict": "holds", "expected": "holds", "reason": ""}
    assert findings._surprises([{**record, "contradiction": ""}]) == []
    assert SAID in findings._surprises([{**record, "contradiction": SAID}])[1]

"""Claims and experiments by what their papers call them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ratecheck as rc
from linsys import InputError
from ratecheck._commands import listing
from ratecheck._discover import papers, registry
from ratecheck._discover.catalogue import find_claims
from ratecheck._discover.references import chosen, is_reference, joined, names, split_paper

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("Lemma D.1 (f)", "AffPCL, Lemma D.1 (f)"),
        ("lemma d.1(F)", "AffPCL, Lemma D.1 (f), sharpened"),
        ("LemmaD.1 (f)", "Lemma D.1 (f)"),
        ("lemmad.1(f)", "AffPCL, Lemma D.1 (f)"),
        ("Lemma D.1", "Lemma D.1 (f)"),
        ("Lemmas 3 and 5", "Lemmas 3 to 5, Theorem 1"),
        ("Lemma 4", "Lemmas 3 to 5, Theorem 1"),
        ("Figure 5", "Figures 4, 5 and 6, Section 5.3"),
        ("fig. 4a", "Figures 4, 5 and 6, Section 5.3"),
        ("Figure 4", "Figures 3, 4a and 7"),
        ("Table 5.2", "Tables 5.1 and 5.2, Section 5.2"),
        ("(33)", "Theorem 1, equations (32) to (35)"),
        ("eq. (24)", "Theorem 1, Lemma 9, (24), (26)"),
        ("equation 24", "Lemma 9, (24)"),
        ("Section 5", "Figure 2, Section 5.2"),
        ("Appendix D", "P-ShareLoRA, end of Appendix D.2"),
        ("Corollary F.3", "Corollaries E.2 and F.3"),
        ("Theorem 1", "OOD-PL, Theorem 1's condition on D"),
        ("control  VARIATES", "AffPCL, Section 3, control variates"),
        ("Lemma D.1 (f), sharpened", "AffPCL, Lemma D.1 (f), sharpened"),
    ],
)
def test_a_text_names_what_is_called_so(text: str, source: str) -> None:
    assert names(text, source)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("Lemma D.1", "Lemma D.10"),
        ("Lemma 1", "Lemma D.1"),
        ("Lemma D.1 (f)", "Lemma D.1"),
        ("Lemma D.1 (f)", "Lemma D.1 (g)"),
        ("Lemma 1", "Theorem 1, Lemma 2"),
        ("Figure 5", "Figure 1, Section 5"),
        ("Lemma 24", "Lemma 9, (24)"),
        ("Lemma 6", "Lemmas 3 to 5, Theorem 6"),
        ("Section 5.2", "Section 5"),
        ("Section 5", "Section 15.2"),
        ("Theorem 1", "Theorem 1.2"),
        ("variate", "control variates"),
    ],
)
def test_and_nothing_else(text: str, source: str) -> None:
    assert not names(text, source)


def test_a_paper_before_it() -> None:
    assert split_paper("affpcl Lemma D.1 (f)") == ("affpcl", "Lemma D.1 (f)")
    assert split_paper("AffPCL,  Lemma D.1") == ("affpcl", "Lemma D.1")
    assert split_paper("P-ShareLoRA Lemma 5") == split_paper("psl Lemma 5") == ("psl", "Lemma 5")
    assert split_paper("Lemma 5") == (None, "Lemma 5")
    assert split_paper("mine Lemma 5") == (None, "mine Lemma 5")
    assert split_paper("mine Lemma 5", {"mine": ""}) == ("mine", "Lemma 5")
    assert split_paper("Heavy ball Lemma 1 (b)", {"hb": "Heavy ball"}) == ("hb", "Lemma 1 (b)")
    assert split_paper("Lemma 5 of P-ShareLoRA", {"psl": "P-ShareLoRA"}) == ("psl", "Lemma 5")


@pytest.mark.parametrize(
    ("texts", "one"),
    [
        (["affpcl", "Lemma D.1", "firm", "firm.eq17"], ["affpcl Lemma D.1", "firm", "firm.eq17"]),
        (["affpcl", "Lemma", "D.1", "(f)", "mine.py"], ["affpcl Lemma D.1 (f)", "mine.py"]),
        (["Lemma", "2", "Appendix", "D", "d2"], ["Lemma 2", "Appendix D", "d2"]),
        (["equation", "(23)", "firm", "Theorem 1"], ["equation (23)", "firm Theorem 1"]),
        (["mine", "Lemma", "2", "yours", "Lemma 2"], ["mine Lemma 2", "yours", "Lemma 2"]),
        (["affpcl/fig1", "fslora", "fslora/fig5"], ["affpcl/fig1", "fslora", "fslora/fig5"]),
    ],
)
def test_words_that_a_shell_has_taken_apart_are_one(texts: list[str], one: list[str]) -> None:
    assert joined(texts, ["mine"]) == one


def test_ids_patterns_and_paths_are_no_references() -> None:
    others = ["affpcl", "affpcl/appendix_d", "affpcl.d1*", "affpcl.d1f", "d2_Phi", "a/b.py", "*"]
    assert [other for other in others if is_reference(other)] == []


def test_one_that_is_called_just_so_comes_before_its_parts_and_variants() -> None:
    sources = {
        "p.a": "P, Lemma 1",
        "p.b": "P, Lemma 1, corrected",
        "p.c": "P, proof of Lemma 1",
        "p.d": "P, Lemma 2",
    }
    assert chosen("lemma 1", sources) == ["p.a"]
    assert chosen("lemma 1", {**sources, "q.a": "Q, Lemma 1 (b)"}) == ["p.a", "q.a", "p.b", "p.c"]
    assert chosen("lemma 1", {**sources, "p.e": "P, Lemma 1"}) == ["p.a", "p.e", "p.b", "p.c"]
    named = [item.id for item in find_claims(["affpcl Theorem 1"])]
    assert (
        named[0] == "affpcl.thm1_main"
    )  # "Theorem 1 (Section 5)", which is not the first in its file
    assert len(named) > 1


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("affpcl Lemma D.1 (f)", "affpcl.d1f"),
        ("AffPCL, Lemma D.1 (f), sharpened", "affpcl.d1f_sharper"),
        ("firm (33)", "firm.eq33"),
    ],
)
def test_claims_are_found_by_it(text: str, name: str) -> None:
    assert [item.id for item in find_claims([text])] == [name]
    paper, _, rest = text.partition(" ")
    if paper in papers.installed():
        assert [item.id for item in find_claims([paper, rest])] == [name]


def test_several_of_one_paper_are_all_meant() -> None:
    named = [item.id for item in find_claims(["psl Theorem 4.1"])]
    assert {"psl.theorem_4_1", "psl.theorem_4_1_corrected"} <= set(named)
    assert all(name.startswith("psl.") for name in named)


def test_several_of_different_papers_are_listed() -> None:
    with pytest.raises(InputError) as raised:
        find_claims(["Lemma 3"])
    assert str(raised.value).startswith("claim must be one; found 'Lemma 3', which names ")
    assert str(raised.value).endswith('ratecheck list "Lemma 3" shows all')
    with pytest.raises(InputError, match=r"did you mean affpcl\.d1f"):
        find_claims(["affpcl.d11f"])
    with pytest.raises(InputError, match=r"claim must be one of .* found 'affpcl Lemma Z\.1'"):
        find_claims(["affpcl Lemma Z.1"])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("fslora/fig5", "fslora/fig4"),
        ("fslora Figure 9", "fslora/fig8"),
        ("affpcl Figure 5", "affpcl/fig5"),
    ],
)
def test_figures_are_found_by_it(text: str, name: str) -> None:
    assert rc.find_experiment(text).id == name
    assert registry.match([text]) == [name]


def test_show_says_all_of_a_claim_and_lists_several(ratecheck: Callable[..., Any]) -> None:
    said = ratecheck("show", "affpcl Lemma D.1 (f)")
    assert said.out.startswith("affpcl.d1f (AffPCL, Lemma D.1 (f); upper)\nFile: ")
    listed = ratecheck("show", "affpcl", "Lemma", "D.1", "--json")
    ids = [row["id"] for row in json.loads(listed.out)]
    assert {"affpcl.d1a", "affpcl.d1f_sharper"} <= set(ids)
    experiment = ratecheck("show", "affpcl Lemma D.5")  # of which there are claims as well
    assert experiment.out.startswith("affpcl/rate_steps: ")
    unknown = ratecheck("show", "affpcl Lemma Z.9")
    assert unknown.code == 2
    assert unknown.err.startswith("ratecheck: experiment must be one of")


def test_an_experiment_s_reference_that_names_several_or_none() -> None:
    several = "which names firm/drift_local_steps, firm/drift_step_size; ratecheck "
    with pytest.raises(InputError, match=several):
        rc.find_experiment("firm Lemma 9")
    assert rc.find_experiment("Figure 5 of FIRM").id == "firm/fig5"  # before bridge/firm_fig5
    with pytest.raises(InputError, match=r"found 'fslora/fig55' \(did you mean fslora/fig"):
        rc.find_experiment("fslora/fig55")
    with pytest.raises(InputError, match="of claims: ratecheck audit ID --show"):
        rc.find_experiment("affpcl.d1f")


def test_what_is_no_id_but_nearly_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "claims.py").touch()
    for find in (lambda name: find_claims([name]), rc.find_experiment):
        with pytest.raises(InputError, match=r"found 'claims' \(did you mean claims\.py\?\)"):
            find("claims")
    with pytest.raises(InputError, match=r"; that of a file is FILE\.py::mine\.mass$"):
        find_claims(["mine.mass"])
    with pytest.raises(InputError) as raised:
        find_claims(["quantum"])
    assert "did you mean" not in str(raised.value)  # nothing is like it


def test_a_user_s_figure_and_claim(
    toys: None, decay: rc.Experiment[Any], ratecheck: Callable[..., Any], tmp_path: Path
) -> None:
    said = ratecheck("show", "toy", *decay.source.split())
    assert said.out.startswith("toy/decay: ")
    path = tmp_path / "mine.py"
    path.write_text(
        "import ratecheck as rc\nP = rc.Paper('mine', 'My paper')\n"
        "@P.upper('a', ref='Lemma 1', on={'x': rc.interval()})\n"
        "def a(x):\n    'x <= 1'\n    return x, 1"
    )
    assert [item.id for item in find_claims([f"{path}::mine Lemma 1"])] == ["mine.a"]


def test_the_list_of_what_is_called_so(ratecheck: Callable[..., Any]) -> None:
    said = ratecheck("list", "firm", "Figure", "5", "--json")
    assert [row["id"] for row in json.loads(said.out)] == ["firm/fig5", "bridge/firm_fig5"]
    ids = [row["id"] for row in listing.called("Lemma D.1", print)]
    assert {"affpcl.d1a", "affpcl.d1j", "fslora.lemma_d1"} <= set(ids)
    assert [row["id"] for row in listing.called("affpcl.d1?", print)] == [
        f"affpcl.d1{letter}" for letter in "abcdefghij"
    ]
    assert len(listing.called("affpcl", print)) > 200
    assert listing.called("affpcl Theorem 1", print)[0]["id"] == "affpcl.thm1_main"
    said = ratecheck("list", "Lemma Z.9")
    assert said.code == 2
    assert "found 'Lemma Z.9'" in said.err


@pytest.mark.slow
def test_the_second_list_imports_no_paper(tmp_path: Path) -> None:
    code = (
        "import sys; from ratecheck._commands.app import app;"
        "app(['list', 'Lemma D.1'], standalone_mode=False);"
        "found = [m for m in sys.modules if m.startswith(('experiments.', 'scipy'))];"
        "print(found, file=sys.stderr)"
    )
    for first in (True, False):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={"XDG_CACHE_HOME": str(tmp_path), "PATH": ""},
        )
        assert (done.stderr == "[]\n") is not first
        assert "affpcl.d1f" in done.stdout


def test_a_broken_figure_of_an_installed_paper_is_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_paper" / "figures").mkdir(parents=True)
    (tmp_path / "broken_paper" / "figures" / "fig1.py").write_text("1/0")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(papers, "installed", lambda group=papers.PAPERS: {"one": "broken_paper"})
    said = r"module broken_paper\.figures\.fig1 of one/fig1 must import without error; found ZeroD"
    with pytest.raises(InputError, match=said):
        registry.find_experiment("one/fig1")
    faults: list[str] = []
    assert registry.of_papers(faults.append) == []
    assert [fault.partition(" must")[0] for fault in faults] == [
        "module broken_paper.figures.fig1 of one/fig1"
    ]

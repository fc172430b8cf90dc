"""Which claims exist, and how they are named, matched and refused."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ratecheck as rc
from linsys import InputError
from ratecheck._discover import papers as papers_module
from ratecheck._discover.catalogue import catalogue, find, find_claims, with_claims
from ratecheck._names import check_name
from ratecheck._verdicts import records

MINE = Path(__file__).parent / "files" / "mine.py"
HEAD = "from ratecheck import Claim, NotChecked, Space, simplex\n"
CLAIM = """
{constant} = Claim(
    id="{id}", source="paper", text="it holds", kind="upper", corrected={corrected},
    space=Space(fields={{"p": simplex("k")}}, sizes={{"k": (1, 2)}}),
    measure=lambda i: (i.p.max(), 1),
)
"""


def a_claim(constant: str, name: str, corrected: str | None = None) -> str:
    return CLAIM.format(constant=constant, id=name, corrected=repr(corrected))


@pytest.fixture
def papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two papers of our own in place of the real ones: a folder to write their modules to."""
    names = ("lemmas", "others")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(papers_module, "installed", lambda: {name: name for name in names})
    for paper in names:
        (tmp_path / paper / "claims").mkdir(parents=True)
        (tmp_path / paper / "claims" / "__init__.py").write_text("")
    modules = {
        "lemmas/appendix_a": a_claim("B", "lemmas.b") + a_claim("A", "lemmas.a") + "C = A\n",
        "lemmas/section_1": a_claim("S1", "lemmas.s1") + a_claim("S2", "lemmas.s2"),
        "lemmas/section_2": "from lemmas.claims.section_1 import S1\n"
        + a_claim("S3", "lemmas.s3", "lemmas.a"),
        "lemmas/rates": 'N = NotChecked(id="lemmas.n", source="p", text="t", note="why")\n',
        "lemmas/_helpers": a_claim("H", "lemmas.h"),
        "others/section_1": a_claim("O", "others.o"),
    }
    for name, content in modules.items():
        path = tmp_path / name.replace("/", "/claims/")
        path.with_suffix(".py").write_text(f'"""Title of {name}.\n\nMore."""\n{HEAD}{content}')
    yield tmp_path
    for name in [n for n in sys.modules if n.partition(".")[0] in names]:
        del sys.modules[name]


def ids(*references: str) -> list[str]:
    return [item.id for item in find_claims(references)]


def test_every_claim_is_listed_once_in_the_order_of_the_paper(papers: Path) -> None:
    first = ["lemmas.s1", "lemmas.s2", "lemmas.s3", "lemmas.b", "lemmas.a", "lemmas.n"]
    assert ids() == [*first, "others.o"]
    assert [item.id for item in catalogue("lemmas")] == first
    assert with_claims() == ["lemmas", "others"]
    item = find_claims(["lemmas.b"])[0]
    assert (item.section, item.place) == ("Title of lemmas/appendix_a", "lemmas/appendix_a")
    assert find(item.origin, "lemmas.b").entry is item.entry


def test_ids_papers_sections_and_patterns(papers: Path) -> None:
    assert ids("others") == ids("others.*") == ["others.o"]
    assert ids("lemmas/appendix_a") == ["lemmas.b", "lemmas.a"]
    assert ids("lemmas/section_*") == ids("lemmas.s?") == ["lemmas.s1", "lemmas.s2", "lemmas.s3"]
    assert ids("lemmas.a", "lemmas.[ab]", "lemmas.a") == ["lemmas.a", "lemmas.b"]
    assert ids("s3", "o") == ["lemmas.s3", "others.o"]
    with pytest.raises(InputError, match=r"pattern must match an id; found 'lemmas\.x\*' that"):
        ids("lemmas.x*")
    with pytest.raises(InputError, match=r"found 'lemmas\.s4' \(did you mean lemmas\.s3\?\)"):
        ids("lemmas.s4")


def test_half_an_id_that_two_papers_have_is_refused(papers: Path) -> None:
    path = papers / "others" / "claims" / "section_2.py"
    path.write_text(f"{HEAD}{a_claim('B', 'others.b')}")
    with pytest.raises(InputError, match=r"of one paper: lemmas\.b or others\.b; found 'b'"):
        ids("b")


def test_files_and_parts_of_files(papers: Path) -> None:
    own = ["mine.norm", "mine.mass", "mine.mass_corrected", "mine.taste"]
    assert ids(str(MINE)) == own
    assert ids(f"{MINE}::mine.mass", "others.o") == ["mine.mass", "others.o"]
    assert ids(f"{MINE}::*mass*") == ["mine.mass", "mine.mass_corrected"]
    with pytest.raises(InputError, match=r"must be one of mine\.norm, .* \(did you mean mine\.m"):
        ids(f"{MINE}::mine.mss")


def test_files_without_claims_and_broken_ones(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    with pytest.raises(InputError, match="claims file must exist; found no file"):
        ids(str(path))
    path.write_text("x = 1\n")
    with pytest.raises(InputError, match="must make claims when it is imported; found none in"):
        ids(str(path))
    path.write_text("x = 1\n1 / 0\n")
    with pytest.raises(InputError, match=r"ZeroDivisionError: division by zero at .*mine\.py:2"):
        ids(str(path))
    path.write_text(HEAD + a_claim("A", "mine.a"))
    assert ids(str(path)) == ["mine.a"]
    path.write_text(HEAD + a_claim("A", "mine.b"))  # an edit is seen
    assert ids(str(path)) == ["mine.b"]


DECORATED = """import ratecheck as rc

@rc.Paper("mine", "mine").upper("a", ref="Lemma 1", on={"x": rc.interval()})
def a(x):
    "x is at most one."
    return x, 1
"""
MADE = """
import ratecheck as rc

def make(k):
    @rc.Paper("mine", "mine").upper(f"{name}", ref="Lemma", on={{"x": rc.interval()}})
    def power(x):
        "x^k is at most one."
        return x**k, 1
    return power

powers = [make(1), make(2)]
for k in (3, 4):
    make(k)
"""


def test_a_claim_belongs_to_the_file_that_makes_it_not_to_one_that_imports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "z.py").write_text(
        "import ratecheck as rc\n\n"
        "@rc.Paper('my', 'p').upper('c', ref='1', on={'x': rc.interval()})\n"
        "def c(x):\n    'At most one.'\n    return x, 1\n"
    )
    (tmp_path / "paper" / "a.py").write_text("import ratecheck as rc\nfrom z import c\n")
    monkeypatch.chdir(tmp_path)
    for folder in ("paper", "./paper", str(tmp_path / "paper")):
        (item,) = find_claims(folder)
        assert (item.id, Path(item.origin).name) == ("my.c", "z.py")


def test_claims_of_loops_and_functions_are_found(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(HEAD + MADE.format(name="power_{k}") + a_claim("A", "mine.a"))
    made = ["mine.power_1", "mine.power_2", "mine.power_3", "mine.power_4"]
    assert ids(str(path)) == ["mine.a", *made]
    assert ids(f"{path}::mine.power_4") == ["mine.power_4"]
    importing = tmp_path / "other.py"
    importing.write_text(HEAD + a_claim("B", "mine.b") + "import mine\n")
    assert ids(str(importing)) == ["mine.b"]
    later = tmp_path / "later.py"  # what nobody has called yet makes nothing
    later.write_text(HEAD + a_claim("B", "mine.b") + MADE.partition("powers =")[0].format(name="c"))
    assert ids(str(later)) == ["mine.b"]


def test_two_claims_of_one_id_are_refused_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    text = DECORATED + DECORATED.partition("\n")[2]  # one name as well
    path.write_text(text)
    lines = [k for k, line in enumerate(text.splitlines(), 1) if line.startswith("@")]
    assert len(lines) == 2
    with pytest.raises(InputError) as caught:
        ids(str(path))
    assert str(caught.value) == (
        "ids of claims must be distinct; found mine.a in "
        f"{path}:{lines[0]} and in {path}:{lines[1]}"
    )
    path.write_text(HEAD + MADE.format(name="power"))
    with pytest.raises(InputError, match=r"mine\.power twice in .*mine\.py:\d+: a loop or a func"):
        ids(str(path))


@pytest.mark.parametrize(
    ("module", "content", "message"),
    [
        (
            "others/section_2",
            a_claim("A", "others.o"),
            r"distinct; found others\.o in .*\.py:\d+ and in ",
        ),
        (
            "others/section_2",
            a_claim("A", "lemmas.z"),
            r"must start with others\.; found lemmas\.z",
        ),
        ("others/section_2", a_claim("A", "others.a", "others.x"), "the id of a claim; found 'oth"),
        ("others/section_2", a_claim("A", "others.a", "lemmas.n"), "the id of a claim; found 'lem"),
    ],
)
def test_a_wrong_catalogue_is_refused(
    papers: Path, module: str, content: str, message: str
) -> None:
    (papers / f"{module}.py".replace("/", "/claims/")).write_text(HEAD + content)
    with pytest.raises(InputError, match=message):
        catalogue()


#: Corrected statements of the papers themselves, which are proved there, and one that is plain.
PROVED_THERE = {
    *("affpcl.thm2", "affpcl.thm1_recover", "affpcl.sec62_psd", "affpcl.sec4_redef"),
    *("affpcl.rem1_comm4", "affpcl.g2", "affpcl.f2", "affpcl.d2_A", "affpcl.d1i", "affpcl.d1f"),
    *("fslora.stack", "firm.eq9_trace"),
}


def test_the_real_catalogue_is_sound() -> None:
    entries = {item.id: item.entry for item in catalogue()}
    assert len(entries) > 50
    ids = rf"\b(?:{'|'.join({entry.paper for entry in entries.values()})})\.(?!theory\b)\w+"
    for name, entry in entries.items():
        named = re.findall(ids, f"{entry.text} {entry.note} {entry.derivation}")
        assert set(named) <= set(entries), f"{name} names claims that do not exist"
        assert entry.latex, f"{name} has no formula"
        if entry.expect == "violated":
            assert entry.corrected is not None, f"{name} is false, and nothing corrects it"
            assert entry.note, f"{name} is false, and its note does not say which step breaks"
            read = entry.reading or not entry.reading_of
            assert read, f"{name} does not say in `reading` why a reader may take it so"
        if entry.corrected is not None and entry.corrected not in PROVED_THERE:
            assert entries[entry.corrected].derivation, f"{entry.corrected} has no derivation"


def test_of_many_names_only_the_nearest_are_listed() -> None:
    names = [f"paper.lemma_{k}" for k in range(150)]
    with pytest.raises(InputError) as error:
        check_name("claim", "paper.lema_77", names)
    said = str(error.value)
    assert "must be one of 150 known names, such as paper.lemma_77, " in said
    assert said.count("paper.lemma_") == 5
    assert said.endswith("found 'paper.lema_77' (did you mean paper.lemma_77?)")
    with pytest.raises(InputError, match=r"one of 150 known names; found 'paper.zzzzzz'$"):
        check_name("claim", "paper.zzzzzz", names)  # of this paper, but like none of its names
    with pytest.raises(InputError, match=r"must be one of a, b; found 'zzz'$"):
        check_name("letter", "zzz", ["a", "b"])


def test_a_module_that_cannot_be_imported_costs_only_itself(papers: Path) -> None:
    (papers / "lemmas" / "claims" / "appendix_a.py").write_text("import nothing_like_this\n")
    message = (
        "claims module lemmas.claims.appendix_a must import without error; "
        "found ModuleNotFoundError: No module named 'nothing_like_this'"
    )
    told: list[str] = []
    items = find_claims([], told.append)
    assert [item.id for item in items] == [
        *("lemmas.s1", "lemmas.s2", "lemmas.s3", "lemmas.n"),
        "others.o",
    ]
    assert told == [message]
    with pytest.raises(InputError, match=message):
        catalogue()


@pytest.mark.slow
def test_list_and_reproduce_go_on_without_it(
    papers: Path, toys: None, ratecheck: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toys_too = {"lemmas": "lemmas", "others": "others", "toy": "toy"}
    monkeypatch.setattr(papers_module, "installed", lambda *_: toys_too)
    monkeypatch.setattr(
        records,
        "judge_all",
        lambda items, *_, **__: ((item, rc.Verdict(item.id, item.entry.expect)) for item in items),
    )
    (papers / "others" / "claims" / "section_1.py").write_text("1 / 0\n")
    line = (
        "ratecheck: claims module others.claims.section_1 must import without error; "
        "found ZeroDivisionError: division by zero"
    )
    out = tmp_path / "out"
    said = ratecheck("list", "--out", out)
    assert (said.code, said.err.splitlines()) == (0, [line])
    assert "lemmas/section_1" in said.out
    said = ratecheck("reproduce", "--out", out, "--threads", 1)
    judging = "ratecheck: judging all 6 claims of lemmas"
    assert (said.code, said.err.splitlines()[-2:]) == (1, [line, judging])
    assert "6 claims: 5 hold, 1 not checked" in said.out
    assert "<code>lemmas.s1</code>" in (out / "report.html").read_text()
    said = ratecheck("report", "--out", out)
    assert (said.code, said.err.splitlines()) == (0, [line])
    said = ratecheck("audit", "--out", out)
    assert (said.code, said.err.splitlines()) == (1, [line, judging])


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("PAPER.upper", "PAPER.uper", "no attribute 'uper' (did you mean `upper`?)"),
        (", ref='Lemma 1'", "", "`ref` of mine.mass must say where it is in the paper"),
        ("ref=", "reff=", "found ['reff'] (did you mean `ref`?)"),
        (
            "mass(p, constant=1)",
            "mass(p, constant)",
            "parameter `constant` of mine.mass must be a field of the instance or have a default; "
            "found the fields p",
        ),
        ("'mine'", "'firm'", "must have an id that no installed paper has"),
    ],
)
def test_a_slip_in_a_declaration_is_a_line_when_the_file_is_read(
    tmp_path: Path, right: str, wrong: str, said: str
) -> None:
    text = """import ratecheck as rc
PAPER = rc.Paper('mine', 'my paper')
@PAPER.upper('mass', ref='Lemma 1', on={'p': rc.simplex('k')})
def mass(p, constant=1):
    'No probability exceeds one.'
    return p, constant
"""
    path = tmp_path / "mine.py"
    path.write_text(text)
    assert [item.id for item in find_claims([str(path)])] == ["mine.mass"]
    path.write_text(text.replace(right, wrong))
    for place in (path, tmp_path):
        with pytest.raises(InputError, match=re.escape(said)):
            find_claims([str(place)])

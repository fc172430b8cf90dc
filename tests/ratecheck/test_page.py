"""The page of all results: what it holds, what it says is missing, and that texts stay texts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import ratecheck as rc
from ratecheck._discover import catalogue
from ratecheck._discover.catalogue import Item
from ratecheck._report import chapters
from ratecheck._report.maths import mathml
from ratecheck._run.job import Job, Outcome
from ratecheck._verdicts import certified, records
from ratecheck._verdicts.verdict import DOUBTS

MINE = Path(__file__).parent / "audit" / "files" / "mine.py"
pytestmark = pytest.mark.usefixtures("toys")
Call = Callable[..., Any]
ONE = ("--threads", 1)

HOSTILE = '''"""Claims of somebody else."""
from ratecheck import NotChecked, RateClaim, Regime, Space, claim, simplex

SPACE = Space(fields={"p": simplex("k")}, sizes={"k": (1, 2)})

@claim(
    id="theirs.markup", source="<i>their</i> paper", kind="upper", space=SPACE, expect="violated",
    text="a < b & </script><script>alert(1)</script>", latex=r"\\frac{a}{",
    note="<img src=x onerror=alert(2)>", corrected="theirs.better",
)
def markup(instance):
    return instance.p.max(), 0.5

@claim(
    id="theirs.better", source="s", kind="upper", space=SPACE, text="as it should be",
    latex=r"\\max_k p_k\\le1 \\text{</math><b>}", derivation="a sum of one",
)
def better(instance):
    return instance.p.max(), 1.0
'''


def check_links(page: str) -> None:
    """Every link within the page has its target, and no two targets have one name."""
    targets = re.findall(r' id="([^"]+)"', page)
    assert len(targets) == len(set(targets))
    wanted = set(re.findall(r'href="#([^"]+)"', page))
    assert wanted
    assert wanted <= set(targets)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every claim gets the verdict that it expects at once, and a counterexample where it fails."""

    def at_once(items: Sequence[Item], *arguments: Any, **options: Any) -> Iterator[Any]:
        for item in items:
            verdict = rc.Verdict(item.id, item.entry.expect, ratio=0.25, instances=7)
            if verdict.verdict == "violated":
                verdict.counterexample = {"p": [[1 / 3, 2 / 3], [1.0, -0.0]], "size": 0.5}
                verdict.measured, verdict.bound, verdict.ratio = "0.7", "0.58", 0.7 / 0.58
            elif item.entry.kind == "rate":
                regime = {"name": "late", "variable": "t", "predicted": -1.0, "measured": -0.98}
                regime |= {"lo": -0.99, "hi": -0.97, "slack": 0.05, "verdict": "consistent"}
                verdict.details = {"regimes": [regime]}
            yield item, verdict

    monkeypatch.setattr(records, "judge_all", at_once)


def audited(ratecheck: Call, source: Path, out: Path) -> None:
    assert ratecheck("audit", source, "--out", out, *ONE).code == 0


def reported(ratecheck: Call, out: Path) -> str:
    said = ratecheck("report", "--out", out)
    assert (said.code, said.out, said.err) == (0, f"{out / 'report.html'}\n", "")
    return (out / "report.html").read_text()


def test_an_empty_folder_is_an_error_and_stays_absent(ratecheck: Call, tmp_path: Path) -> None:
    said = ratecheck("report", "--out", tmp_path / "none")
    assert (said.code, said.out) == (2, "")
    assert said.err == (
        "ratecheck: results folder must hold results or verdicts; found none in "
        f"{tmp_path / 'none'}: make them with `ratecheck reproduce --profile quick --out "
        f"{tmp_path / 'none'}`\n"
    )
    assert not (tmp_path / "none").exists()
    said = ratecheck("report", "--out", tmp_path, "--profile", "papr")
    assert (said.code, "did you mean paper?" in said.err) == (2, True)


@pytest.mark.slow
def test_the_page_has_what_is_stored_and_says_what_is_not(
    ratecheck: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratecheck("run", "toy/decay", "--out", tmp_path, "--no-figures", *ONE)
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    page = reported(ratecheck, tmp_path)
    assert not (tmp_path / "log").exists()  # nothing was computed
    for text in ("Power-law decay", "slope at [0.5]", "a note in ["):
        assert text in page
    image = 'width="([1-9][0-9]+)" height="([1-9][0-9]+)" src="figures/toy-decay-quick.png"'
    assert re.search(image, page)
    assert 'href="figures/toy-decay-quick.svg"' in page
    assert "An ordering" not in page
    assert "1 experiment is not stored with the quick profile: toy/picture." in page
    command = f"<code>ratecheck run toy/picture --profile quick --out {tmp_path}</code>"
    assert command in page
    assert '<section id="claims"' not in page
    # The stated exponents are in the table that can be sorted.
    assert '<section id="exponents"' in page
    assert page.count("toy/decay") > page.count("<img")
    ratecheck("run", "toy/picture", "--out", tmp_path, *ONE)
    page = reported(ratecheck, tmp_path)
    assert "not stored" not in page
    assert "An ordering" in page
    said = ratecheck("report", "--out", tmp_path, "--json")
    assert json.loads(said.out) == {"report": str(tmp_path / "report.html")}
    assert (tmp_path / "report.html").read_text() == page
    # Another profile is another page.
    said = ratecheck("report", "--out", tmp_path, "--profile", "paper")
    assert (said.code, "found none in" in said.err) == (2, True)


@pytest.mark.slow
def test_the_page_loads_nothing_and_is_small(ratecheck: Call, tmp_path: Path, judged: None) -> None:
    ratecheck("run", "toy/decay", "--out", tmp_path, *ONE)
    audited(ratecheck, MINE, tmp_path)
    page = reported(ratecheck, tmp_path)
    assert not re.search(r"""<(script|iframe)[^>]*src=""", page)
    assert re.findall(r"""<img[^>]*src=["']?([^"' >]*)""", page) == ["figures/toy-decay-quick.png"]
    assert not re.search(r"<link|@import|url\(http|from ['\"]http|import\(['\"]http", page)
    assert len(page) < 100_000


def test_verdicts_of_a_user_s_file_are_told_in_full(
    ratecheck: Call, tmp_path: Path, judged: None
) -> None:
    audited(ratecheck, MINE, tmp_path)
    page = reported(ratecheck, tmp_path)
    article = page[page.index('<article class="refuted"') : page.index('<section id="claims"')]
    counterexample = "p = [1/3 2/3; 1 0]\nsize = 0.5"
    replay = f"ratecheck audit --replay {tmp_path / 'audit/counterexamples/mine.mass.json'}"
    for text in (
        "no probability exceeds the sum of squares",
        counterexample,
        "measured 0.7, stated to be at most 0.58",
        "(ratio 1.207)",
        "the proof squares a number below one",
        "no probability is below the sum of squares",
        "sum p_k^2 &lt;= max p_k sum p_k = max p_k",
        "mine.mass_corrected",
        "tightest ratio 0.25",
        replay,
        'href="#mine.mass_corrected:row"',
    ):
        assert text in article
    for line in ("2</b>holds", "1</b>false as stated", "1</b>not checked"):
        assert line in page
    table = page[page.index('<section id="claims"') :]
    for text in ("my paper, Lemma 1", '<tr id="mine.norm:row">', "corrected</span>"):
        assert text in table
    assert "older code" not in page
    check_links(page)


def test_a_ratio_that_measures_nothing_has_no_digits_and_doubts_are_explained(
    ratecheck: Call, tmp_path: Path, judged: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge_all = records.judge_all

    def far(*arguments: Any, **options: Any) -> Iterator[Any]:
        for item, verdict in judge_all(*arguments, **options):
            if verdict.verdict == "violated":
                verdict.ratio = 1.22e161
            yield item, verdict

    monkeypatch.setattr(records, "judge_all", far)
    audited(ratecheck, MINE, tmp_path)
    page = reported(ratecheck, tmp_path)
    assert "e+161" not in page
    assert "(ratio &gt; 1e6)" in page
    assert "<td>&gt; 1e6</td>" in page
    for doubt, meaning in DOUBTS.items():
        assert f"<i>{doubt}</i>, {meaning}" in page


@pytest.mark.slow
def test_every_claim_and_figure_has_an_address_that_leads_to_its_rows_and_back(
    ratecheck: Call, tmp_path: Path, judged: None
) -> None:
    ratecheck("run", "toy/*", "--out", tmp_path, *ONE)
    audited(ratecheck, MINE, tmp_path)
    page = reported(ratecheck, tmp_path)
    check_links(page)
    for name in ("toy/decay", "toy/picture"):
        figure = page[page.index(f'<figure id="{name}">') :]
        assert f'href="#{name}:checks"' in figure[: figure.index("</figure>")]
        row = page[page.index(f'<tr id="{name}:checks"') :]
        assert f'href="#{name}"' in row[: row.index("</tr>")]
    article = page[page.index('<article class="refuted" id="mine.mass">') :]
    assert 'href="#mine.mass:row"' in article[: article.index("</article>")]
    held = page[page.index('<p class="held">') :]
    assert '<a id="mine.norm" href="#mine.norm:row">' in held[: held.index("</p>")]
    for name in ("mine.mass", "mine.norm", "mine.mass_corrected", "mine.taste"):
        row = page[page.index(f'<tr id="{name}:row">') :]
        assert f'href="#{name}"' in row[: row.index("</tr>")]
        assert page.count(f' id="{name}"') == 1
    figure = page[page.index('<figure id="toy/decay">') :]
    assert 'href="#toy/decay:exponents"' in figure[: figure.index("</figure>")]
    row = page[page.index('<tr id="toy/decay:exponents"') :]
    assert 'href="#toy/decay"' in row[: row.index("</tr>")]
    # A chapter comes before the tables, and says in it how its checks came out.
    assert page.index('id="paper-toy"') < page.index('<section id="claims"')
    assert "Checks of 2 experiments: 4 agree with the paper." in page


def test_a_long_counterexample_is_a_link_to_its_file(tmp_path: Path) -> None:
    record = {"id": "mine.a", "counterexample": {"p": list(range(500))}}
    place = chapters.Place(tmp_path / "pages")
    path = tmp_path / "audit" / "counter examples" / "mine.a.json"
    told = chapters._counterexample({**record, "instance": path}, place)
    assert told == {"counterexample": "", "file": "../audit/counter%20examples/mine.a.json"}
    short = {**record, "counterexample": {"p": [0.5]}, "instance": path}
    assert chapters._counterexample(short, place) == {"counterexample": "p = 0.5", "file": ""}


def test_maths_that_the_converter_leaves_raw() -> None:
    assert "arg" in mathml(r"\arg\min_x f")
    assert "⟨" in mathml(r"\Big\langle a, b\Big\rangle")
    assert mathml(r"a\le b \quads_c") == ""
    assert mathml(r"\frac{a}{") == ""
    assert mathml("") == ""
    assert "<b>" not in mathml(r"\text{<b>a\\raw</b>}")
    assert mathml(r"\mathrm{Cov}").count("<mi") == 1


def test_markup_and_bad_latex_of_users_stay_text(
    ratecheck: Call, tmp_path: Path, judged: None
) -> None:
    source = tmp_path / "theirs.py"
    source.write_text(HOSTILE)
    audited(ratecheck, source, tmp_path / "out")
    page = reported(ratecheck, tmp_path / "out")
    for raw in ("<script>alert", "<img src=x", "<i>their", "</math><b>"):
        assert raw not in page
    assert page.count("a &lt; b &amp; &lt;/script&gt;") >= 2  # in the table and below
    assert "&lt;img src=x onerror=alert(2)&gt;" in page
    assert "<math" in page  # of the statement whose LaTeX is right


def test_a_file_is_not_run_and_a_changed_or_lost_one_is_older_code(
    ratecheck: Call, tmp_path: Path, judged: None
) -> None:
    source = Path(shutil.copy(MINE, tmp_path / "mine.py"))
    audited(ratecheck, source, tmp_path)
    source.write_text("raise RuntimeError('run')\n")
    page = reported(ratecheck, tmp_path)
    assert "4 verdicts are of older code, marked below." in page
    assert page.count("older code") > 4
    source.unlink()
    assert "4 verdicts are of older code" in reported(ratecheck, tmp_path)


@pytest.mark.slow
def test_claims_of_the_catalogue_without_or_with_older_verdicts(
    ratecheck: Call, tmp_path: Path, judged: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratecheck("run", "toy/decay", "--out", tmp_path, "--no-figures", *ONE)
    source = Path(shutil.copy(MINE, tmp_path / "mine.py"))
    items = catalogue.of_file(str(source))
    monkeypatch.setattr(catalogue, "catalogue", lambda **_: items)
    page = reported(ratecheck, tmp_path)
    named = "mine.norm, mine.mass, mine.mass_corrected, mine.taste"
    assert f"4 claims are not judged: {named}." in page
    assert f"<code>ratecheck audit --out {tmp_path}</code>" in page
    audited(ratecheck, source, tmp_path)
    page = reported(ratecheck, tmp_path)
    assert "not judged" not in page
    assert "older code" not in page
    source.write_text(source.read_text() + "# another state of the code\n")
    # Four as the catalogue's, four as those of a file, which nothing but this test makes the same.
    assert "8 verdicts are of older code" in reported(ratecheck, tmp_path)


def test_exponents_of_claims_have_every_regime(
    ratecheck: Call, tmp_path: Path, judged: None
) -> None:
    speed = tmp_path / "speed.py"
    speed.write_text(
        "from ratecheck import RateClaim\n"
        'R = RateClaim(id="speed.r", source="s", text="fast", regimes=lambda: [])\n'
    )
    audited(ratecheck, speed, tmp_path / "out")
    page = reported(ratecheck, tmp_path / "out")
    table = page[page.index('<section id="exponents"') :]
    cells = (
        '<a href="#speed.r"><code>speed.r</code></a>',
        "late",
        "t",
        "-1",
        "-0.98",
        "-0.99 to -0.97",
    )
    assert "".join(f"<td>{cell}</td>" for cell in cells) in table
    # to the rows of its regimes and back
    assert '<tr id="speed.r:exponents"' in table
    row = page[page.index('<tr id="speed.r:row">') :]
    assert 'href="#speed.r:exponents"' in row[: row.index("</tr>")]
    check_links(page)


@pytest.mark.slow
def test_file_and_open(ratecheck: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(webbrowser, "open", shown.append)
    ratecheck("run", "toy/picture", "--out", tmp_path, *ONE)
    path = tmp_path / "a folder" / "page.html"
    said = ratecheck("report", "--out", tmp_path, "--file", path, "--open")
    assert (said.code, said.out) == (0, f"{path}\n")
    assert shown == [path.as_uri()]
    assert path.read_text().endswith("</html>\n")
    assert not (tmp_path / "report.html").exists()
    # What cannot be written leaves one line, and what was there.
    (tmp_path / "file").write_text("kept")
    for wrong in (tmp_path / "file" / "page.html", tmp_path):
        said = ratecheck("report", "--out", tmp_path, "--file", wrong)
        assert (said.code, said.out, len(said.err.splitlines())) == (2, "", 1)
        assert "must be writable; found" in said.err
    assert (tmp_path / "file").read_text() == "kept"
    assert not list(tmp_path.glob(".*.tmp"))


def test_reproduce_ends_with_the_page(
    ratecheck: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    performed: list[str] = []
    perform = Job.perform

    def spy(self: Job, reference: str, *arguments: Any) -> Outcome:
        performed.append(reference)
        return perform(self, reference, *arguments)

    monkeypatch.setattr(Job, "perform", spy)
    monkeypatch.setenv("TOY_FAIL", "1.5")
    said = ratecheck("reproduce", "--out", tmp_path, "--seed", 5, *ONE)
    assert said.code == 1
    assert performed == ["toy/decay", "toy/picture"]  # each once: the page draws nothing again
    assert said.out.splitlines()[-1] == f"Report: {tmp_path / 'report.html'}"
    page = (tmp_path / "report.html").read_text()
    assert "An ordering" in page
    assert "not stored with the quick profile: toy/decay" in page
    assert f"run toy/decay --profile quick --seed 5 --out {tmp_path}<" in page


@pytest.mark.slow
def test_libraries_of_the_page_are_imported_on_use() -> None:
    code = (
        "import sys, ratecheck._report.page; "
        "print({'jinja2', 'latex2mathml', 'matplotlib', 'pyarrow'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_what_replaces_a_statement_of_ones_own_is_still_what_is_stated(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "tutorials" / "claim.md").read_text()
    program = re.search(r":caption: constants.py\n\n(.*?)```", page, re.DOTALL)
    assert program is not None
    (tmp_path / "constants.py").write_text(program[1])
    items, place = rc.find_claims([str(tmp_path / "constants.py")]), chapters.Place(tmp_path)
    told = [
        {**records.Result(item, rc.Verdict(item.id, item.entry.expect), "quick", 0).to_record()}
        for item in items
    ]
    (chapter,) = chapters.chapters(told, [], place)
    ((_, held),) = chapter["holds"]
    assert [claim["id"] for claim in held] == ["mine.smallest"]
    told = [{**one, "printed_as": "statement"} for one in told]
    (chapter,) = chapters.chapters(told, [], place)
    assert chapter["holds"] == []


def test_contradictory_evidence_is_seen_first_and_holds_nowhere(
    ratecheck: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(MINE, "mine.py")
    ratecheck("audit", "mine.py", *ONE)
    assert ratecheck("report").code == 0
    sound = Path("results/report.html").read_text()
    assert "ontradictory" not in sound
    items = {item.id: item for item in catalogue.find_claims(["mine.py"])}
    kept = {name: records.Records(Path("results")).latest(item) for name, item in items.items()}
    true = next(name for name, one in kept.items() if one and one.verdict.verdict == "holds")
    false = next(name for name, one in kept.items() if one and one.verdict.verdict == "violated")
    against = "CONTRADICTORY: a certificate says so, and another one not: one is wrong"
    monkeypatch.setattr(
        certified, "contradiction", lambda origin, name, *_: against * (name in (true, false))
    )
    assert ratecheck("report").code == 0
    page = Path("results/report.html").read_text()
    check_links(page)
    begin, end = page.index('<section id="contradictory">'), page.index('<section class="paper"')
    assert begin < end
    part, rest = page[begin:end], page[end : page.index('<section id="claims"')]
    assert "Contradictory evidence (2)" in part
    assert part.count(f'<p class="no">{against}</p>') == 2
    for name in (true, false):
        assert f' id="{name}"' in part
        assert f' id="{name}"' not in rest
        assert f"<code>{name}</code>" not in rest
        assert f' id="{name}"' in sound[sound.index('<section class="paper"') :]
    assert "<li><b>2</b>contradictory</li>" in page
    assert "Statements: 2 contradictory, " in page

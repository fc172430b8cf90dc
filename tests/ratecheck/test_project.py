"""A user's project: the table in its pyproject.toml makes its papers known beside ours."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ratecheck as rc
from linsys import InputError
from ratecheck._discover import catalogue, papers, project, registry
from ratecheck._discover.table import results
from ratecheck._new import write_project
from ratecheck._report.chapters import Place, chapters
from ratecheck._report.stored import stored
from ratecheck._store.revision import revision
from ratecheck._verdicts.records import Records, audit

ROOT = Path(__file__).parents[2]
DECAY = (Path(__file__).parent / "extra" / "toy" / "rates" / "decay.py").read_text()
CLAIM = """
import ratecheck as rc
{top}

PAPER = rc.Paper("{paper}", "My paper")

@PAPER.upper("{name}", ref="Lemma 1", on={{"p": rc.simplex("k")}}{options})
def a_claim(p):
    "No probability exceeds the bound."
    return p, {bound}
"""


def a_claim(name: str = "mass", paper: str = "mine", **parts: str) -> str:
    """The text of a file with one claim."""
    return CLAIM.format(
        **({"top": "", "bound": "1", "options": ""} | parts), name=name, paper=paper
    )


Write = Callable[[dict[str, str]], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write the files of a project with a folder and a file in its table, and go into a folder."""

    def write(files: dict[str, str]) -> Path:
        table = '[tool.ratecheck]\nfiles = ["work", "notes/lemma.py"]\n'
        inside = {"pyproject.toml": table, "notes/lemma.py": a_claim("lemma"), "deep/x/y": ""}
        for name, text in (inside | files).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        monkeypatch.chdir(tmp_path / "deep" / "x")
        return tmp_path

    return write


def ids(*references: str) -> list[str]:
    return [item.id for item in rc.find_claims(references)]


def read_own() -> tuple[list[str], list[str]]:
    """The ids of the project's claims, and what cannot be read."""
    faults: list[str] = []
    return [item.id for item in catalogue.of_project(faults.append)], faults


def test_claims_and_experiments_are_found_by_their_ids(write: Write) -> None:
    decay = DECAY.replace("toy/decay", "mine/decay")
    root = write({"work/claims/section_1.py": a_claim(), "work/rates/decay.py": decay})
    assert ids("mine") == ids("mine.*") == ["mine.mass", "mine.lemma"]
    assert ids("mine/section_1") == ids("mass") == ["mine.mass"]
    assert ids(str(root / "work")) == ["mine.mass"]
    assert {"mine.mass", "mine.lemma", "affpcl.d3"} <= set(ids())
    assert {"mine/decay", "affpcl/fig1"} <= set(registry.names())
    assert registry.find_experiment("mine/decay").title == "Power-law decay"
    assert registry.match(["mine/*"]) == ["mine/decay"]
    assert registry.match([str(root / "work")]) == [str(root / "work" / "rates" / "decay.py")]
    assert list(registry.rates("mine")) == ["mine/decay"]
    with pytest.raises(InputError, match=r"did you mean mine/decay\?"):
        registry.find_experiment("mine/dekay")
    with pytest.raises(InputError, match=r"did you mean mine\.mass\?"):
        ids("mine.mas")


@pytest.mark.slow
def test_an_experiment_on_a_model_is_of_the_paper_in_its_folder(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the installed papers have models of their own, whose import takes seconds
    monkeypatch.setattr(papers, "installed", lambda group=papers.PAPERS: {})
    on_model = DECAY.replace("toy/decay", "bridge/words")
    write({"work/bridge/words.py": on_model})
    assert "bridge/words" not in registry.papers_of_models()  # notes/lemma.py lies elsewhere
    write({"work/claims/a.py": a_claim()})
    assert registry.papers_of_models()["bridge/words"] == "mine"
    experiment = rc.find_experiment("bridge/words")
    rc.run(experiment, experiment.profiles["quick"], rc.Store(tmp_path / "out"))
    for of in (["mine"], []):
        found = stored(tmp_path / "out", "quick", of=of)
        assert [one.experiment.id for one in found.outcomes] == ["bridge/words"]
        page = chapters(found.records, found.outcomes, Place(tmp_path), found.of_models)
        assert [chapter["id"] for chapter in page] == ["paper-mine"]
        assert [figure["id"] for figure in page[0]["figures"]] == ["bridge/words"]
    assert chapters([], found.outcomes, Place(tmp_path))[0]["id"] == "paper-bridge"


def test_an_edit_is_seen_at_once(write: Write) -> None:
    root = write({"work/a.py": a_claim()})
    assert ids("mine") == ["mine.mass", "mine.lemma"]
    (root / "work" / "b.py").write_text(a_claim("other"))
    assert ids("mine") == ["mine.mass", "mine.other", "mine.lemma"]
    (root / "pyproject.toml").write_text('[tool.ratecheck]\nfiles = ["work/b.py"]\n')
    assert ids("mine") == ["mine.other"]


def test_tests_and_private_files_do_not_count(write: Write) -> None:
    broken = dict.fromkeys(("_help.py", "test_a.py", "conftest.py"), "1 / 0\n")
    write({"work/a.py": a_claim()} | {f"work/{name}": text for name, text in broken.items()})
    assert read_own() == (["mine.mass", "mine.lemma"], [])


def test_a_folder_of_folders(write: Write) -> None:
    broken = "1 / 0  # ratecheck\n"
    root = write(
        {
            "work/a.py": a_claim("a"),
            "work/one/b.py": a_claim("b"),
            "work/one/two/c.py": a_claim("c"),
            "work/one/plot.py": "1 / 0\n",  # not about ratecheck
            "work/paper/claims/d.py": a_claim("d"),
            "work/paper/rates/decay.py": DECAY.replace("toy/", "mine/"),
            "work/paper/setup.py": broken,
            **{f"work/{name}/e.py": broken for name in ("tests", ".venv", "_old", "env")},
            "work/env/pyvenv.cfg": "",
            "work/figures/figure.png": "",  # no folder of a paper by this alone
        }
    )
    own = ["mine.a", "mine.b", "mine.c", "mine.d"]
    assert read_own() == ([*own, "mine.lemma"], [])
    assert ids(str(root / "work")) == own
    assert list(registry.rates(str(root / "work"))) == [str(root / "work/paper/rates/decay.py")]
    done = command(root, "list", "work", "--json")
    assert [row["id"] for row in json.loads(done.stdout)] == ["mine/decay", *own]
    assert [
        row["id"] for row in json.loads(command(root, "list", "work/a.py", "--json").stdout)
    ] == ["mine.a"]


def test_a_whole_disk_is_no_project(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write({"work/a.py": a_claim("a"), "work/x/y/b.py": a_claim("b")})
    monkeypatch.setattr(project, "MOST", 2)  # x and y
    assert ids(str(root / "work")) == ["mine.a", "mine.b"]
    monkeypatch.setattr(project, "MOST", 1)
    with pytest.raises(InputError, match=r"at most 1 folders below it; found more in .*work"):
        ids(str(root / "work"))


@pytest.mark.parametrize(
    ("files", "expected", "fault"),
    [
        ({"work/b.py": "1 / 0\n"}, ["mine.mass", "mine.lemma"], r"ZeroDivisionError.*b\.py:1"),
        ({"notes/lemma.py": "x ="}, ["mine.mass"], r"SyntaxError.*lemma\.py:1"),
        (
            {"work/b.py": a_claim("mass")},
            ["mine.mass", "mine.lemma"],
            r"must be distinct; found mine\.mass in .*a\.py:\d+ and in .*b\.py:\d+",
        ),
        (
            {"work/b.py": a_claim("d3", "affpcl")},
            ["mine.mass", "mine.lemma"],
            r"claim affpcl\.d3 in .*b\.py must have an id that no installed paper has",
        ),
        (
            {"work/b.py": a_claim("other", options=', corrected="none"')},
            ["mine.mass", "mine.other", "mine.lemma"],
            r"`corrected` of mine\.other must be the id of a claim; found 'mine\.none'",
        ),
        (
            {"pyproject.toml": '[tool.ratecheck]\nfiles = ["nowhere", "work"]\n'},
            ["mine.mass"],
            r"`files` in .*pyproject\.toml must exist; found no nowhere",
        ),
        (
            {"pyproject.toml": '[tool.ratecheck]\nfiles = ["notes/x", "work"]\n', "notes/x/y": ""},
            ["mine.mass"],
            r"folder must hold Python files; found none in .*x",
        ),
        (
            {"pyproject.toml": '[tool.ratecheck]\nfile = ["work"]\n'},
            [],
            r"\[tool\.ratecheck\] in .* must have the key `files` alone; found file",
        ),
        (
            {"pyproject.toml": '[tool.ratecheck]\nfiles = "work"\n'},
            [],
            r"`files` in .* must be a list of paths; found 'work'",
        ),
        ({"pyproject.toml": "[tool."}, [], r"pyproject\.toml must be TOML; found"),
    ],
)
def test_what_cannot_be_read_costs_a_line_and_nothing_else(
    write: Write, files: dict[str, str], expected: list[str], fault: str
) -> None:
    write({"work/a.py": a_claim()} | files)
    own, faults = read_own()
    assert own == expected
    assert len(faults) == 1
    assert re.search(fault, faults[0])
    assert "\n" not in faults[0]
    assert ids("affpcl.d3") == ["affpcl.d3"]  # ours do not need it
    assert registry.find_experiment("affpcl/fig1").id == "affpcl/fig1"
    assert "affpcl/fig1" in registry.names()
    told: list[str] = []
    assert {*expected, "affpcl.d3"} <= {item.id for item in rc.find_claims((), told.append)}
    assert told == faults
    with pytest.raises(InputError, match=fault):
        ids("mine*")


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("affpcl/fig1", r"experiment affpcl/fig1 in .*b\.py must have an id that no installed"),
        ("bridge/affpcl", r"must be distinct; found bridge/affpcl in .*b\.py and in experiments"),
        ("mine/decay", r"must be distinct; found mine/decay in .*b\.py and in .*a\.py"),
    ],
)
def test_experiments_with_the_id_of_another_one(write: Write, name: str, fault: str) -> None:
    texts = {"a": "mine/decay", "b": name}
    write({f"work/{k}.py": DECAY.replace("toy/decay", v) for k, v in texts.items()})
    faults: list[str] = []
    assert [one.id for one in registry.of_project(faults.append)] == ["mine/decay"]
    assert len(faults) == 1
    assert re.search(fault, faults[0])
    with pytest.raises(InputError, match="found 'mine/dekay'.*; .*" + fault):
        registry.find_experiment("mine/dekay")


def test_a_claim_that_another_file_imports_is_the_same_one(write: Write) -> None:
    again = "import ratecheck as rc\nfrom a import a_claim\nfrom work.a import a_claim as same\n"
    write({"work/a.py": a_claim(), "work/b.py": again})
    assert read_own() == (["mine.mass", "mine.lemma"], [])


def test_files_of_an_installed_paper_are_no_second_paper(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write(
        {"work/claims/a.py": a_claim(), "work/__init__.py": "", "work/claims/__init__.py": ""}
    )
    monkeypatch.syspath_prepend(root)
    installed = {**papers.installed(), "mine": "work"}
    monkeypatch.setattr(papers, "installed", lambda group=papers.PAPERS: installed)
    assert [path.name for path in project.files(pytest.fail)] == ["lemma.py"]
    assert ids("mine.mass") == ["mine.mass"]
    faults: list[str] = []
    of_command = catalogue.claims_of_command((), faults.append)
    assert [item.id for item in of_command] == ["mine.mass"]  # and no lemma of the paper's name
    (said,) = faults
    assert "mine.lemma" in said
    assert said.endswith("must have an id that no installed paper has; found that of work")


def test_claims_of_one_file_correct_those_of_another(write: Write) -> None:
    false = ', expect="violated", note="Of one there is no more.", corrected="mass", uses=["lemma"]'
    write({"work/a.py": a_claim(), "work/b.py": a_claim("half", bound="0.5", options=false)})
    items = rc.find_claims(["mine"])
    results = audit(items, Records("out"), effort="quick", seed=0, workers=1)
    assert {r.item.id: r.verdict.verdict for r in results} == {
        "mine.mass": "holds",
        "mine.half": "violated",
        "mine.lemma": "holds",
    }
    assert [record for record, _ in Records("out").latest_of_users_files()] == []


def test_results_have_the_revision_of_what_is_imported(write: Write) -> None:
    top = "from shared.helper import one\n"
    decay = DECAY.replace("toy/decay", "mine/decay").replace(
        "import ratecheck", f"{top}import ratecheck"
    )
    root = write(
        {
            "work/claims/a.py": a_claim(top=top, bound="one"),
            "work/rates/decay.py": decay,
            "shared/helper.py": "one = 1\n",
        }
    )
    item, records = rc.find_claims(["mine.mass"])[0], Records("out")
    before = records.path(item, "quick", 0), revision(registry.find_experiment("mine/decay"))
    (root / "shared" / "helper.py").write_text("one = 2\n")
    item = rc.find_claims(["mine.mass"])[0]
    after = records.path(item, "quick", 0), revision(registry.find_experiment("mine/decay"))
    assert before[0] != after[0]
    assert before[1] != after[1]
    assert isinstance(item.entry, rc.Claim)
    assert item.entry(0)[1] == 2


def test_a_folder_is_the_project_for_a_while(write: Write) -> None:
    root = write({"other/claims/a.py": a_claim("mass"), "work/b.py": a_claim("half")})
    with project.alone([root / "other"]):
        assert read_own() == (["mine.mass"], [])
    assert read_own() == (["mine.half", "mine.lemma"], [])
    with pytest.raises(InputError, match="file or folder must exist; found no nowhere"):
        project.alone([Path("nowhere")]).__enter__()


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, which finds ratecheck as an installed package."""
    return subprocess.run(
        [sys.executable, "-c", "from ratecheck.cli import main; main()", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_results_are_in_the_root_of_the_project(
    write: Write, ratecheck: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write({"work/claims/a.py": a_claim()})
    folders, kept = (root, root / "deep" / "x"), list[dict[Path, int]]()
    for folder in folders:
        monkeypatch.chdir(folder)
        place = Path(os.path.relpath(root / "results"))
        line = f"ratecheck: results go to {place}, in the root of the project\n"
        told = "" if folder == root else line
        audit = ratecheck("audit", "mine", "--threads", 1, "--json")
        assert (audit.code, audit.err) == (0, told)
        verdicts = (root / "results" / "audit").rglob("*.json")
        kept.append({path: path.stat().st_mtime_ns for path in verdicts})
        assert f"{place / 'report.html'}\n" == ratecheck("report").out
        listed = ratecheck("audit", "--list", "--json")  # without a name, those of the project
        assert [row["verdict"] for row in json.loads(listed.out)] == ["holds", "holds"]
        assert listed.err == ""
    assert kept[0]
    assert kept == [kept[0]] * len(folders)  # what the first one judged, the others found
    assert list(root.rglob("results")) == [root / "results"]
    ratecheck("audit", "mine", "--threads", 1, "--out", "results")
    monkeypatch.setenv("RATECHECK_OUT", "mine")
    ratecheck("audit", "mine", "--threads", 1)
    assert {path.parent for path in root.rglob("audit")} == {
        *(root / "results", root / "deep" / "x" / "results", root / "deep" / "x" / "mine")
    }


def test_every_command_with_results_finds_the_root(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.main import get_command

    from ratecheck._commands.app import app

    write({})
    commands: Any = get_command(app)
    places = {}
    for name, one in commands.commands.items():
        for option in one.params:
            if option.envvar == "RATECHECK_OUT" or option.opts == ["--out"]:
                with one.make_context(name, list(map(str, NEEDED.get(name, ())))) as context:
                    places[name, option.name] = str(context.params[option.name])
    certificates = places.pop(("certify", "out"))
    assert certificates == "../../results/certificates"
    assert {name for name, _ in places} == {
        *("audit", "bridge", "certify", "list", "rates", "report", "reproduce", "run", "show"),
        "sweep",
    }
    assert set(places.values()) == {"../../results"}


#: What commands have to be given.
NEEDED = {name: ["a"] for name in ("show", "run", "sweep", "bridge")}


def test_without_a_table_results_are_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.other]\n")
    monkeypatch.chdir(tmp_path / "inner")
    assert results() == Path("results")
    (tmp_path / "pyproject.toml").write_text("[tool.ratecheck]\nfiles = []\n")
    assert results() == Path("../results")


@pytest.mark.slow
def test_commands_know_the_project(write: Write) -> None:
    decay = DECAY.replace("toy/decay", "mine/decay")
    root = write(
        {
            "work/claims/a.py": a_claim(top="from experiments.helper import one", bound="one"),
            "work/rates/decay.py": decay,
            "work/rates/broken.py": "1 / 0\n",
            "experiments/helper.py": "one = 1\n",
        }
    )
    here = root / "deep"
    fault = "ratecheck: project file must import without error; found ZeroDivisionError"
    listed = command(here, "list", "--json")
    assert (listed.returncode, listed.stderr.count("ZeroDivisionError")) == (0, 1)
    assert {"mine/decay", "mine/a", "affpcl/fig1"} <= {
        row["id"] for row in json.loads(listed.stdout)
    }
    listed = command(here, "show", "mine", "--json")
    assert [row["id"] for row in json.loads(listed.stdout)] == [
        "mine/decay",
        "mine.mass",
        "mine.lemma",
    ]
    shown = command(here, "show", "mine/decay", "--json")
    assert (shown.returncode, json.loads(shown.stdout)["id"]) == (0, "mine/decay")
    ran = command(here, "run", "mine/decay", "--json", "--no-figures")
    told = "ratecheck: results go to ../results, in the root of the project\n"
    assert (ran.returncode, ran.stderr) == (0, told)
    rates = command(here, "rates", "mine", "--json")
    assert rates.returncode == 1  # not all of the paper could be measured
    assert {row["experiment"] for row in json.loads(rates.stdout)} == {"mine/decay"}
    judged = command(here, "audit", "mine", "--json")
    assert (judged.returncode, judged.stderr.startswith(told + fault)) == (1, True)
    assert [row["verdict"] for row in json.loads(judged.stdout)] == ["holds", "holds"]
    assert command(here, "rates", "--json").stdout == rates.stdout  # those of the project
    (root / "work" / "rates" / "broken.py").unlink()
    listed = command(here, "audit", "--list", "mine", "--json")
    assert listed.returncode == 0
    assert [row["verdict"] for row in json.loads(listed.stdout)] == ["holds", "holds"]
    page = command(here, "report")
    assert page.returncode == 0, page.stderr
    text = (root / "results" / "report.html").read_text()
    assert "mine/decay" in text
    assert text.count("No probability exceeds the bound.") == 2
    alone = command(here, "report", "mine")
    assert (alone.returncode, alone.stdout) == (0, "../results/report-mine.html\n"), alone.stderr
    text = (root / "results" / "report-mine.html").read_text()
    assert "mine/decay" in text
    assert text.count("No probability exceeds the bound.") == 2
    assert "affpcl" not in text
    outside = root.parent / "elsewhere"
    outside.mkdir()
    page = command(outside, "report", str(root / "work"), "--out", str(root / "results"))
    assert page.returncode == 0, page.stderr
    text = (root / "results" / "report-work.html").read_text()
    assert text.count("No probability exceeds the bound.") == 1
    # of this folder alone
    assert "mine/decay" in text
    assert "affpcl" not in text
    page = command(outside, "report", "firm", "--out", str(root / "results"))
    assert page.returncode == 2
    assert "make them with `ratecheck audit firm --out" in page.stderr
    page = command(outside, "report", "nowhere")
    assert (page.returncode, page.stderr) == (
        2,
        "ratecheck: file or folder must exist, or be one of affpcl, firm, fslora, ood, psl; "
        "found no nowhere\n",
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[tool.ratecheck]\nfiles = ["my_paper/my_paper"]\n'),
        pytest.param(
            "[project]\nname = 'x'\n",
            "[project]\nname = 'x'\n\n[tool.ratecheck]\nfiles = [\"my_paper/my_paper\"]\n",
            marks=pytest.mark.slow,
        ),
        (
            "[tool.ratecheck]\n# ours\nfiles = [\n    'a',\n]\n[tool.other]\nfiles = []\n",
            "[tool.ratecheck]\n# ours\nfiles = [\"my_paper/my_paper\", \n    'a',\n]\n"
            "[tool.other]\nfiles = []\n",
        ),
    ],
)
def test_a_new_paper_is_named_in_the_table_beside_it(
    tmp_path: Path, before: str, after: str
) -> None:
    table = tmp_path / "pyproject.toml"
    table.write_text(before)
    assert table in write_project("my_paper", tmp_path)
    assert table.read_text() == after


@pytest.mark.parametrize("text", ["[tool.ratecheck]\nfiles = 'a'\n", "[tool."])
def test_a_table_of_another_form_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(InputError, match=r"pyproject\.toml must be TOML with a list"):
        write_project("my_paper", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["pyproject.toml"]

"""``ratecheck audit``: exit codes, one line per error, and nothing but the answer on stdout."""

from __future__ import annotations

import io
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ratecheck._report import terminal
from ratecheck._report.words import in_words

FILES = Path(__file__).parent / "files"
MINE = FILES / "mine.py"
Call = Callable[..., Any]
ONE = ("--threads", 1)
#: Two claims with certificates.
CERTIFIED = ("affpcl.d1f_sec12", "affpcl.d1i_sec12")
#: Seconds after which a test is stuck; a busy machine may need many times what an idle one does.
STUCK = 600
KEYS = {"id", "verdict", "ratio", "instances", "counterexample", "corrected", "expected", "ok"}
KEYS |= {"measured", "bound", "effort", "seed", "reason", "source", "section", "kind"}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder that has the verdicts of ``mine.py``."""
    out = tmp_path_factory.mktemp("judged")
    command = [sys.executable, "-m", "ratecheck", "audit", str(MINE), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return out


@pytest.fixture
def false(tmp_path: Path) -> Path:
    """The same claims, but nobody expects the false one to be false."""
    path = tmp_path / "false.py"
    path.write_text(MINE.read_text().replace('    expect="violated",\n', ""))
    return path


@pytest.mark.slow
def test_an_expected_violation_is_no_failure(ratecheck: Call, judged: Path) -> None:
    said = ratecheck("audit", MINE, "--out", judged)
    assert (said.code, said.err) == (0, "")
    for text in (
        "Claims about one probability distribution",
        "mine.mass_corrected  holds ",
        "mine.mass: violated\n",
        "  no probability exceeds the sum of squares\n  measured 0.7, bound 0.58\n",
        "  p = [0.3, 0.7]\n  the proof squares a number below one\n",
        "4 claims: 2 hold, 1 not checked, 1 false as stated; all as expected\n",
        f"Verdicts: {judged / 'audit'}\n",
    ):
        assert text in said.out


@pytest.mark.slow
def test_json_is_one_array_with_the_promised_keys(ratecheck: Call, judged: Path) -> None:
    said = ratecheck("audit", MINE, "--out", judged, "--json")
    norm, mass, corrected, taste = json.loads(said.out)
    assert said.code == 0
    assert all(set(claim) >= KEYS for claim in (norm, mass, corrected, taste))
    assert (norm["verdict"], norm["ok"], norm["counterexample"]) == ("holds", True, None)
    assert norm["instances"] >= 3000
    assert (mass["verdict"], mass["corrected"]) == ("violated", "mine.mass_corrected")
    assert (mass["counterexample"], mass["measured"]) == ({"p": [0.3, 0.7]}, "0.7")
    assert mass["ratio"] == pytest.approx(0.7 / 0.58, rel=1e-12)
    assert (taste["verdict"], taste["ratio"], taste["instances"]) == ("not checked", None, 0)


@pytest.mark.slow
def test_an_unexpected_verdict_leaves_one(ratecheck: Call, false: Path, tmp_path: Path) -> None:
    said = ratecheck("audit", false, "--out", tmp_path / "out", *ONE)
    assert said.code == 1
    assert "violated, EXPECTED holds" in said.out
    assert "not as expected: mine.mass\n" in said.out
    said = ratecheck("audit", f"{false}::mine.norm", "--out", tmp_path / "out", "--json")
    assert said.code == 0
    said = ratecheck("audit", f"{false}::*mass*", "--out", tmp_path / "out", "--json")
    assert said.code == 1
    assert [claim["ok"] for claim in json.loads(said.out)] == [False, True]


def test_an_error_leaves_one_and_names_the_instance(ratecheck: Call, tmp_path: Path) -> None:
    broken = f"{FILES / 'broken.py'}::broken.raises"
    said = ratecheck("audit", broken, "--out", tmp_path, *ONE)
    assert said.code == 1
    assert "  p = [0.5, 0.5]\n  measure raised RuntimeError: no two (broken.py:" in said.out
    replay = tmp_path / "audit" / "counterexamples" / "broken.raises.json"
    said = ratecheck("audit", "--replay", replay)
    assert (said.code, "reproduced" in said.out) == (0, True)


def test_rates_show_their_exponents(ratecheck: Call, tmp_path: Path) -> None:
    said = ratecheck("audit", FILES / "speed.py", "--out", tmp_path, *ONE)
    assert said.code == 1
    for text in ("-1 (-1)", "-2 (-1)", "violated, EXPECTED consistent", "-0.5 (-1)"):
        assert text in said.out
    assert "not as expected: speed.slower Verdicts:" in " ".join(said.out.split())


@pytest.mark.slow
def test_list_has_every_claim_and_its_last_verdict(ratecheck: Call, judged: Path) -> None:
    said = ratecheck("audit", MINE, "--list", "--json", "--out", judged)
    rows = json.loads(said.out)
    assert [row["verdict"] for row in rows] == ["holds", "violated", "holds", "not checked"]
    assert rows[0] == {
        "id": "mine.norm",
        "kind": "upper",
        "source": "my paper, Lemma 1",
        "section": "Claims about one probability distribution",
        "statement": "the largest probability squared is at most the sum of squares",
        "verdict": "holds",
    }
    said = ratecheck("audit", MINE, "--list", "--out", judged / "absent")
    assert said.code == 0
    assert "no probability exceeds the sum of squares" in said.out
    assert not (judged / "absent").exists()


def test_show_says_all_about_a_claim(ratecheck: Call, judged: Path) -> None:
    said = ratecheck("audit", f"{MINE}::mine.norm", "--show", "--out", judged)
    for text in ("mine.norm (my paper, Lemma 1; upper)", r"LaTeX: \max_k p_k^2", "k from 1 to 3"):
        assert text in said.out
    line = MINE.read_text().splitlines().index("@rc.claim(") + 1
    assert re.search(rf"^File: .*mine\.py:{line}$", said.out, re.MULTILINE)
    assert "p: probability distributions (k)" in said.out
    assert "p = [1.0]" in said.out  # the tightest instance
    said = ratecheck("audit", f"{MINE}::mine.mass", "--show", "--out", judged)
    for text in ("corrected: mine.mass_corrected", "sum p_k^2 <= max p_k sum p_k", "--replay "):
        assert text in said.out
    assert said.out.count("the proof squares a number below one") == 1
    said = ratecheck("audit", f"{MINE}::mine.mass_corrected", "--show", "--out", judged)
    assert said.out.count("sum p_k^2 <= max p_k sum p_k") == 1
    assert "\nPrinted as: ours\nIts proof uses: mine.norm\n" in said.out
    assert "\n  derived\n" in said.out
    said = ratecheck("audit", f"{MINE}::mine.mass", "--show", "--json", "--out", judged)
    (described,) = json.loads(said.out)
    assert described["result"]["counterexample"] == {"p": [0.3, 0.7]}
    assert described["assumptions"] == ["k from 1 to 3", "p: probability distributions (k)"]


def replayed(judged: Path) -> dict[str, Any]:
    path = judged / "audit" / "counterexamples" / "mine.mass.json"
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_replay_shows_both_sides_again(ratecheck: Call, judged: Path, tmp_path: Path) -> None:
    said = ratecheck("audit", "--replay", judged / "audit/counterexamples/mine.mass.json")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines() == [
        "mine.mass: violated (the file says: violated)",
        "  measured 0.7, bound 0.58",
        "  p = [0.3, 0.7]",
        "reproduced",
    ]
    path = tmp_path / "other.json"
    content = replayed(judged)
    # Equal probabilities are no counterexample: the file says what is not so.
    path.write_text(json.dumps({**content, "instance": {"p": [1.0]}}))
    said = ratecheck("audit", "--replay", path, "--json")
    assert (said.code, json.loads(said.out)["verdict"]) == (1, "holds")
    # What breaks an assumption is no instance.
    path.write_text(json.dumps({**content, "instance": {"p": [0.5, 0.6]}}))
    said = ratecheck("audit", "--replay", path)
    assert (said.code, "the instance breaks 'domain of p'" in said.out) == (1, True)
    # A file that has moved is named; without a stated verdict it is the expected one.
    moved = shutil.copy(MINE, tmp_path / "moved.py")
    path.write_text(json.dumps({"id": "mine.mass", "instance": {"p": [0.3, 0.7]}}))
    assert ratecheck("audit", moved, "--replay", path).code == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("", "replay file must be JSON; found Expecting value"),
        ("[1]", "replay file must hold one object; found list"),
        ("{}", "replay file must have `id` and `instance`; found nothing in"),
        ({"id": 3}, "must have `id` and `instance`"),
        ({"instance": [0.3, 0.7]}, "must have `id` and `instance`"),
        ({"id": "mine.mas"}, "found 'mine.mas' (did you mean mine.mass?)"),
        ({"id": "mine.taste"}, "must be of a claim about instances; found mine.taste"),
        ({"verdict": "wrong"}, "must be a verdict; found 'wrong'"),
        ({"file": "/no/such.py"}, "claims file must exist; found no file /no/such.py"),
        ({"instance": {"q": [0.3, 0.7]}}, "must have the fields ['p']; found ['q']"),
        ({"instance": {"p": ["a"]}}, "`p` must be an array of real numbers; found ['a']"),
        (
            {"instance": {"p": [[0.3], 0.7]}},
            "`p` must be an array of real numbers; found [[0.3], 0.7]",
        ),
        ({"instance": {"p": [[0.3, 0.7]]}}, "`p` must have axes"),
        ({"instance": {"p": None}}, "`p` must be an array of real numbers; found None"),
    ],
)
def test_malformed_replay_files_leave_two_and_one_line(
    ratecheck: Call, judged: Path, tmp_path: Path, change: Any, message: str
) -> None:
    path = tmp_path / "replay.json"
    content = change if isinstance(change, str) else json.dumps({**replayed(judged), **change})
    path.write_text(content)
    said = ratecheck("audit", "--replay", path)
    assert (said.code, said.out) == (2, "")
    assert len(said.err.splitlines()) == 1
    assert message in said.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mine.mass"], "known names; found 'mine.mass'; that of a file is FILE.py::mine.mass"),
        (["firm.lemma99"], "known names, such as firm.lemma9"),
        (["affpcl.d1x"], "found 'affpcl.d1x' (did you mean affpcl.d1"),
        (["nothing.*"], "claim pattern must match an id; found 'nothing.*'"),
        (["missing.py"], "claims file must exist; found no file missing.py"),
        ([f"{MINE}::mine.nrm"], "found 'mine.nrm' (did you mean mine.norm?)"),
        ([MINE, "--effort", "qick"], "`effort` must be one of quick, normal, hunt; found 'qick'"),
        ([MINE, "--seed", "-1"], "`seed` must be a whole number of at least 0; found -1"),
        ([MINE, "--threads", "0"], "`threads` must be at least 1; found 0"),
        ([MINE, "--limit", "0"], "`limit` must be a positive number of seconds; found 0"),
        ([MINE, "--limit", "nan"], "`limit` must be a positive number of seconds; found nan"),
        (["--replay", "missing.json"], "replay file must be readable; found missing.json: No such"),
        ([MINE, "--out", MINE], "output folder must be writable; found"),
        ([MINE, "--write", MINE], "folder of `--write` must be writable; found"),
        (["--efort", "quick"], "--efort"),
    ],
)
def test_wrong_arguments_leave_two_and_one_line(
    ratecheck: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[object],
    message: str,
) -> None:
    monkeypatch.setenv("RATECHECK_OUT", str(tmp_path))
    said = ratecheck("audit", *arguments)
    assert (said.code, said.out) == (2, "")
    assert len(said.err.splitlines()) == 1
    assert message in said.err
    assert len(said.err) < 600


def test_write_leaves_the_data_files(ratecheck: Call, judged: Path, tmp_path: Path) -> None:
    said = ratecheck("audit", MINE, "--out", judged, "--write", tmp_path / "data")
    assert said.code == 0
    assert {p.name for p in (tmp_path / "data").iterdir()} == {
        "verdicts.json",
        "verdicts.md",
        "findings.md",
        "counterexamples",
    }
    page = (tmp_path / "data" / "findings.md").read_text()
    assert "### 1. my paper, Lemma 2 (`mine.mass`)" in page
    assert "There the measured side is 0.7, 1.207 times the bound; stated: at most 0.58." in page
    replay = tmp_path / "data" / "counterexamples" / "mine.mass.json"
    assert replay.is_file()
    assert f"Again: `ratecheck audit --replay {replay}`" in page


@pytest.mark.slow
def test_the_catalogue_is_listed_with_the_experiments(ratecheck: Call, tmp_path: Path) -> None:
    said = ratecheck("list", "--json", "--out", tmp_path)
    listed = json.loads(said.out)
    assert len({tuple(row) for row in listed}) == 1  # the keys of all rows
    rows = [row for row in listed if row["kind"] == "claims"]
    assert all(row["claims"] > 0 and row["stored"] == {} for row in rows)
    assert "affpcl/appendix_d" in [row["id"] for row in rows]
    assert all(sum(row["verdicts"].values()) == row["claims"] for row in rows)
    assert all("not judged yet" not in row["verdicts"] for row in rows)  # the papers keep verdicts
    text = ratecheck("list", "--out", tmp_path).out
    assert all(in_words(row["verdicts"])[:20] in text for row in rows)


@pytest.mark.slow
@pytest.mark.usefixtures("toys")
def test_reproduce_judges_the_claims_as_well(
    ratecheck: Call, false: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ratecheck._discover import catalogue

    for path, code in ((MINE, 0), (false, 1)):
        monkeypatch.setattr(
            catalogue, "catalogue", lambda path=path, **_: catalogue.of_file(str(path))
        )
        said = ratecheck("reproduce", "--out", tmp_path / "out", *ONE)
        assert said.code == code
        assert ["toy", "2", "4", "0", "0", "0"] in [line.split() for line in said.out.splitlines()]
        assert "4 claims: 2 hold, 1 not checked, 1 false as stated; " in said.out
    assert "not as expected: mine.mass" in said.out


SLOW = """
import time
from pathlib import Path
from ratecheck import Space, claim, simplex

SPACE = Space(fields={"p": simplex("k")}, sizes={"k": (1, 2)})

@claim(id="slow.first", source="s", kind="upper", space=SPACE, text="at once")
def first(instance):
    return instance.p.max(), 1

@claim(id="slow.second", source="s", kind="upper", space=SPACE, text="once it may")
def second(instance):
    Path(__file__).with_name("begun").touch()
    while not Path(__file__).with_name("go").exists():
        time.sleep(0.01)
    return instance.p.max(), 1
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_audit_resumes(
    command: Callable[..., subprocess.Popen[str]], tmp_path: Path, stop: signal.Signals
) -> None:
    path, out = tmp_path / "slow.py", tmp_path / "out"
    path.write_text(SLOW)
    first = command("audit", path, "--out", out, "--threads", 1)
    kept = out / "audit" / "slow" / "first"
    until = time.monotonic() + STUCK
    while not (list(kept.glob("quick*.json")) and (tmp_path / "begun").exists()):
        assert time.monotonic() < until
        time.sleep(0.05)
    first.send_signal(stop)
    printed, said = first.communicate(timeout=STUCK)
    assert printed == ""
    if stop == signal.SIGINT:
        assert first.returncode == -signal.SIGINT
        assert said.splitlines() == [
            "ratecheck: interrupted; 1 of 2 verdicts are saved, the same command resumes"
        ]
    (record,) = kept.glob("quick*.json")
    when = record.stat().st_mtime_ns
    (tmp_path / "go").touch()
    second = command("audit", path, "--out", out, "--threads", 1, "--json")
    printed, _ = second.communicate(timeout=STUCK)
    assert second.returncode == 0
    assert [claim["verdict"] for claim in json.loads(printed)] == ["holds", "holds"]
    assert record.stat().st_mtime_ns == when


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--list", "--show"), "--list and --show"),
        (("--show", "--write", "w"), "--show and --write"),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    ratecheck: Call, tmp_path: Path, options: tuple[str, ...], fault: str
) -> None:
    said = ratecheck("audit", MINE, *options, "--out", tmp_path)
    assert said.code == 2
    assert said.err.strip().endswith(f"found {fault}")
    assert said.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_bar_says_what_takes_time(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(force_terminal=True, file=io.StringIO(), width=80)
    monkeypatch.setattr(terminal, "console", lambda *, stderr: screen)
    with terminal.progress_bar("audit") as bar:
        assert bar is not None
        bar.doing("planning")
        bar._bar.refresh()
        assert "audit (planning)" in screen.file.getvalue()  # type: ignore[attr-defined]
        assert "None" not in screen.file.getvalue()  # type: ignore[attr-defined]
        bar(3, 8)
        bar.doing("compiling")
        bar._bar.refresh()
        assert "audit (compiling)" in screen.file.getvalue()  # type: ignore[attr-defined]
        bar.doing("a.b: ratio in [1, 1.5], 3 boxes, 2 left; c.d: ratio in [2, 3], 4 boxes, 1 left")
        bar._bar.refresh()
        shown = screen.file.getvalue().splitlines()[-1]  # type: ignore[attr-defined]
        assert "audit (a.b: ratio in [1, 1.5], 3 boxes, " in shown
        assert "3/8" in shown
        screen.file.truncate(0)
        bar.doing("")
        bar._bar.refresh()
    said = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "audit" in said
    assert "compiling" not in said
    assert "3/8" in said


def test_a_line_of_the_answer_takes_the_place_of_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(force_terminal=True, file=io.StringIO(), width=80)
    monkeypatch.setattr(terminal, "console", lambda *, stderr: screen)

    def written() -> str:
        text = screen.file.getvalue()  # type: ignore[attr-defined]
        screen.file.truncate(0)
        screen.file.seek(0)
        return str(text)

    with terminal.progress_bar("certify") as bar:
        assert bar is not None
        bar(1, 8)
        written()
        with bar.away():
            assert written().endswith("\x1b[2K")  # the line of the bar is erased
        bar._bar.refresh()
        assert "1/8" in written()


def test_show_says_of_a_claim_what_audit_show_does(ratecheck: Call, tmp_path: Path) -> None:
    said = ratecheck("show", "affpcl.d1f", "--out", tmp_path)
    assert (said.code, said.err) == (0, "")
    assert said.out == ratecheck("audit", "affpcl.d1f", "--show", "--out", tmp_path).out


def test_what_holds_in_float64_alone_is_told(ratecheck: Call, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "import numpy as np\nimport ratecheck as rc\n"
        "@rc.Paper('mine', 'mine').upper('root', ref='L', on={'x': rc.interval()})\n"
        "def root(x):\n"
        "    'A root of a number of at most one is at most two.'\n"
        "    return np.hypot(x, 0), 2\n"
    )
    said = ratecheck("audit", path, "--out", tmp_path / "out", *ONE)
    assert said.code == 0
    told = " ".join(said.out.split())
    assert "mine.root: holds, ratio in float64 only: measure raised " in told
    assert "(mine.py:6)" in told


def test_every_file_of_certificates_that_is_named_is_checked(
    ratecheck: Call, tmp_path: Path
) -> None:
    kept = json.loads(Path("experiments/affpcl/results/certificates.json").read_text())
    both = {name: next(c for c in kept["certificates"] if c["id"] == name) for name in CERTIFIED}
    paths = [tmp_path / f"{name}.json" for name in both]
    for path, content in zip(paths, both.values(), strict=True):
        path.write_text(json.dumps(content))
    said = ratecheck("certify", "--check", *paths)
    assert said.code == 0
    assert [line.partition(":")[0] for line in said.out.splitlines()] == list(both)
    paths[1].write_text(json.dumps({**both[CERTIFIED[1]], "relation": ">="}))
    refused = ratecheck("certify", "--check", *paths)
    assert refused.code == 1
    assert refused.out.splitlines()[1].startswith(f"{CERTIFIED[1]}: refused: ")


def test_the_exponents_of_a_rate_are_shown_one_by_one(ratecheck: Call, tmp_path: Path) -> None:
    (tmp_path / "rates.py").write_text(
        "import ratecheck as rc\n"
        "@rc.Paper('mine', 'm').rate('late', ref='1')\n"
        "def late():\n"
        "    'O(1/t).'\n"
        "    ends = -1.0000283, -1.0000173\n"
        "    return [rc.Regime('early', 't', -1.0, -2.0, -2.0, -2.0),\n"
        "            rc.Regime('late', 't', -1.0, -1.00002, *ends)]\n"
    )
    where = tmp_path / "rates.py", "--out", tmp_path
    assert ratecheck("audit", *where, *ONE).code == 0
    said = ratecheck("audit", "--show", *where).out
    assert "  early: exponent of t in [-2, -2], stated -1: faster than stated\n" in said
    assert "  late: exponent of t in [-1.000028, -1.000017], stated -1: consistent\n" in said

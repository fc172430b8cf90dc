"""The command: exit codes, one line per error, and nothing but the answer on stdout."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ratecheck as rc
from linsys import InputError
from ratecheck._commands import runs
from ratecheck._commands.app import app
from ratecheck._discover import registry
from ratecheck._report import describe, experiments
from ratecheck._run.job import Outcome

DECAY = Path(__file__).parent / "extra" / "toy" / "rates" / "decay.py"
pytestmark = pytest.mark.usefixtures("toys")
Call = Callable[..., Any]
ONE = ("--threads", 1)


def test_run_prints_checks_and_writes_figures(ratecheck: Call, tmp_path: Path) -> None:
    said = ratecheck("run", "toy/decay", "--out", tmp_path, *ONE)
    assert (said.code, said.err) == (0, "")
    for text in (
        "predicted",
        "slope at [0.5]",
        "agrees with the paper",
        "a note in [brackets]",
        "Theorem 0",
    ):
        assert text in said.out
    for kind in ("png", "svg"):
        path = tmp_path / "figures" / f"toy-decay-quick.{kind}"
        assert path.stat().st_size > 1000
        assert str(path) in said.out


def test_json_of_one_experiment_is_exactly_the_promised_object(
    ratecheck: Call, tmp_path: Path
) -> None:
    said = ratecheck("run", "toy/decay", "--out", tmp_path, "--json", "--set", "loud=true", *ONE)
    answer = json.loads(said.out)
    assert list(answer) == ["experiment", "parameters", "series", "checks"]
    assert answer["experiment"] == "toy/decay"
    assert answer["parameters"]["loud"] is True
    assert all(list(s) == ["name", "panel", "x", "y", "lo", "hi"] for s in answer["series"])
    keys = ["name", "predicted", "measured", "lo", "hi", "ok", "outcome", "paper"]
    keys += ["prediction", "verdict"]
    assert all(list(check) == keys for check in answer["checks"])
    assert all(check["verdict"].startswith(check["outcome"]) for check in answer["checks"])
    assert said.err.splitlines() == ["a library that prints"] * 3


def test_json_of_several_experiments_is_a_list(ratecheck: Call, tmp_path: Path) -> None:
    said = ratecheck("run", "toy/*", "--out", tmp_path, "--json", "--no-figures", *ONE)
    decay, picture = json.loads(said.out)
    assert [decay["experiment"], picture["experiment"]] == ["toy/decay", "toy/picture"]
    [order] = picture["checks"]
    assert (order["predicted"], order["prediction"]) == (None, "AffPCL < Independent")
    assert {type(check["predicted"]) for check in decay["checks"]} == {float}
    assert not (tmp_path / "figures").exists()


@pytest.mark.slow
def test_a_failing_check_leaves_one(ratecheck: Call, tmp_path: Path) -> None:
    said = ratecheck("run", "toy/decay", "--out", tmp_path, "--set", "claimed=1", *ONE)
    assert said.code == 1
    assert "contradicts the paper" in said.out
    said = ratecheck("run", "toy/decay", "--out", tmp_path, "--set", "claimed=1", "--json", *ONE)
    assert said.code == 1
    assert [check["ok"] for check in json.loads(said.out)["checks"]] == [False] * 3


def test_other_parameters_do_not_overwrite_the_profile_s_figure(
    ratecheck: Call, tmp_path: Path
) -> None:
    ratecheck("run", "toy/picture", "--out", tmp_path, *ONE)
    ratecheck("run", "toy/picture", "--out", tmp_path, "--seed", 1, *ONE)
    names = {path.name for path in (tmp_path / "figures").glob("*.png")}
    assert len(names) == 2
    assert "toy-picture-quick.png" in names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["run", "toy/dekay"],
            "experiment must be one of toy/decay, toy/picture; found 'toy/dekay'",
        ),
        (["run", "toy/decay", "--profile", "papr"], "found 'papr' (did you mean paper?)"),
        (
            ["run", "toy/decay", "--seed", "-1"],
            "`seed` must be a whole number of at least 0; found -1",
        ),
        (["run", "toy/decay", "--threads", "0"], "`threads` must be at least 1; found 0"),
        (["run", "toy/decay", "--threads", "two"], "Invalid value for '--threads'"),
        (["run", "toy/decay", "--prfile", "paper"], "--prfile"),
        (["run", "toy/decay", "--set", "replicats=4"], "did you mean replicates?"),
        (["run", "toy/decay", "--set", "data=/no/such.json"], "`data` must be readable"),
        (
            ["run", "toy/decay", "--set", "replicates=10"],
            "`y_replicates` must have shape (at least 30",
        ),
        (["run", "toy/decay", "--redraw"], "must hold a complete result of toy/decay"),
        (["run", "missing.py"], "experiment file must exist; found no file missing.py"),
        (["run"], "Missing argument 'ID...'"),
        (["rates", "toi"], "paper must be one of toy; found 'toi' (did you mean toy?)"),
        (["rates", "toy", "--in", "t,m"], "variable of `--in` must be one of t; found 'm'"),
        (["rates"], "paper must be one of toy, or a folder or file; found none"),
        *(
            (
                [*words, path],
                f"must be an id, a file or a folder; found no such file or folder: {path}",
            )
            for words, path in [
                (["audit"], "nofolder/"),
                (["list"], "nofolder/x.py"),
                (["list"], "nofolder/x"),
                (["rates"], "nofolder/"),
                (["run"], "nofolder/figure"),
            ]
        ),
        (["list", "tooy/decay"], "(did you mean toy/decay?)"),
        (["bench", "tio"], "benchmark must be one of toy; found 'tio' (did you mean toy?)"),
        (["reproduce", "--profile", "large"], "`profile` must be one of quick, laptop, paper"),
        (["reproduce", "--seed", "-1"], "`seed` must be a whole number of at least 0; found -1"),
        (["rnu"], "No such command 'rnu'"),
    ],
)
def test_wrong_arguments_leave_two_and_one_line(
    ratecheck: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.setenv("RATECHECK_OUT", str(tmp_path))
    said = ratecheck(*arguments)
    assert (said.code, said.out) == (2, "")
    assert len(said.err.splitlines()) == 1
    assert said.err.startswith("ratecheck: ")
    assert message in said.err


def test_an_unwritable_folder_is_found_before_computing(
    ratecheck: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    for arguments in (["run", "toy/decay"], ["rates", "toy"], ["reproduce"]):
        said = ratecheck(*arguments, "--out", tmp_path / "file" / "results")
        assert said.code == 2
        assert said.err.startswith("ratecheck: output folder must be writable; found ")
        assert len(said.err.splitlines()) == 1
    assert not (tmp_path / "log").exists()


def test_later_ids_are_checked_before_the_first_is_computed(
    ratecheck: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    assert ratecheck("run", "toy/decay", "toy/nothing", "--out", tmp_path).code == 2
    assert not (tmp_path / "log").exists()


def test_rates_by_variable(ratecheck: Call, tmp_path: Path) -> None:
    said = ratecheck("rates", "toy", "--in", "t", "--out", tmp_path, *ONE)
    assert said.code == 0
    assert "Rates of toy" in said.out
    assert ratecheck("rates", DECAY, "--in", "t", "--out", tmp_path, *ONE).out == said.out.replace(
        "Rates of toy", f"Rates of {DECAY}"
    )
    said = ratecheck("rates", "toy", "--json", "--out", tmp_path, *ONE)
    answer = json.loads(said.out)
    assert len(answer) == 3
    keys = {"experiment", "name", "predicted", "measured", "lo", "hi", "ok", "outcome", "paper"}
    keys |= {"prediction", "verdict"}
    assert all(set(check) == keys for check in answer)


def test_redraw_computes_nothing(
    ratecheck: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratecheck("run", "toy/decay", "--out", tmp_path, "--no-figures", *ONE)
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    monkeypatch.setattr("ratecheck._store.store.revision", lambda experiment: "f" * 16)
    said = ratecheck("run", "toy/decay", "--out", tmp_path, "--redraw")
    assert said.code == 0
    assert "drawn from results of older source code" in said.out
    assert (tmp_path / "figures" / "toy-decay-quick.svg").exists()
    assert not (tmp_path / "log").exists()


@pytest.mark.slow
def test_reproduce_writes_an_index_and_survives_a_broken_experiment(
    ratecheck: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = ratecheck("reproduce", "--out", tmp_path, *ONE)
    assert said.code == 0
    assert said.err.splitlines() == ["toy/decay: ok", "toy/picture: ok"]
    index = (tmp_path / "index.md").read_text()
    assert "![An ordering](figures/toy-picture-quick.png)" in index
    assert "| order | AffPCL < Independent | 0.5455 |" in index
    assert str(tmp_path / "index.md") in said.out
    assert "Predicted against measured" not in said.out
    row = [line.split() for line in said.out.splitlines() if line.lstrip().startswith("toy ")]
    assert row == [["toy", "2", "4", "0", "0", "0"]]
    said = ratecheck("reproduce", "-v", "--out", tmp_path, *ONE)
    assert (said.code, "Predicted against measured" in said.out) == (0, True)
    assert "slope at 0.5" in said.out or "slope at [0.5]" in said.out
    monkeypatch.setenv("TOY_FAIL", "1.5")
    said = ratecheck("reproduce", "--out", tmp_path, "--seed", 5, *ONE)
    assert said.code == 1
    assert "toy/decay did not run: RuntimeError: the toy broke" in said.err
    assert "Did not run: toy/decay\n" in said.out
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["failed"] == {"toy/decay": "RuntimeError: the toy broke"}
    assert [result["experiment"] for result in summary["results"]] == ["toy/picture"]
    said = ratecheck("reproduce", "--out", tmp_path, "--seed", 5, "--json", *ONE)
    assert said.code == 1
    answer = json.loads(said.out)
    assert answer == {**summary, "claims": [], "report": str(tmp_path / "report.html")}


@pytest.mark.slow
def test_experiments_share_the_cores_and_keep_their_order_and_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [str(DECAY.parents[1] / "figures" / "picture.py"), str(DECAY), "toy/nothing"]
    monkeypatch.setattr(registry, "names", lambda: files)  # files: workers know no toys by name
    answers = {}
    for threads in (1, 2):
        outcomes, failures = runs.perform_all(runs.job(tmp_path / f"{threads}", "quick", threads))
        assert list(outcomes) == files[:2]
        assert list(failures) == files[2:]
        assert all(path.exists() for outcome in outcomes.values() for path in outcome.figures)
        answers[threads] = [outcome.to_dict() for outcome in outcomes.values()]
    assert answers[1] == answers[2]


def test_what_is_not_decided_is_shown_and_is_no_failure(
    decay: rc.Experiment[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def outcome(*answers: bool | None) -> Outcome:
        checks = [rc.Check(f"check {ok}", "below 1", 1.0, 0.9, 1.1, ok) for ok in answers]
        return Outcome(decay, decay.profiles["quick"], rc.Analysis([], checks))

    undecided, failing = outcome(True, None), outcome(True, None, False)
    assert (undecided.ok, failing.ok) == (True, False)
    assert experiments.said(undecided) == "ok, 1 undecided"
    assert experiments.said(failing) == "A CHECK FAILS"
    assert [c["ok"] for c in failing.to_dict()["checks"]] == [True, None, False]
    experiments.show_summary(tmp_path, [undecided, failing], {})
    text = capsys.readouterr().out
    assert "Fails: toy/decay: check False\n" in text
    assert [line.split() for line in text.splitlines() if line.strip().startswith("toy ")] == [
        ["toy", "2", "2", "1", "0", "2"]
    ]
    index = (tmp_path / "index.md").read_text()
    assert "| [0.9, 1.1] | agrees with the paper |" in index
    assert "| [0.9, 1.1] | undecided |" in index
    assert "| [0.9, 1.1] | contradicts the paper |" in index


def test_what_contradicts_the_paper_is_not_counted_as_what_agrees(
    decay: rc.Experiment[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gain = rc.above("gain", "above 0", rc.exact(0.5))
    checks = [
        gain,
        rc.our_own(gain),
        rc.our_own(gain, paper="below 0"),
        rc.our_own(rc.below("loss", "below 0", rc.exact(0.5), 0.0), paper="above 0"),
        rc.our_own(rc.above("open", "above 0", rc.Interval(0.5, -1.0, 1.0)), paper="below 0"),
    ]
    assert [check.outcome for check in checks] == [
        "agrees with the paper",
        "our own prediction",
        "contradicts the paper",
        "our own prediction fails",
        "undecided",
    ]
    assert [check.ok for check in checks] == [True, True, True, False, None]
    outcome = Outcome(decay, decay.profiles["quick"], rc.Analysis([], checks))
    experiments.show_summary(tmp_path, [outcome], {}, in_full=True)
    text = capsys.readouterr().out
    assert "above 0 (the paper: below 0)" in " ".join(text.split())
    lines = text[text.index("Checks of figures and rates") :].splitlines()
    assert [line.split() for line in lines if line.strip().startswith("toy ")] == [
        ["toy", "1", "1", "1", "1", "1", "1"]
    ]
    with pytest.raises(InputError, match="`paper` of check `gain` must come with `ours`"):
        dataclasses.replace(gain, paper="below 0")


def test_a_summary_is_a_screen_however_much_fails(
    decay: rc.Experiment[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = [rc.below(f"check {k}", "below 1", rc.exact(2.0)) for k in range(500)]
    outcome = Outcome(decay, decay.profiles["quick"], rc.Analysis([], checks))
    experiments.show_summary(tmp_path, [outcome] * 40, {})
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 24
    told = [line for line in text.splitlines() if line.startswith("Fails: toy/")]
    assert told
    assert f"Fails: {20_000 - len(told)} more\n" in text


def test_list_shows_what_is_stored(ratecheck: Call, tmp_path: Path) -> None:
    ratecheck("run", "toy/decay", "--out", tmp_path, "--no-figures", *ONE)
    said = ratecheck("list", "--json", "--out", tmp_path)
    rows = {row["id"]: row for row in json.loads(said.out)}
    assert rows["toy/decay"]["stored"] == {"quick": "3/3", "paper": "0/3"}
    assert rows["toy/picture"]["kind"] == "figure"
    keys = ["id", "paper", "kind", "title", "source", "variable", "stored", "claims", "verdicts"]
    assert all(list(row) == keys for row in rows.values())
    said = ratecheck("list", "--out", tmp_path / "absent")
    assert "Power-law decay" in said.out
    assert not (tmp_path / "absent").exists()


def test_bench_prints_every_peer_and_the_machine(ratecheck: Call) -> None:
    said = ratecheck("bench", "toy", "--json", "--quick")
    row = {"name": "toy", "peer": "a peer", "ours_s": 0.5, "peer_s": 1.0, "ratio": 2.0}
    where = {"machine": {"host": platform.node(), **rc.machine()}, "versions": rc.versions()}
    assert json.loads(said.out) == [{"benchmark": "toy", **row, "correct": True, **where}]
    assert said.err == "peers print, too\n"
    said = ratecheck("bench", "toy")
    assert "4.00" in said.out
    words = " ".join(said.out.split())
    assert f"toy on {platform.node()}: {rc.machine()['cpu']}, {rc.cores()} cores, " in words
    assert f"numpy {rc.versions()['numpy']}" in words


def test_a_benchmark_that_is_broken_costs_no_other(
    ratecheck: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = registry.benchmarks()
    monkeypatch.setattr(registry, "benchmarks", lambda: {**known, "lost": "no_such.module"})
    said = ratecheck("bench", "lost", "toy", "toy", "--json")
    line = "ratecheck: lost did not run: ModuleNotFoundError: No module named 'no_such'"
    assert (said.code, said.err.splitlines()[1:]) == (1, [line])
    assert [row["benchmark"] for row in json.loads(said.out)] == ["toy"]


@pytest.mark.parametrize("each", [7.4, 7.6])
def test_a_pipe_is_told_once_what_is_left_of_a_long_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, each: float
) -> None:
    now = 0.0
    monkeypatch.setattr(runs, "time", SimpleNamespace(perf_counter=lambda: now))
    left = runs._Left("toy/decay", 2)
    for done in range(3, 14):  # three are there already
        left(done, 13)
        now += each
    line = "toy/decay: 2 blocks took 15.2 s; 8 are left, 1 min 1 s if they are like these\n"
    assert capsys.readouterr().err == (line if each > 7.5 else "")


def test_version_and_help(ratecheck: Call) -> None:
    assert "numpy 2" in ratecheck("version").out
    assert json.loads(ratecheck("version", "--json").out) == rc.versions()
    assert "reproduce" in ratecheck("--help").out
    bare = ratecheck()
    assert bare.code == 2
    assert bare.err == ""


def test_typer_s_own_runner_sees_the_commands(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    done = CliRunner().invoke(
        app, ["run", "toy/picture", "--out", str(tmp_path), "--json", *map(str, ONE)]
    )
    assert done.exit_code == 0
    assert json.loads(done.stdout)["experiment"] == "toy/picture"


def test_the_command_line_imports_no_numerical_library() -> None:
    libraries = {"numpy", "numba", "matplotlib"}
    code = f"import sys, ratecheck._commands.app; print({libraries} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.slow
def test_processes_of_their_own(
    command: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    picture = DECAY.parents[1] / "figures" / "picture.py"
    arguments = ("run", picture, "--out", tmp_path, "--json", "--no-figures", "--threads", 2)
    good = command(*arguments, TOY_LOUD="yes")
    bad = command("run", "toy/unknown", "--out", tmp_path)
    out, err = good.communicate(timeout=600)
    assert good.returncode == 0
    said = "a library that prints"  # by the workers, too, two of them perhaps at the same moment
    assert (err.count(said), err.replace(said, "").strip()) == (3, "")
    assert json.loads(out)["experiment"] == "toy/picture"
    out, err = bad.communicate(timeout=600)
    assert (bad.returncode, out) == (2, "")
    assert len(err.splitlines()) == 1


def test_show_names_every_parameter_as_set_takes_it(ratecheck: Call, tmp_path: Path) -> None:
    said = ratecheck("show", "toy/decay", "--json")
    described = json.loads(said.out)
    assert (said.code, described["id"], described["source"]) == (0, "toy/decay", "Theorem 0")
    parameters = described["parameters"]
    assert set(parameters) >= {"seed", "loud", "claimed"}
    assert set(parameters["seed"]) == {"quick", "paper"}
    text = ratecheck("show", "toy/decay").out
    assert all(name in text for name in parameters)
    # What it prints for a parameter is what `--set` reads back as the same value.
    for name, values in parameters.items():
        setting = f"{name}={describe._setting(values['quick'])}"
        run = ratecheck(
            "run", "toy/decay", "--out", tmp_path, "--set", setting, "--json", "--no-figures", *ONE
        )
        assert json.loads(run.out)["parameters"][name] == values["quick"]


def test_show_of_an_unknown_experiment_suggests_the_nearest(ratecheck: Call) -> None:
    said = ratecheck("show", "toy/deacy")
    assert said.code == 2
    assert "did you mean toy/decay?" in said.err


@pytest.mark.parametrize(
    ("given", "threads"),
    [({}, 1), ({"OPENBLAS_NUM_THREADS": "2"}, 2), ({"OMP_NUM_THREADS": "2"}, 2)],
)
def test_products_take_one_thread_unless_the_caller_says_otherwise(
    given: dict[str, str], threads: int
) -> None:
    code = (
        "import sys; from ratecheck.cli import main; sys.argv = ['ratecheck', '--version']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "import numpy, threadpoolctl\n"
        "print(max(i['num_threads'] for i in threadpoolctl.threadpool_info()), file=sys.stderr)"
    )
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**environment, **given}
    )
    assert int(done.stderr) == min(threads, os.cpu_count() or 1)

"""The command for experiments on models, without a model: names, options, what is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ratecheck._commands.app import main
from ratecheck._discover import registry


def _call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main([str(a) for a in arguments])
    said = capsys.readouterr()
    return int(left.value.code or 0), said.out, said.err


def test_an_unknown_name_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _call(capsys, "bridge", "afpcl")
    assert (code, out) == (2, "")
    assert err.startswith("ratecheck: experiment on models must be ")
    assert len(err.splitlines()) == 1


def test_without_torch_the_command_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [n for n in sys.modules if n.split(".")[0] == "lora_bridge"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(registry, "on_models", lambda: ["bridge/x"])
    code, out, err = _call(capsys, "bridge", "x")
    assert (code, out) == (2, "")
    assert "pip install 'ratecheck[llm]'" in err


def test_models_and_data_are_settings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: dict[str, Any] = {}

    def run(job: Any, references: list[str], as_json: bool, *, alone: bool) -> None:
        seen.update(overrides=job.overrides, references=references)

    monkeypatch.setattr(registry, "on_models", lambda: ["bridge/x"])
    monkeypatch.setattr("ratecheck._commands.app._run", run)
    monkeypatch.setattr("ratecheck._commands.runs.planned", lambda job, name, seconds: job)
    arguments = ("--model", tmp_path, "--data", "d.json", "--set", "seeds=2", "--out", tmp_path)
    assert _call(capsys, "bridge", "x", *arguments)[0] == 0
    assert seen == {
        "overrides": (f"model={tmp_path}", "data=d.json", "seeds=2"),
        "references": ["bridge/x"],
    }
    # a model that is set is the only one asked for, whatever the model of the profile
    set_there = ("--profile", "laptop", "--set", f"model={tmp_path}", "--out", tmp_path)
    assert _call(capsys, "bridge", "x", *set_there)[0] == 0
    assert seen["overrides"] == (f"model={tmp_path}",)


def test_experiments_on_models_are_listed_without_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from ratecheck._discover import registry\n"
        "print(*[registry.find_experiment(name).title for name in registry.on_models()], sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == max(len(registry.on_models()), 1)


def test_synthetic_experiments_are_not_mixed_with_those_on_models() -> None:
    assert not set(registry.names()) & set(registry.on_models())
    assert not [name for name in registry.names() if name.startswith("bridge/")]


def test_the_paper_profile_says_when_its_model_is_the_built_in_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(registry, "on_models", lambda: ["bridge/x"])
    monkeypatch.setattr("ratecheck._commands.app._run", lambda *rest, **named: None)
    options = ("bridge", "x", "--out", tmp_path, "--profile")
    code, out, err = _call(capsys, *options, "paper")
    assert (code, out, len(err.splitlines())) == (0, "", 1)
    assert "without --model it is the built-in one" in err
    assert _call(capsys, *options, "paper", "--set", f"model={tmp_path}") == (0, "", "")
    assert _call(capsys, *options, "quick") == (0, "", "")


def test_an_interrupted_score_does_not_say_that_it_resumes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("torch")

    def struck(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lora_bridge.scoring.score_file", struck)
    monkeypatch.setattr("ratecheck._commands.app._run", struck)
    monkeypatch.setattr(registry, "on_models", lambda: ["bridge/x"])
    assert _call(capsys, "score", tmp_path) == (130, "", "ratecheck: interrupted\n")
    resumed = (130, "", "ratecheck: interrupted; the same command resumes\n")
    assert _call(capsys, "bridge", "x", "--out", tmp_path) == resumed


def test_the_form_of_prompts_is_a_setting(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    seen: list[Any] = []
    monkeypatch.setattr(registry, "on_models", lambda: ["bridge/x"])
    monkeypatch.setattr(
        "ratecheck._commands.app._run", lambda job, *rest, **named: seen.append(job.overrides)
    )
    file = tmp_path / "form.jinja"
    file.write_text("Q: {{ prompt }}\nA:")
    for form in ("chat", file):
        assert _call(capsys, "bridge", "x", "--prompt", form, "--out", tmp_path)[0] == 0
    assert seen == [("prompt=chat",), ("prompt=Q: {{ prompt }}\nA:",)]
    code, out, err = _call(capsys, "bridge", "x", "--prompt", tmp_path / "none", "--out", tmp_path)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "`prompt` must be auto, chat, plain or the file of a template; found" in err

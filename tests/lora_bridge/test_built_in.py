"""The built-in model: what it learns, and that it is made once, whoever asks and is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest
import torch

from linsys import InputError
from lora_bridge.built_in import BuiltIn, built_in
from lora_bridge.models import load_model
from tests.lora_bridge.test_models import TINY

Maker = Callable[[], subprocess.Popen[str]]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ratecheck" / "models"


def test_the_built_in_model_is_made_once_and_depends_on_its_text(cache: Path) -> None:
    first = built_in("some text that is long enough", TINY)
    stamp = (first / "model.safetensors").stat().st_mtime_ns
    assert built_in("some text that is long enough", TINY) == first
    assert (first / "model.safetensors").stat().st_mtime_ns == stamp
    assert built_in("another text that is long enough", TINY) != first
    assert sorted(os.listdir(cache)) == sorted(
        [first.name, built_in("another text that is long enough", TINY).name]
    )


def test_training_lowers_the_loss_and_leaves_the_generator_alone() -> None:
    text = "abcd" * 50
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    losses = []
    for steps in (0, 60):
        loaded = load_model(built_in(text, BuiltIn(**{**vars(TINY), "steps": steps})))
        ids = torch.tensor([loaded.tokenizer(text[:40])["input_ids"]])
        logits = loaded.model(input_ids=ids).logits
        losses.append(torch.nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:]).item())
    assert losses[1] < 0.5 * losses[0]
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.slow
def test_the_built_in_model_learns_where_a_text_ends() -> None:
    texts = ["aab", "aaab", "ab"] * 10
    whole = ["".join(texts)]
    ends = []
    for given in (texts, whole):
        loaded = load_model(built_in(given, replace(TINY, length=8, steps=150, gamma=0.02)))
        begin, end = loaded.tokenizer.bos_token_id, loaded.tokenizer.eos_token_id
        ids = torch.tensor([[begin, *loaded.tokenizer("aab")["input_ids"]]])
        ends.append(loaded.model(input_ids=ids).logits[0].softmax(-1)[:, end].tolist())
    apart, together = ends
    assert apart[-1] > 0.5 > 10 * max(apart[:-1])
    assert max(together) < 0.1


MAKE = (
    "import select, sys\n"
    "from lora_bridge import built_in as room\n"
    "from tests.lora_bridge.test_models import TINY\n"
    "make = room._make\n"
    "def slow(folder, texts, made):\n"
    "    print('making', flush=True)\n"
    "    select.select([sys.stdin], [], [], 60)\n"
    "    make(folder, texts, made)\n"
    "room._make = slow\n"
    "print(room.built_in('some text that is long enough', TINY).name)\n"
)


@pytest.fixture
def maker(cache: Path) -> Iterator[Maker]:
    """Start a process that makes the model, but says so and waits for a line in between."""
    running: list[subprocess.Popen[str]] = []
    # where Ctrl-C is ignored, as behind nohup, a child would inherit that
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def begin() -> subprocess.Popen[str]:
        pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
        path = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        running.append(subprocess.Popen([sys.executable, "-c", MAKE], env=path, text=True, **pipes))
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.communicate()
    signal.signal(signal.SIGINT, before)


def said(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no lock of folders")
def test_of_two_processes_one_makes_the_model(maker: Maker, cache: Path) -> None:
    first = maker()
    assert said(first.stdout) == "making\n"
    second = maker()
    assert said(second.stderr) == "another process makes a model; waiting for it\n"
    name, errors = first.communicate("\n", timeout=600)
    assert second.communicate(timeout=600) == (name, "")  # without having made it
    assert errors == ""
    assert os.listdir(cache) == [name.strip()]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_making_leaves_nothing_for_long(
    maker: Maker, cache: Path, stop: signal.Signals
) -> None:
    process = maker()
    assert said(process.stdout) == "making\n"
    (unfinished,) = os.listdir(cache)
    assert unfinished.startswith("making-")
    process.send_signal(stop)
    process.communicate(timeout=600)
    assert process.returncode != 0
    assert os.listdir(cache) == ([unfinished] if stop == signal.SIGKILL else [])
    folder = built_in("some text that is long enough", TINY)
    assert os.listdir(cache) == [folder.name]


def test_a_cache_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(InputError, match=r"cache of models \(XDG_CACHE_HOME\) must be writable"):
        built_in("some text that is long enough", TINY)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: built_in([None]), "`texts` must be a list of texts; found None"),
        (lambda: built_in(Path("a")), "`texts` must be a list of texts; found PosixPath"),  # type: ignore[arg-type]
        (
            lambda: built_in("ab" * 99, {"hidden": 8}),
            "`made` must be a BuiltIn; found {'hidden",
        ),  # type: ignore[arg-type]
        (lambda: BuiltIn(seed=1 << 64), "`seed` must be a whole number of at least 0 and at most"),
    ],
)
def test_what_makes_no_model(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_making_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "lora_bridge")
    for _ in range(2):
        folder = built_in("some text that is long enough", TINY)
    assert caplog.messages == [f"training the built-in model, 3 steps, for {folder}"]

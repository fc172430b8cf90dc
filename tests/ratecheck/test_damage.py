"""Files of commands that were damaged since: a line, or the answer of sound ones.

Damages are drawn with a seed. A damaged file is never believed: what a command answers,
where it answers, is what it answered before.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests._damages import damages
from tests.ratecheck.conftest import CLAIMS, DECAY, Said

SEED = 4
SWEEP = ("sweep", "decay.py", "--set", "replicates=2,3", "--part", "1")
#: It takes counterexamples from the folder of results.
PROVED = ("certify", "mine.py", "--results", "out")
#: The commands that read files of a kind, by a part of their path; in these FILE is the file.
READERS: dict[str, list[tuple[str, ...]]] = {
    "out/audit/mine/": [("audit", "mine.py"), ("report", "mine.py")],
    "out/audit/counterexamples/": [
        ("audit", "--replay", "FILE"),
        ("audit", "mine.py"),
        ("report", "mine.py"),
        PROVED,
    ],
    "out/kept/certificates.json": [(*PROVED, "--write", "out/kept")],
    "out/mine.two.json": [("certify", "--check", "FILE")],
    "out/toy/": [
        ("run", "decay.py", "--redraw", "--no-figures"),
        ("run", "decay.py", "--no-figures"),
    ],
    "out/toy/decay/sweep-": [SWEEP],
}


def fresh() -> None:
    """The sound files again."""
    shutil.rmtree("out")
    shutil.copytree("sound", "out")


def plain(said: Said) -> str:
    """What was said, but for times, and for the numbers at which a claim was proved false."""
    text = re.sub(r"\d+(\.\d+)? ?m?s\b", "", said.out)
    return text.splitlines()[-1] if "claims have a certificate" in text else text


@pytest.mark.slow
@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("kind", READERS)
def test_a_damaged_file_is_never_believed(
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ratecheck: Callable[..., Said],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(CLAIMS)
    shutil.copy(DECAY, "decay.py")
    kept = ("certify", "mine.py", "--write", "out/kept")
    for command in (("audit", "mine.py"), kept, ("run", "decay.py"), SWEEP):
        ratecheck(*command, "--out", "out")
    shutil.copytree("out", "sound")
    rng, wrong, tried = random.Random(SEED), [], 0
    for command in READERS[kind]:
        files = sorted(path for path in Path("sound").rglob("*") if path.is_file())
        for sound in (p for p in files if f"out/{p.relative_to('sound')}".startswith(kind)):
            path = Path("out", sound.relative_to("sound"))
            arguments = [str(path) if a == "FILE" else a for a in command]
            if "--check" not in command:
                arguments += ["--out", "out"]
            fresh()
            before = ratecheck(*arguments)
            for content in damages(sound.read_bytes(), rng):
                fresh()
                path.unlink()
                if content is None:
                    path.mkdir()
                else:
                    path.write_bytes(content)
                said = ratecheck(*arguments)
                tried += 1
                case = f"{' '.join(arguments)} with {path} = {(content or b'a folder')[:60]!r}"
                if said.code not in (0, 1, 2) or "Traceback" in said.out + said.err:
                    wrong.append(f"{case}: exit code {said.code}\n{said.err}")
                elif said.code == 2 and (said.out or len(said.err.splitlines()) != 1):
                    wrong.append(f"{case}: more than a line\n{said.out}{said.err}")
                elif said.code == 1 and re.search("NOT reproduced|: refused: ", said.out):
                    continue  # what the file says was computed again, and found to be otherwise
                elif said.code != 2 and plain(said) != plain(before):
                    wrong.append(
                        f"{case}: another answer\n{plain(said)!r}\n{plain(before)!r}\n{said.err}"
                    )
    assert tried > 20
    assert not wrong, f"{len(wrong)} of {tried}\n" + "\n".join(wrong)


#: What is no file of certificates, and what is said of it.
NO_CERTIFICATES = {
    "{": "must be JSON; found Expecting property name",
    "[]": "must hold certificates and unproved; found list",
    '{"certificates": 1}': "must hold certificates and unproved; found the keys ['certificates']",
    '{"certificates": 1, "unproved": []}': "must hold a list of certificates; found 1",
    '{"certificates": [{}], "unproved": [{}]}': "kind, revision under certificates; found {}",
    '{"certificates": [], "unproved": [{"id": 1}]}': 'reason under unproved; found {"id": 1}',
    '{"certificates": [{"id": "a", "kind": "b", "revision": ""}], "unproved": []}': "found 'b' in",
    '{"certificates": [{"id": "a", "kind": "constant", "revision": "", "ratio": 1}], '
    '"unproved": []}': "must hold whole certificates; found that of a damaged (TypeError",
}


@pytest.mark.parametrize("more", [(), ("--constant",)], ids=["", "constant"])
def test_a_damaged_file_of_certificates_is_a_line(
    more: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ratecheck: Callable[..., Said],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(CLAIMS)
    path = Path("kept/certificates.json")
    command = ("certify", "mine.py", *more, "--write", "kept", "--out", "out")
    path.mkdir(parents=True)
    assert "must be readable; found kept/certificates.json" in ratecheck(*command).err
    path.rmdir()
    for content, said in NO_CERTIFICATES.items():
        path.write_text(content)
        done = ratecheck(*command)
        assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
        assert said in done.err
        assert str(path) in done.err
        assert path.read_text() == content

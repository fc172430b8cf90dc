"""Do the tests find mistakes? Single changes of the code, and which test fails for each.

    python -m tests._mutants FOLDER --count 120 --seed 0

clones the repository to FOLDER, draws mutants (another comparison, operator, constant, condition
or argument, a statement or a result that is missing) from the lines of all functions, a third
each from linsys and mgda, from ratecheck, and from lora_bridge and the papers, and prints how
many of them the default tests kill. With ``--same-as REVISION`` only functions are changed that
are the same there, so that both can be given the same: ``--revision REVISION --mutants
FOLDER/mutants.json``. FOLDER keeps what is done, and the same command goes on. It takes an hour.

Which tests are run for a mutant: all tests run once with a probe in the place of every mutant,
which notes the test that comes by, in whatever process it does. Tests that fail with probes look
at the source itself (kept verdicts that are of other code) and count for nothing. Compiled code
can have no probe; there tests are run that name the package. Quick tests that few mutants meet go
first; what would take more than BUDGET seconds is left out, and said beside survivors. What takes
a minute more than three times as long as without the mutant is killed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests import _mutants_child as child
from tests._mutants_draw import GROUPS, Mutant, draw, edit

ROOT = Path(__file__).parents[1]
BUDGET = 60.0  # seconds of tests for a mutant, as they took with probes
ANY_MARKER = ("-m", "slow or not slow")


class Workshop:
    """A clone of a revision, and a process of an interpreter whose modules are the clone's."""

    def __init__(self, folder: Path, revision: str) -> None:
        self.folder = folder.resolve()
        self.tree = self.folder / "tree"
        if not self.tree.exists():
            subprocess.check_call(["git", "clone", "-q", str(ROOT), str(self.tree)])
            self._git("checkout", "-q", "--detach", revision)
        venv.create(self.folder / "venv", symlinks=True)
        own = self.folder / "venv/lib/python{}.{}/site-packages".format(*sys.version_info)
        (own / "_mutants.pth").write_text(f"{self.tree}\n{sysconfig.get_paths()['purelib']}\n")
        self.program = own / "_mutants_probe.py"
        self.program.write_text(Path(child.__file__).read_text())
        (self.folder / "now").write_bytes(bytes(8))
        (self.folder / "log").touch()
        self.process: subprocess.Popen[str] | None = None
        self.restore()

    def _git(self, *words: str) -> str:
        return subprocess.check_output(["git", *words], cwd=self.tree, text=True)

    def files(self) -> list[str]:
        """Python files of the revision."""
        return self._git("ls-files", "*.py").split()

    def restore(self) -> None:
        """Undo all edits."""
        self._git("checkout", "-q", ".")

    def close(self) -> None:
        """End the process that runs tests."""
        if self.process is not None:
            self.process.communicate()

    def pytest(self, words: list[str], seconds: float = 1e6) -> tuple[str, list[list[Any]]]:
        """Run tests: "passed", "failed", "timeout" or "no tests", and the rows of outcomes."""
        if self.process is None:
            bin_folder, out = self.folder / "venv/bin", self.folder / "numba"
            path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
            threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
            environment = {**os.environ, **threads, "PATH": path, "NUMBA_CACHE_DIR": str(out)}
            environment.pop("PYTHONPATH", None)
            command = ["nice", "-n", "5", str(bin_folder / "python"), "-P", str(self.program)]
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self.process = subprocess.Popen(
                command, cwd=self.tree, env=environment, text=True, **pipes
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        outcomes = self.folder / "outcomes.jsonl"
        outcomes.write_text("")
        print(json.dumps([words, str(outcomes), seconds]), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().strip()
        assert answer, f"the process that runs tests has ended; see {self.folder / 'log'}"
        return answer, [json.loads(line) for line in outcomes.read_text().splitlines()]


@dataclass
class Map:
    """Tests that pass with probes, with their seconds; those that do not; who meets a mutant."""

    times: dict[str, float]
    failed: dict[str, str]
    met: dict[int, list[str]]


def made_map(shop: Workshop, mutants: dict[int, Mutant], words: list[str]) -> Map:
    """Run tests with probes.

    What a fixture comes by is taken for all tests of its file. What is met before any test, when
    files are imported, may concern all tests, and no test meets compiled code: tests are taken
    whose file names the module or, of compiled code, its package. Quick tests that meet few
    mutants are first.
    """
    (shop.folder / "hits").write_bytes(b"")
    edit(shop.tree, {n: one for n, one in mutants.items() if not one.compiled}, probes=True)
    _, rows = shop.pytest(words)
    shop.restore()
    failed = {test: said for test, outcome, *_, said in rows if outcome == "failed"}
    times = {test: max(s, 1e-3) for test, _, s, *_ in rows if test not in failed}
    names = {number: test for test, _, _, number, _ in rows}
    by_file: dict[str, list[str]] = defaultdict(list)
    for test in times:
        by_file[test.split("::")[0]].append(test)
    texts = {path: (shop.tree / path).read_text() for path in by_file}
    met: dict[int, set[str]] = {number: set() for number in mutants}
    alike = {number for number, one in mutants.items() if one.compiled}
    for line in (shop.folder / "hits").read_text().splitlines():
        mutant, now = map(int, line.split())
        test = names.get(now // 2, "")
        met[mutant].update([test] if now % 2 else by_file[test.split("::")[0]])
        if not now:
            alike.add(mutant)
    for number in alike:
        module = mutants[number].path[:-3].replace("/", ".")
        named = module.rsplit(".", 1)[0] if mutants[number].compiled else module
        near = [by_file[path] for path, text in texts.items() if named in text]
        met[number].update(*(near or by_file.values()))
    often = Counter(test for tests in met.values() for test in tests)
    return Map(
        times,
        failed,
        {
            number: sorted(tests & times.keys(), key=lambda test: (times[test] * often[test], test))
            for number, tests in met.items()
        },
    )


def tried(shop: Workshop, number: int, mutant: Mutant, seen: Map) -> dict[str, Any]:
    """Run the tests of a mutant until one fails."""
    chosen, total, tests = list[str](), 0.0, seen.met[number]
    for test in tests:
        if total + seen.times[test] <= BUDGET or not chosen:
            chosen.append(test)
            total += seen.times[test]
    row = {"mutant": number, "outcome": "no tests", "by": "", "why": ""}
    row["left_out"] = len(tests) - len(chosen)
    edit(shop.tree, {number: mutant}, probes=False)
    for part in (chosen[:8], chosen[8:]):
        if part and row["outcome"] in ("no tests", "passed"):
            words = ["-x", "-q", *ANY_MARKER, *part]
            row["outcome"], rows = shop.pytest(words, 60 + 3 * total)
            if row["outcome"] == "failed":
                broken = [one for one in rows if one[1] == "failed"]
                row["by"], row["why"] = (broken[0][0], broken[0][4]) if broken else ("import", "")
    shop.restore()
    return row


def table(mutants: dict[int, Mutant], rows: list[dict[str, Any]]) -> str:
    """How many of each group are killed, and every survivor."""
    lines = [f"{'':<22}{'killed':>8}{'of':>6}{'met by no test':>17}"]
    for group in GROUPS:
        own = [row["outcome"] for row in rows if mutants[row["mutant"]].group == group]
        killed, alone = own.count("failed") + own.count("timeout"), own.count("no tests")
        lines.append(f"{group:<22}{killed:>8}{len(own):>6}{alone:>17}")
    for row in rows:
        if row["outcome"] in ("passed", "no tests"):
            left = f", {row['left_out']} tests left out" if row["left_out"] else ""
            lines.append(f"{mutants[row['mutant']]} ({row['outcome']}{left})")
    return "\n".join(lines)


def main() -> None:
    """Draw, make the map, try one after the other, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--revision", default="HEAD")
    parser.add_argument("--same-as", metavar="REVISION")
    parser.add_argument("--mutants", type=Path, help="those of another folder")
    parser.add_argument("--tests", nargs="+", default=[], help="for pytest; the default tests")
    options = parser.parse_args()
    folder: Path = options.folder
    shop = Workshop(folder, options.revision)
    drawn = options.mutants or folder / "mutants.json"
    if not drawn.exists():
        there = Workshop(folder / "same", options.same_as).tree if options.same_as else None
        new = draw(shop.tree, shop.files(), there, options.count, options.seed)
        drawn.write_text(json.dumps([asdict(one) for one in new], indent=0, ensure_ascii=False))
    mutants = {n: Mutant(**one) for n, one in enumerate(json.loads(drawn.read_text()))}
    kept = folder / "map.json"
    if not kept.exists():
        kept.write_text(json.dumps(asdict(made_map(shop, mutants, options.tests)), indent=0))
    seen = Map(**json.loads(kept.read_text()))
    seen.met = {int(number): tests for number, tests in seen.met.items()}
    results = folder / "results.jsonl"
    results.touch()
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    for number, mutant in mutants.items():
        if number not in {row["mutant"] for row in rows}:
            rows.append(tried(shop, number, mutant, seen))
            with results.open("a") as file:
                print(json.dumps(rows[-1]), file=file)
    shop.close()
    print(table(mutants, rows))


if __name__ == "__main__":
    main()

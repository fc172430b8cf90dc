"""A violation that was found before the limit struck is one, as it was found."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import ratecheck as rc
from ratecheck._discover.catalogue import find_claims, module
from ratecheck._verdicts.judging import judge_all
from ratecheck._verdicts.records import Records, audit
from ratecheck._verdicts.replay import replay_file

#: Its measure takes long from the moment at which high precision has confirmed a violation.
CLAIM = """
import ratecheck as rc

confirmed = 0

def slow():
    {slow}

@rc.claim(
    id="mine.hat", source="Lemma 1", kind="upper", text="a hat", fields={{"x": rc.interval()}}
)
def hat(x):
    global confirmed
    if confirmed == 3:  # the first time it is asked for, before the search
        slow()
    confirmed += not isinstance(x, float)
    return 1 - abs(x - 0.37), 0.9
"""


def claim(path: Path, slow: str) -> Any:
    path.write_text(CLAIM.format(slow=slow))
    (item,) = find_claims([str(path)])
    return item


def assert_as_found(verdict: rc.Verdict, item: Any) -> None:
    assert verdict.verdict == "violated"
    assert verdict.counterexample is not None
    x = verdict.counterexample["x"]
    assert 0.27 < x < 0.47
    assert len(str(x)) > 6  # nobody has made it simple
    assert verdict.reason.endswith(
        "before the counterexample was made simple; a larger limit allows it"
    )
    assert verdict.evidence == "confirmed at 40 and 80 digits"
    assert float(verdict.measured) == pytest.approx(1 - abs(x - 0.37))


def test_the_limit_strikes_while_it_is_made_simple(tmp_path: Path) -> None:
    item = claim(tmp_path / "mine.py", "while True: pass")
    verdicts: list[rc.Verdict] = []
    began = time.process_time()
    verdict = rc.judge(item.entry, limit=1.0, violated=verdicts.append)
    assert time.process_time() - began < 10
    assert verdict.reason.startswith("no answer within 1 s of CPU time")
    vars(module(item.origin))["slow"] = lambda: None  # from now on it is fast
    assert_as_found(verdict, item)
    assert [one.counterexample for one in verdicts] == [verdict.counterexample]
    simple = rc.judge(item.entry)
    assert (simple.verdict, simple.counterexample) == ("violated", {"x": 0.4})


@pytest.mark.slow
@pytest.mark.parametrize("slow", ["sum(range(10**12))", "import os; os._exit(3)"])
def test_its_process_ends_while_it_is_made_simple(slow: str, tmp_path: Path) -> None:
    """The first one is compiled code, which no limit interrupts: the kernel ends the process."""
    item = claim(tmp_path / "mine.py", slow)
    ((_, verdict),) = judge_all([item], "quick", 0, workers=1, limit=1.0)
    assert verdict.reason.startswith("its process ended before")
    assert_as_found(verdict, item)


@pytest.mark.slow
def test_the_command_writes_it_and_judges_it_again(tmp_path: Path) -> None:
    item = claim(tmp_path / "mine.py", "while True: pass")
    records = Records(tmp_path / "out")
    for _ in range(2):
        (result,) = audit([item], records, effort="quick", seed=0, workers=1, limit=1.0)
        assert result.verdict.verdict == "violated"
        assert not list((tmp_path / "out").glob("audit/mine/**/*.json"))  # it is not final
    (tmp_path / "mine.py").write_text(CLAIM.format(slow="pass"))
    assert replay_file(records.replay_path(item), [str(tmp_path / "mine.py")]).ok

"""One line in a test suite: silence where a claim holds, else all one needs to see it fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ratecheck as rc
from linsys import InputError
from ratecheck._discover.catalogue import find_claims
from ratecheck._verdicts.replay import replay_file

MINE = Path(__file__).parent / "files" / "mine.py"


def test_a_false_claim_fails_with_its_counterexample(tmp_path: Path) -> None:
    norm, mass, corrected, _ = (item.entry for item in find_claims([str(MINE)]))
    rc.assert_holds(norm)
    rc.assert_holds(corrected, effort="quick", seed=1)
    with pytest.raises(AssertionError) as failed:
        rc.assert_holds(replace(mass, expect="holds"))
    said = str(failed.value).splitlines()
    assert said[0] == "mine.mass (my paper, Lemma 2) is violated: no probability exceeds " + (
        "the sum of squares"
    )
    assert said[1] == "measured 0.7, bound 0.58, ratio 1.2069"
    path = tmp_path / "again.json"
    path.write_text(said[-1])
    assert json.loads(said[-1])["instance"] == {"p": [0.3, 0.7]}
    assert replay_file(path).ok


def test_a_failure_shows_the_line_of_the_test_and_not_our_source(tmp_path: Path) -> None:
    path = tmp_path / "test_mine.py"
    path.write_text(
        "import ratecheck as rc\n"
        "def test_it():\n"
        "    rc.assert_holds(rc.NotChecked(id='mine.n', source='p', text='t', note='why'))\n"
        "def test_none():\n"
        "    rc.assert_holds(3)\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n0", str(path)]
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), "-c", os.devnull],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ">       rc.assert_holds(3)" in done.stdout
    assert "E       AssertionError: mine.n (p) is not checked: t" in done.stdout
    assert "testing.py" not in done.stdout


def test_only_what_is_true_passes() -> None:
    def rate(measured: float) -> rc.RateClaim:
        regimes = [rc.Regime("late", "t", -1.0, measured, measured, measured)]
        return rc.RateClaim(id="mine.rate", source="p", text="1/t", regimes=lambda: regimes)

    rc.assert_holds(rate(-1.0))
    with pytest.raises(AssertionError, match=r"mine\.rate \(p\) is violated: 1/t"):
        rc.assert_holds(rate(-0.5))
    with pytest.raises(AssertionError, match="is not checked: t\nwhy"):
        rc.assert_holds(rc.NotChecked(id="mine.n", source="p", text="t", note="why"))


def test_ids_name_claims_of_the_catalogue() -> None:
    rc.assert_holds("affpcl.d1a")
    with pytest.raises(InputError, match=r"claim must be one of .* known names"):
        rc.assert_holds("affpcl.nothing_like_it")


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ("affpcl.d1*", "must be one id; found 'affpcl.d1\\*', which names"),
        (len, "must be a claim or an id; found <built-in function len>"),
    ],
)
def test_what_is_not_one_claim_is_refused(claim: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        rc.assert_holds(claim)


def test_the_helper_needs_no_test_runner() -> None:
    code = "import sys, ratecheck._verdicts.testing; print('pytest' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_claim_that_is_to_be_false_must_be() -> None:
    fields = {"x": rc.interval()}
    options: dict[str, Any] = {"source": "p", "kind": "upper", "text": "t", "expect": "violated"}
    false = rc.claim(id="mine.false", fields=fields, **options)(lambda s: (s.x, 0.5))
    rc.assert_holds(false)
    true = rc.claim(id="mine.true", fields=fields, **options)(lambda s: (s.x, 1))
    said = r"mine\.true \(p\) is expected to be violated, holds on [\d,]+ instances: t"
    with pytest.raises(AssertionError, match=said):
        rc.assert_holds(true)


def test_an_unknown_field_is_answered_with_the_known_ones() -> None:
    claim = rc.claim(
        id="mine.field", fields={"x": rc.interval()}, source="p", kind="upper", text="t"
    )(lambda s: (s.y, 1))
    assert "an instance has the fields x; found no 'y'" in rc.judge(claim).reason


def test_a_negative_bound_has_no_least_constant() -> None:
    claim = rc.claim(
        id="mine.negative", fields={"x": rc.interval(low=0.2)}, source="p", kind="upper", text="t"
    )(lambda s: (-s.x, -2 * s.x))
    constant = rc.tightest(claim)
    assert constant.factor is None
    assert constant.reason.startswith("both sides are negative on an instance")


def test_fields_are_names_and_domains() -> None:
    with pytest.raises(InputError, match=r"`fields` must be names and their domains, .*'q'\)"):
        rc.Space(fields=("p", "q"))  # type: ignore[arg-type]

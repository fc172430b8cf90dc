"""Claims in a test suite: one line per claim, whatever runs the tests.

from ratecheck._verdicts.testing import assert_holds

def test_lemma_1():
    assert_holds(lemma_1)
"""

from __future__ import annotations

import json
import shlex
import sys
from typing import Any

from linsys.validate import InputError
from ratecheck._claims.claim import Claim, Entry, Statement, StatisticalClaim
from ratecheck._claims.made import file_of
from ratecheck._discover.catalogue import catalogue, find_claims
from ratecheck._discover.named import given_beside
from ratecheck._discover.papers import installed
from ratecheck._fallback import OWN
from ratecheck._verdicts.certified import contradiction
from ratecheck._verdicts.verdict import Verdict, judge

#: The verdicts of a true claim: a bound that says something, or a rate as it is stated.
_TRUE = ("holds", "consistent")
#: What is expected of a claim, and what came out, as parts of a sentence; by default "to be" and
#: "is" with the verdict.
_EXPECTED = {"holds": "to hold", "not checked": "not to be checked"}
_CAME_OUT = {"holds": "holds", "error": "ends with an error"}


def assert_holds(claim: Entry | str, *, effort: str = "quick", seed: int = 0) -> None:
    """Search for a counterexample of a claim in this process; a false one must have one.

    Args:
        claim: the claim, or the id of one of the catalogue.
        effort: "quick" (about a second), "normal" or "hunt".
        seed: of everything random.

    Raises:
        AssertionError: if the claim does not come out as true, or as violated where its ``expect``
            is that; with the shrunk counterexample and how to replay it. Also if a certificate in
            the results says the contrary.
        InputError: if this is no claim, or the id of none.

    >>> from ratecheck import claim, simplex
    >>> @claim(
    ...     id="mine.mass", source="my paper, Lemma 1", kind="upper", fields={"p": simplex("k")},
    ...     text="no probability exceeds the root of the sum of squares",
    ... )
    ... def mass(instance):
    ...     return instance.p.max() ** 2, (instance.p**2).sum()
    >>> assert_holds(mass)
    """
    __tracebackhide__ = True  # pytest shows the line that calls this, not our source
    entry = entry_of(claim)
    verdict = judge(entry, effort, seed)
    if entry.expect == "violated":
        if verdict.verdict != "violated":
            raise AssertionError(failure(entry, verdict, "violated"))
    elif verdict.verdict not in _TRUE:
        raise AssertionError(failure(entry, verdict))
    check_certificates(entry, verdict.evidence, verdict.verdict)


def check_certificates(entry: Entry, decided: str, verdict: str) -> None:
    """Refuse a verdict that a certificate of current code contradicts.

    Args:
        entry: the claim.
        decided: what did, as :attr:`ratecheck._verdicts.verdict.Verdict.evidence`.
        verdict: the one that came out.

    Raises:
        AssertionError: with what contradicts what.
    """
    __tracebackhide__ = True
    if against := contradiction(origin_of(entry), entry.id, decided, verdict):
        text = " ".join(entry.text.split())
        said = _CAME_OUT.get(verdict, f"is {verdict}")
        raise AssertionError(f"{entry.id} ({entry.source}) {said}: {text}\n{against}")


def origin_of(entry: Entry) -> str:
    """The module of a claim of an installed paper, or else the file that makes it."""
    function = getattr(entry, "function", None) or getattr(entry, "regimes", None)
    path = file_of(entry, function)
    package = installed().get(entry.paper)
    if package is None:
        return path
    modules = [
        name.removeprefix(OWN)
        for name, module in sys.modules.copy().items()
        if name.removeprefix(OWN).startswith(f"{package}.")
        and getattr(module, "__file__", None) == path
    ]
    return modules[0] if modules else path


def failure(entry: Entry, verdict: Verdict, expected: str = "") -> str:
    """A verdict that is not the expected one, in words, and how to see it again."""
    said = _CAME_OUT.get(verdict.verdict, f"is {verdict.verdict}")
    if verdict.verdict == "holds":
        number = verdict.instances
        said += f" on {'1 instance' if number == 1 else f'{number:,} instances'}"
    if expected:
        said = f"is expected {_EXPECTED.get(expected, f'to be {expected}')}, {said}"
    lines = [f"{entry.id} ({entry.source}) {said}: {' '.join(entry.text.split())}"]
    return "\n".join([*lines, *evaluated(entry, verdict)])


def evaluated(entry: Entry, verdict: Verdict) -> list[str]:
    """What a verdict rests on, as lines: both sides, the reason, and the instance."""
    lines = []
    if verdict.measured:
        ratio = "" if verdict.ratio is None else f", ratio {verdict.ratio:.6g}"
        lines.append(f"measured {verdict.measured}, bound {verdict.bound}{ratio}")
    if verdict.reason:
        lines.append(verdict.reason)
    if verdict.counterexample is not None:
        file = _file(entry)
        content = {"id": entry.id, **file, "verdict": verdict.verdict}
        instance = json.dumps({**content, "instance": verdict.counterexample})
        beside = [path for one in file.values() for path in given_beside(one)]
        again = shlex.join(["ratecheck", "audit", *beside, "--replay", "FILE"])
        lines += [f"to replay: save the next line, then {again}", instance]
    elif verdict.best is not None:
        lines += ["on the tightest instance found:", json.dumps(verdict.best)]
    return lines


def entry_of(claim: Any) -> Any:
    """The claim itself, or that of the catalogue with this id; InputError where there is none."""
    __tracebackhide__ = True
    if isinstance(claim, str):
        entries = [item.entry for item in find_claims([claim])]
        if len(entries) > 1:  # it would not be clear which one holds
            raise InputError(f"`claim` must be one id; found {claim!r}, which names {len(entries)}")
        return entries[0]
    if not isinstance(claim, Statement):
        raise InputError(f"`claim` must be a claim or an id; found {claim!r:.80}")
    return claim


def _file(entry: Entry) -> dict[str, str]:
    """The file that makes a claim of the user's."""
    if not isinstance(entry, Claim | StatisticalClaim):
        return {}
    if entry.paper in installed() and any(item.entry is entry for item in catalogue(entry.paper)):
        return {}
    return {"file": file_of(entry, entry.function)}

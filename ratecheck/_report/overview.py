"""What is said of many claims: how they came out, on one screen, and what is unexpected in full."""

from __future__ import annotations

import itertools
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ratecheck._claims.claim import VERDICTS
from ratecheck._claims.families import category
from ratecheck._report.terminal import console, say, tabulate
from ratecheck._report.verdicts import explained, summary, told_in_float64
from ratecheck._verdicts.evidence import of_certificate
from ratecheck._verdicts.records import Records, Result

#: More rows than these do not fit on one screen.
MANY = 20
#: How to get them all the same.
EVERY_ROW = "Every claim: the same command with --verbose (-v)"
#: So much that is unexpected is told in full, so many reasons are told, and so many claims named.
_IN_FULL, _REASONS, _NAMED = 3, 8, 3
#: As what verdicts count that say nothing false; others by their own names.
_KINDS = {"holds": "hold", "consistent": "hold", "faster than stated": "hold"}
#: What is counted of a section.
_OTHERS = tuple(name for name in VERDICTS if name not in _KINDS)
_COLUMNS = ("claims", "hold", "false", *_OTHERS, "unexpected")
#: Columns between two of the table.
_GAP = 3


def show_verdicts(results: Sequence[Result], records: Records) -> None:
    """Print how the claims of each section, or paper, came out, and what is unexpected in full."""
    screen = console()
    papers = len({result.item.entry.paper for result in results}) > 1
    groups: dict[str, list[Result]] = {}
    for one in results:
        groups.setdefault(one.item.entry.paper if papers else one.item.section, []).append(one)
    counts = {name: _numbers(part) for name, part in groups.items()}
    columns = [name for name in _COLUMNS if any(name in numbers for numbers in counts.values())]
    most = screen.width - sum(len(name) + _GAP for name in columns) - _GAP
    names = _cut([*counts] if papers else _without_paper([*counts]), most)
    rows = [
        [name, *(f"{numbers[c]:,}" for c in columns)]
        for name, numbers in zip(names, counts.values(), strict=True)
    ]
    screen.print(tabulate(["paper" if papers else "section", *columns], rows))
    strangers = [result for result in results if not result.ok]
    for result in strangers[:_IN_FULL]:
        say(screen, [*explained(result, records), ""])
    alone = [result.item.id for result in told_in_float64(results)]
    told = [f"Hold as far as float64 knows: {', '.join(alone)}"] if alone else []
    say(screen, [*summary(results, records), *told, EVERY_ROW])


def _without_paper(sections: Sequence[str]) -> list[str]:
    """Names of sections of one paper without the paper's name, with which all of them begin.

    >>> _without_paper(["FIRM, Lemma 1", "FIRM, Lemma 9"]), _without_paper(["FIRM, Lemma 1"])
    (['Lemma 1', 'Lemma 9'], ['FIRM, Lemma 1'])
    """
    parts = [name.partition(", ") for name in sections]
    if len(parts) < 2 or len({paper for paper, _, _ in parts}) > 1:
        return list(sections)
    return [rest or paper for paper, _, rest in parts]


def _cut(names: Sequence[str], most: int) -> list[str]:
    """Names as short as this; where the same would be left of two, without what they begin with.

    >>> _cut(["the drift around the mean", "the drift around the first", "the sum"], 20)
    ['.. mean', '.. first', 'the sum']
    """
    short = [textwrap.shorten(name, most, placeholder=" ..") for name in names]
    cut = []
    for name, left in zip(names, short, strict=True):
        alike = [other for other, same in zip(names, short, strict=True) if same == left]
        if len(set(alike)) > 1:
            words = zip(*(other.split() for other in alike), strict=False)
            shared = sum(1 for _ in itertools.takewhile(lambda one: len(set(one)) == 1, words))
            rest = " ".join(["..", *name.split()[shared:]])
            left = textwrap.shorten(rest, most, placeholder=" ..")
        cut.append(left)
    return cut


def _numbers(results: Sequence[Result]) -> Counter[str]:
    """How many claims came out how, by the columns of the table; without what there is none of."""
    kinds = Counter(claims=len(results))
    for result in results:
        verdict = result.verdict.verdict
        false = verdict != "error" and category(result.facts)
        kinds["false" if false else _KINDS.get(verdict, verdict)] += 1
        kinds.update([] if result.ok else ["unexpected"])
    return kinds


def show_proofs(proofs: Sequence[Any], where: str) -> None:
    """Print how many claims are proved how, and why how many are not.

    Args:
        proofs: those of ``ratecheck certify``.
        where: the certificates are.
    """
    screen = console()
    kinds = Counter(
        str(of_certificate(one.certificate)) for one in proofs if one.certificate is not None
    )
    open_: dict[str, list[str]] = {}
    for one in proofs:
        if one.certificate is None:
            open_.setdefault(one.reason, []).append(one.id)
    lines = [f"{number:>5}  {kind}" for kind, number in kinds.most_common()]
    reasons = sorted(open_.items(), key=lambda one: -len(one[1]))
    told = [f"{len(ids):>5}  {reason}{_named(ids)}" for reason, ids in reasons[:_REASONS]]
    others = sum(len(ids) for _, ids in reasons[_REASONS:])
    told += [f"{others:>5}  for other reasons"] if others else []
    say(screen, ["Proved:", *lines] if lines else [])
    say(screen, ["Not proved:", *told] if told else [])
    proved = kinds.total()
    say(screen, [f"{proved} of {len(proofs)} claims have a certificate: {where}", EVERY_ROW])


def _named(ids: Sequence[str]) -> str:
    """The claims, where they are few."""
    return f" ({', '.join(ids)})" if len(ids) <= _NAMED else ""

"""What is said of many claims: how they came out, on one screen, and what is unexpected in full."""

from __future__ import annotations

import itertools
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ratecheck._claims.claim import VERDICTS
from ratecheck._claims.families import category
from ratecheck._report.screen import ROOM, TABLE, few, height, most_telling, with_room
from ratecheck._report.terminal import console, say, tabulate
from ratecheck._report.verdicts import explained, summary, told_in_float64
from ratecheck._verdicts.evidence import of_certificate
from ratecheck._verdicts.records import Records, Result

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

#: More rows than these do not fit on one screen.
MANY = 20
#: How to get them all the same.
EVERY_ROW = "Every claim: the same command with --verbose (-v)"
#: Where a reason begins that concerns the constant of a claim; columns before a reason.
_CONSTANT, _BEFORE = "its constant: ", 7
#: So much that is unexpected is told in full; so many claims are named for a reason, and in a line.
_IN_FULL, _NAMED, _IN_A_LINE = 3, 3, 8
#: Columns of verdicts that say nothing false, each with its own as in the line of all claims below;
#: others have their own names.
_KINDS = {"holds": "hold", "consistent": "consistent", "faster than stated": "faster"}
#: What is counted of a section.
_OTHERS = tuple(name for name in VERDICTS if name not in _KINDS)
_COLUMNS = ("claims", *_KINDS.values(), "false", *_OTHERS, "unexpected")
#: Columns between two of the table; and of a name or a reason at least, on whatever terminal.
_GAP, _LEAST = 3, 12


def show_verdicts(results: Sequence[Result], records: Records) -> None:
    """Print how the claims of each section, or paper, came out, and what is unexpected in full.

    All of it fits on a screen: of too many sections those stay that are unexpected, or else false.
    """
    screen = console()
    alone = [result.item.id for result in told_in_float64(results)]
    told = [f"Hold as far as float64 knows: {few(alone, _IN_A_LINE)}"] if alone else []
    end = [*summary(results, records, most=_IN_A_LINE), *told, EVERY_ROW]
    room = ROOM - height(end, screen.width)
    strangers = _explained([r for r in results if not r.ok], records, room - TABLE, screen.width)
    screen.print(_table(results, screen, room - height(strangers, screen.width)))
    say(screen, [*strangers, *end])


def _explained(strangers: Sequence[Result], records: Records, room: int, width: int) -> list[str]:
    """What is unexpected in full, as far as it fits; the first of it, cut, in any case."""
    lines: list[str] = []
    for result in strangers[:_IN_FULL]:
        part = explained(result, records)
        if not lines:
            while len(part) > 1 and height(part, width) > room:
                part = [*part[:-2], "  .."] if len(part) > 2 else part[:1]
        if height([*lines, *part], width) > room and lines:
            break
        lines += part
    return lines


def _table(results: Sequence[Result], screen: Console, room: int) -> Table:
    """How the claims of each section, or of each paper if there are several, came out."""
    papers = len({result.item.entry.paper for result in results}) > 1
    groups: dict[str, list[Result]] = {}
    for one in results:
        groups.setdefault(one.item.entry.paper if papers else one.item.section, []).append(one)
    counts = [_numbers(part) for part in groups.values()]
    columns = [name for name in _COLUMNS if any(name in numbers for numbers in counts)]
    most = screen.width - sum(len(name) + _GAP for name in columns) - _GAP
    names = _cut([*groups] if papers else _without_paper([*groups]), max(most, _LEAST))
    plain = ("claims", *_KINDS.values())
    last_first = [name for name in reversed(columns) if name not in plain]
    weights = [tuple(numbers[name] for name in last_first) for numbers in counts]

    def make(number: int) -> Table:
        shown, others = most_telling(weights, number)
        rows = [(names[k], counts[k]) for k in shown]
        if others:
            rows.append((f"{len(others)} others", sum((counts[k] for k in others), Counter())))
        cells = [[name, *(f"{numbers[c]:,}" for c in columns)] for name, numbers in rows]
        return tabulate(["paper" if papers else "section", *columns], cells, edges=False)

    return with_room(screen, make, len(counts), room)


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
    """Print how many claims are proved how, and why how many are not, on a screen.

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
            open_.setdefault(_kind(one.reason), []).append(one.id)
    proved = kinds.total()
    end = [f"{proved} of {len(proofs)} claims have a certificate: {where}", EVERY_ROW]
    begin = [f"{number:>5}  {kind}" for kind, number in kinds.most_common()]
    begin = ["Proved:", *begin] if begin else []
    reasons = sorted(open_.items(), key=lambda one: -len(one[1]))
    room = ROOM - height([*begin, *end], screen.width) - 1
    told = _reasons(reasons, screen.width)
    number = min(len(told), max(room, 1))
    if height(told, screen.width) > room:
        number = max(sum(height(told[:k], screen.width) < room for k in range(1, len(told))), 1)
    others = sum(len(ids) for _, ids in reasons[number:])
    told = told[:number] + ([f"{others:>5}  for other reasons"] if others else [])
    say(screen, [*begin, *(["Not proved:", *told] if told else []), *end])


def _kind(reason: str) -> str:
    """A reason without what is of one claim alone, which is told in its own row.

    >>> _kind("searched; its constant: the limit ended it; nothing is known about n = 3, half = 2")
    'its constant: the limit ended it'
    >>> _kind("its constant: ratio in [1, 2.7] for C = 2; 59,943 boxes, when the limit ended it")
    'its constant: a wide interval, when the limit ended it'
    """
    reason = f"{_CONSTANT}{reason.partition(_CONSTANT)[2]}" if _CONSTANT in reason else reason
    if "boxes, when the limit ended it" in reason and "ratio in [" in reason:
        return f"{reason.partition('ratio in [')[0]}a wide interval, when the limit ended it"
    return reason.partition("; nothing is known about ")[0]


def _reasons(reasons: Sequence[tuple[str, Sequence[str]]], width: int) -> list[str]:
    """How many claims are not proved for each reason, in a line as far as the screen has one."""
    lines = []
    for reason, ids in reasons:
        named = f" ({', '.join(ids)})" if len(ids) <= _NAMED else ""
        if width - _BEFORE - len(named) < min(len(reason), width // 2):
            named = ""
        most = max(width - _BEFORE - len(named), _LEAST)
        short = textwrap.shorten(reason, most, placeholder=" ..")
        lines.append(f"{len(ids):>5}  {short}{named}")
    return lines

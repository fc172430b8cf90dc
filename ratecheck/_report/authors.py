"""The page that a person writes for a paper's authors, with its numbers from the verdicts.

In the text ``{{d2_Phi.measured}}`` stands for the measured side of the counterexample of the
paper's claim ``d2_Phi``, and likewise

==================  ==========================================================================
``measured``        the measured side of the counterexample, or of the tightest instance
``bound``           the bound there
``ratio``           measured over bound, for a lower bound the other way round
``verdict``         the verdict, with what can be said against its counterexample
``near``, ``far``   per cent of the counterexample's neighbours within 1 %, 10 % that violate it
``instances``       how many instances were searched
``decided``         the evidence, in a word of :mod:`ratecheck._verdicts.evidence`
``proof``           what its certificate proves; nothing without one
``family[0].bound``  a side of the first counterexample of the claim's ``family``
==================  ==========================================================================

in four digits, or as a format says: ``{{d2_Phi.measured:.2f}}``. ``{{outcomes}}`` is how many
statements came out how, ``{{evidence}}`` how many were decided by what. Everything else
stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from linsys.validate import InputError
from ratecheck._claims.families import Record, by_outcome
from ratecheck._report.words import in_words
from ratecheck._verdicts.evidence import decided_by
from ratecheck._verdicts.verdict import Verdict

#: An id with or without its paper, what is wanted of it, a place in a family, a format.
_NUMBER = re.compile(r"\{\{([\w.]+?)\.(?:family\[(\d+)\]\.)?([a-z]+)(?::([^{}]+))?\}\}")
_COUNTS, _DECIDED = "{{outcomes}}", "{{evidence}}"


def fill(text: str, records: Sequence[Record]) -> str:
    """The page with its numbers.

    Args:
        text: of the page.
        records: what :func:`ratecheck._report.kept.with_certificate` gives, of one paper.

    Raises:
        InputError: a claim, a family or a number that the verdicts do not have.

    >>> lemma = {"id": "my.lemma", "verdict": "holds", "expected": "holds", "ratio": 0.24999}
    >>> fill("The ratio is {{lemma.ratio}} or {{my.lemma.ratio:.1%}}: {{outcomes}}.", [lemma])
    'The ratio is 0.25 or 25.0%: 1 holds.'
    """
    by_id = {record["id"]: record for record in records}
    papers = dict.fromkeys(name.partition(".")[0] for name in by_id)

    def number(match: re.Match[str]) -> str:
        name, place, key, form = match.groups()
        matching = [by_id[n] for n in (name, *(f"{p}.{name}" for p in papers)) if n in by_id]
        if not matching:
            raise InputError(f"a claim in {match[0]} must be one of the paper; found {name}")
        return _told(matching[0], place, key, form or ".4g", match[0])

    text = text.replace(_COUNTS, in_words(by_outcome(records)))
    text = text.replace(_DECIDED, decided_by(records))
    return _NUMBER.sub(number, text)


def _told(record: Record, place: str | None, key: str, form: str, where: str) -> str:
    source: Mapping[str, object] = {**record, **_per_cent(record)}
    if place is not None:
        family = record.get("details", {}).get("family", [])
        if int(place) >= len(family):
            raise InputError(f"family in {where} must have {int(place) + 1}; found {len(family)}")
        source = family[int(place)]
    value = source.get(key)
    if key == "verdict" and place is None:
        return Verdict.of_known(record).label
    if key in ("decided", "proof") and place is None:
        return str(value or "")
    try:
        return format(float(value), form)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(f"{where} must be a number in a format; found {value!r}") from None


def _per_cent(record: Record) -> dict[str, float]:
    """Shares of neighbours in per cent."""
    seen = record.get("witness") or {}
    return {name: 100 * seen[name] for name in ("near", "far") if name in seen}

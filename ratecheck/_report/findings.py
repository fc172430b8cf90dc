"""The page for a paper's authors: what is false and how it is mended, how tight the rest is.

Written from verdicts and the texts of the catalogue alone, so that it says what the last audit saw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ratecheck._claims.families import (
    CATEGORIES,
    IN_WORDS,
    Record,
    by_outcome,
    category,
    falls,
    false,
    roles,
    sharper,
)
from ratecheck._report.markdown import plain, sentence, table
from ratecheck._report.notation import lines, ratio
from ratecheck._verdicts.evidence import MEANING
from ratecheck._verdicts.verdict import DOUBTS, Verdict

#: A bound counts as attained where the ratio is one up to this: searches end near, not at, a limit.
_ATTAINED = 1e-6
_BOUNDS = ("<=", ">=")
#: What the words behind "violated" mean.
_LEGEND = (
    "Behind a verdict stands what can be said against its counterexample, the gravest only: "
    + "; ".join(f"*{doubt}*, {meaning}" for doubt, meaning in DOUBTS.items())
    + "."
)


def findings(records: Sequence[Record], replay: Mapping[str, str]) -> str:
    """The page in Markdown.

    Args:
        records: what :meth:`ratecheck._verdicts.records.Result.to_record` gives, in order.
        replay: by id, the command that evaluates a counterexample again.
    """
    papers = dict.fromkeys(record["source"].partition(",")[0] for record in records)
    efforts = dict.fromkeys(f"{r['effort']} search, seed {r['seed']}" for r in records)
    parts = [
        f"# Findings: {', '.join(papers)}",
        f"{_count(len(records), 'statement')} audited ({'; '.join(efforts)}). A statement is "
        "*violated* by an instance that meets its assumptions and was evaluated again with 40 and "
        "80 digits, and *holds* if a search for such an instance found none. What decided is said "
        "in the words of the second table, the strongest only. A rate is *violated* or "
        "*consistent* by exponents that are fitted, with an interval. The ratio is that of the "
        "tightest instance: the measured side over the bound, for a lower bound the other way "
        "round. Vectors are in round brackets, matrices row by row in square ones, one entry for "
        "each agent or state.",
        _LEGEND,
        *_came_out(records),
        *_surprises(records),
        *_false(records, replay),
        *_rests_on(records),
        *_tightness(records),
        *_rates(records),
        *_not_checked(records),
    ]
    return "\n\n".join(parts) + "\n"


def _came_out(records: Sequence[Record]) -> list[str]:
    """How many statements came out how, and what decided."""
    rows = [[name, str(number)] for name, number in by_outcome(records).items()]
    decided = Counter(record.get("decided") for record in records)
    proofs = [[k, said, str(decided[k])] for k, said in MEANING.items() if decided[k]]
    parts = ["\n".join(table(["statements that are", "number"], rows))]
    head = ["decided by", "that is", "number"]
    return [*parts, "\n".join(table(head, proofs))] if proofs else parts


def _rests_on(records: Sequence[Record]) -> list[str]:
    """Statements whose proofs use false ones: whether they fall, and on what they were tried."""
    rows = []
    for record, false_premises in falls(records):
        tried = record["details"].get("families", {})
        cells = []
        for used in false_premises:
            seen = tried.get(used["id"], {"tried": 0})
            shown = f" ({seen['violated']} of {seen['tried']} violate it)" if seen["tried"] else ""
            cells.append(f"`{used['id']}`{shown}")
        rows.append(
            [f"`{record['id']}`", plain(record["source"]), _outcome(record), ", ".join(cells)]
        )
    if not rows:
        return []
    return [
        "## What rests on what is false",
        "The proof of each of these uses statements that are false. Where counterexamples of those "
        "are instances of this statement, too, it was tried on them.",
        "\n".join(table(["statement", "source", "verdict", "its proof uses"], rows)),
    ]


def _surprises(records: Sequence[Record]) -> list[str]:
    told = [
        f"- `{r['id']}`: {r['verdict']}, expected: {r['expected']}.{sentence(r['reason'])}"
        for r in records
        if r["verdict"] != r["expected"]
    ]
    told += [f"- `{r['id']}`: {r['contradiction']}." for r in records if r.get("contradiction")]
    return ["## Not as expected", "\n".join(told)] if told else []


def _false(records: Sequence[Record], replay: Mapping[str, str]) -> list[str]:
    """What is false by category, with its other readings; then false readings of what is true."""
    by_id = {record["id"]: record for record in records}
    wrong = [record for record in records if false(record)]
    head_of = _told_under(wrong)
    none_of = "stated" if all(record.get("file") for record in records) else "statement"
    parts, number = [], 0
    for name, (title, intro) in _CHAPTERS.items():
        told = [r for r in wrong if head_of.get(r["id"]) == r["id"]]
        chosen = sorted((r for r in told if category(r) == CATEGORIES[name]), key=_rank)
        if not chosen and name != none_of:
            continue
        parts += [
            f"## {title}",
            intro if chosen else f"No statement was found to be {title.lower()}.",
        ]
        if len(chosen) > 1 and name in ("statement", "stated"):
            parts.append("\n".join(_overview(chosen, by_id)))
        for record in chosen:
            number += 1
            head = f"### {number}. {plain(record['source'])} (`{record['id']}`)"
            parts.append(f"{head}{_weak(record)}")
            parts += _refutation(record, by_id, replay)
            for other in wrong:
                if head_of.get(other["id"]) == record["id"] != other["id"]:
                    head = f"**Also: {plain(other['source'])}** (`{other['id']}`)"
                    parts.append(f"{head}{_weak(other)}.")
                    parts += _refutation(other, by_id, replay, known=(record["corrected"],))
    others = [record for record in wrong if record["id"] not in head_of]
    if others:
        parts += [
            "## True as read here, false under another reading",
            "Each of these holds as it is read first, and fails as it is read second: with "
            "definitions from another place of the paper, or without what the place leaves unsaid.",
        ]
    for name in dict.fromkeys(record["reading_of"] for record in others):
        if parent := by_id.get(name):
            parts.append(f"### {plain(parent['source'])} (`{name}`): {_outcome(parent)}")
            parts += _statement(parent)
        for reading in others:
            if reading["reading_of"] == name:
                head = f"**{plain(reading['source'])}** (`{reading['id']}`)"
                parts.append(f"{head}{_weak(reading)}.")
                parts += _refutation(reading, by_id, replay, known=(name,))
    return [part for part in parts if part]


#: Title and first lines of the chapters on what is false, by category.
_CHAPTERS = {
    "statement": ("False as printed", ""),
    "stated": ("False as stated", ""),
    "reading": (
        "False under a second reading",
        "Each is false as it is read there; the paper may be read otherwise.",
    ),
    "misprint": ("Misprints", "What is printed is evidently not what is meant."),
    "proof step": (
        "False steps of proofs",
        "Each is a line of a proof that no statement repeats.",
    ),
    "ours": (
        "False statements of ours",
        "The paper prints none; they show what is needed.",
    ),
    "assumption": (
        "Assumptions that nothing meets",
        "The paper assumes each. Its counterexample is one instance that does not meet it; that "
        "nothing does which the paper is about, is said by its correction and its note.",
    ),
}


def _rank(record: Record) -> int:
    """Main results come first, then the steps that they rest on, then the rest."""
    if not record["main"]:
        return 2
    return 0 if _is_whole_result(record) else 1


def _overview(printed: Sequence[Record], by_id: Mapping[str, Record]) -> list[str]:
    """What is false, a line each: where, both sides of its counterexample, what replaces it."""
    rows = []
    for number, record in enumerate(printed, 1):
        better = by_id.get(record["corrected"] or "")
        correction = f"`{better['id']}`, {_outcome(better)}" if better else f"see {number}"
        seen = _sides(record)
        if record["verdict"] != "violated":
            seen = "none by this search", ""
        elif record["kind"] == "rate":
            seen = f"exponent {seen[0]}", seen[1]
        seen = f"{seen[0]}{_weak(record)}", seen[1]
        rows.append([str(number), plain(record["source"]), *map(plain, seen), correction])
    return table(["", "statement", "counterexample", "stated", "correction"], rows)


def _told_under(wrong: Sequence[Record]) -> dict[str, str]:
    """The false statement under which each is told; none for readings of what is true.

    That is the first one of its category with its correction, or that of which it is a reading.
    """
    readings = [r for r in wrong if category(r) == CATEGORIES["reading"] and r["reading_of"]]
    parent_of = {r["id"]: r["reading_of"] for r in readings}
    first: dict[tuple[str, str], str] = {}
    head_of = {}
    for record in wrong:
        name = record["id"]
        if name not in parent_of:
            group = category(record), record["corrected"] or name
            head_of[name] = first.setdefault(group, name)
    for name, parent in parent_of.items():
        while parent in parent_of:
            parent = parent_of[parent]
        if parent in head_of:
            head_of[name] = head_of[parent]
    return head_of


def _refutation(
    record: Record,
    by_id: Mapping[str, Record],
    replay: Mapping[str, str],
    known: Sequence[str | None] = (),
) -> list[str]:
    """Statement, counterexample, reason, correction (unless ``known``) and how to see it again."""
    parts = _statement(record)
    if record.get("reading"):
        parts.append(f"*Read so:* {plain(record['reading'])}")
    if record["verdict"] == "violated":
        instance = lines(record["counterexample"])
        parts += ["Counterexample:", "    " + "\n    ".join(instance)] if instance else []
        parts += _meanings(record)
        parts += _measured(record)
        if checked := record.get("witness", {}).get("assumptions"):
            parts.append(f"Checked on it: {plain('; '.join(checked))}.")
        if record.get("constructed"):
            parts.append(f"Instances are constructed: {plain(record['constructed'])}.")
    else:
        parts.append(
            f"This search found no counterexample (verdict: {record['verdict']}"
            f"{_tight(record)}); that the statement is false is known from the reasons below."
        )
    if record.get("proof"):
        parts.append(f"Certificate: {plain(record['proof'])}.")
    parts.append(f"*Where it breaks.* {plain(record['note'])}" if record["note"] else _UNEXPLAINED)
    better = by_id.get(record["corrected"] or "")
    if better is not None and better["id"] not in known:
        parts.append(f"*Corrected* (`{better['id']}`; {_outcome(better)}). {plain(better['text'])}")
        parts += _math(better)
        if better["derivation"]:
            parts.append(f"*Why.* {plain(better['derivation'])}")
    elif record["corrected"] and record["corrected"] in known:
        parts.append(f"*Corrected* as above (`{record['corrected']}`).")
    if record["id"] in replay:
        parts.append(f"Again: `{replay[record['id']]}`")
    return parts


_UNEXPLAINED = "*Where it breaks* is not known yet."


def _statement(record: Record) -> list[str]:
    return [f"> {plain(record['text'])}", *_math(record)]


def _math(record: Record) -> list[str]:
    return [f"```math\n{record['latex']}\n```"] if record["latex"] else []


def _meanings(record: Record) -> list[str]:
    """What the fields of the counterexample mean, where their names do not say it."""
    instance = record["counterexample"] or {}
    told = [f"{name}: {line}" for name, line in record["meaning"].items() if name in instance]
    return [f"({plain('; '.join(told))})"] if told else []


def _measured(record: Record) -> list[str]:
    measured, stated = _sides(record)
    if record["kind"] == "rate":
        return [f"The exponent is {measured}; stated: {stated}.{sentence(record['reason'])}"]
    if not measured:
        return [sentence(record["reason"]).strip()] if record["reason"] else []
    times = record["ratio"] if record["relation"] == "<=" else None
    factor = f", {ratio(times)} times the bound" if times else ""
    return [f"There the measured side is {measured}{factor}; stated: {stated}.{_generic(record)}"]


def _generic(record: Record) -> str:
    """How generic a counterexample is."""
    seen = record.get("witness")
    if not seen:
        return ""
    if not seen["near"]:
        said = " *Degenerate*: none of its neighbours within 1 % violates the statement."
    else:
        said = f" Of its neighbours within 1 %, {seen['near']:.0%} violate it as well"
        said += f", within 10 % {seen['far']:.0%}."
    if not seen["credible"]:
        said += " Its numbers are at the edge of what it is about."
    return said if seen["clear"] else f"{said} It misses the bound by less than 5 %."


def _sides(record: Record) -> tuple[str, str]:
    """Both sides in as many digits as tell them apart, the bound with its relation in words."""
    measured, bound = record["measured"], record["bound"]
    if not measured:
        return "", ""
    short = f"{float(measured) + 0.0:.6g}", f"{float(bound) + 0.0:.6g}"  # no negative zero
    if short[0] != short[1]:
        measured, bound = short
    return measured, f"{IN_WORDS[record['relation']]} {bound}"


def _outcome(record: Record) -> str:
    return f"{record['verdict']}{_weak(record)}{_decided(record)}{_tight(record)}"


def _decided(record: Record) -> str:
    """What decided, behind a verdict."""
    return f", {record['decided']}" if record.get("decided") else ""


def _weak(record: Record) -> str:
    """What can be said against its counterexample, such as ", degenerate"."""
    return Verdict.of_known(record).label.removeprefix(record["verdict"])


def _tight(record: Record) -> str:
    if record["ratio"] is None or record["relation"] not in _BOUNDS:
        return ""
    return f", tightest ratio {_ratio(record['ratio'])}"


def _ratio(value: float) -> str:
    """Four digits; one only where it is attained."""
    return "1" if _attained(value) else ratio(min(value, 0.9999) if value < 1 else value)


def _attained(ratio: float) -> bool:
    return abs(ratio - 1) <= _ATTAINED


def _tightness(records: Sequence[Record]) -> list[str]:
    true = [
        r
        for r in records
        if r["verdict"] in ("holds", "unreachable")
        and not false(r)
        and r["relation"] in _BOUNDS
        and r["ratio"] is not None
    ]
    if not true:
        return []
    reached = [r for r in true if _attained(r["ratio"])]
    rest = [r for r in true if not _attained(r["ratio"])]
    verb = "is" if len(reached) == 1 else "are"
    parts = [
        "## How tight the true bounds are",
        f"Of {_count(len(true), 'bound')} that held, {len(reached)} {verb} attained: an instance "
        "reaches the bound up to one part in a million. A ratio below one says how near the search "
        "came; a better instance may exist, and where none does the constant can be improved.",
    ]
    if reached:
        parts += ["### Attained", _by_section(reached)]
    if rest:
        parts += ["### Not attained", "\n".join(_not_attained(rest, sharper(records)))]
    marked = roles(records)
    better = [r for r in true if marked.get(r["id"]) == "sharper"]
    if better:
        parts.append("### Sharper constants")
        parts.append("\n".join(_explained(r) for r in better))
    main = [r for r in true if _is_whole_result(r)]
    if main:
        parts.append("### The main results")
        parts.append("\n".join(_explained(r) for r in main if r not in better))
    return parts


def _by_section(records: Sequence[Record]) -> str:
    """Ids, section by section in the order in which these appear first."""
    sections: dict[str, list[Record]] = {}
    for record in records:
        sections.setdefault(record["section"], []).append(record)
    return "\n".join(f"- {plain(title)}: {_listed(part)}." for title, part in sections.items())


def _listed(records: Sequence[Record]) -> str:
    """Ids, those with the same evidence together."""
    kinds: dict[str, list[str]] = {}
    for record in records:
        kinds.setdefault(record.get("decided") or "", []).append(f"`{record['id']}`")
    return "; ".join(f"{kind} {', '.join(ids)}".lstrip() for kind, ids in kinds.items())


def _not_attained(records: Sequence[Record], sharp: Mapping[str, Record]) -> list[str]:
    """The bounds that were not reached, the loosest first."""
    rows = []
    for record in sorted(records, key=lambda record: record["ratio"]):
        better = sharp.get(record["id"])
        sharper_form = f"`{better['id']}`, {_outcome(better)}" if better else ""
        name, source = f"`{record['id']}`", plain(record["source"])
        seen = record.get("decided") or ""
        rows.append([name, source, seen, _ratio(record["ratio"]), sharper_form])
    headers = ["statement", "source", "evidence", "tightest ratio", "sharper form, its ratio"]
    return table(headers, rows)


def _explained(record: Record) -> str:
    said = _outcome(record)
    if record["ratio"] == 0:
        said += ": the side that it bounds vanished on every instance tried"
    elif record["ratio"] < 0.5:
        said += f": on every instance tried at least {1 / record['ratio']:.3g} times too large"
    head = f"- {plain(record['source'])} (`{record['id']}`; {said})."
    why = f" *Why.* {plain(record['derivation'])}" if record["derivation"] else ""
    return f"{head} {plain(record['text'])}{why}{sentence(record['note'])}"


def _is_whole_result(record: Record) -> bool:
    """Whether its part of the catalogue is about results as a whole, not about one section."""
    name = record["place"].rpartition("/")[2]
    return "file" not in record and not name.startswith(("section", "appendix"))


def _rates(records: Sequence[Record]) -> list[str]:
    rates = [r for r in records if r["details"].get("regimes")]
    if not rates:
        return []
    rows = [
        [
            *(f"`{record['id']}`", plain(regime["name"]), plain(regime["variable"])),
            *(f"{regime['predicted']:.4g}", f"{regime['measured']:.4g}", regime["verdict"]),
        ]
        for record in rates
        for regime in record["details"]["regimes"]
    ]
    headers = ["statement", "regime", "exponent of", "stated", "measured", "verdict"]
    return ["## Rates", "\n".join(table(headers, rows))]


def _not_checked(records: Sequence[Record]) -> list[str]:
    empty = [r for r in records if r["verdict"] == "vacuous"]
    unchecked = [r for r in records if r["verdict"] in ("not checked", "error")]
    parts = []
    if empty:
        parts += ["## Conditions that nothing satisfies", _statement_list(empty)]
    if unchecked:
        return [*parts, "## Not checked", _statement_list(unchecked)]
    return [*parts, "## Not checked", "Every statement of the catalogue was checked."]


def _statement_list(records: Sequence[Record]) -> str:
    return "\n".join(
        f"- {plain(r['source'])} (`{r['id']}`; {r['verdict']}). {plain(r['text'])}"
        f"{sentence(r['reason'] or r['note'])}"
        for r in records
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

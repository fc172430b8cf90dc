"""The certificates that a paper keeps beside its verdicts, and the tables that are made from them.

``certificates.json`` has a claim to a line: the certificates, and the claims that have none with
the reason. ``certificates.md`` says the same in tables.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from linsys.folder_lock import folder_lock
from linsys.validate import InputError
from ratecheck._discover.catalogue import module
from ratecheck._store.files import check_no_folder, write_whole, writing
from ratecheck._store.revision import revision_of, revision_of_meaning
from ratecheck._user_modules import PREFIX
from ratecheck._verdicts.evidence import (
    Evidence,
    named_in,
    of_certificate,
    strength,
    unproved,
)
from ratecheck._verdicts.replay import json_in

#: Beside the verdicts of a paper.
FILE, TABLES = "certificates.json", "certificates.md"
#: What reading a certificate raises that lacks something, or has something else in its place.
_DAMAGED = (LookupError, TypeError, ArithmeticError)
#: Where ``ratecheck certify`` puts certificates, in the folder of the results.
FOLDER = "certificates"
#: Numbers of at most so many characters are shown as they are.
_SHOWN = 18
#: From this ratio on a bound is attained; and what a constant that is known is at most, times the
#: one that was found.
_ATTAINED, _OF_ATTAINED, _OF_OTHERS = 1 - Fraction(1, 10**7), Fraction(102, 100), Fraction(101, 100)
#: On so many instances the assumptions of a theorem are evaluated, and its two sides compared.
INSTANCES = 12

#: What is said where a tie is a case of its own, which is tried nowhere.
BUT_FOR_TIES = "but where numbers that it compares are equal"

#: What is known of a paper's claims, as in the file.
Kept = Mapping[str, Sequence[Mapping[str, Any]]]
#: Evidence for the claims that a theorem assumes, by their ids.
Premises = Mapping[str, Evidence | None] | None


def text(kept: Kept) -> str:
    """The content of the file, a claim to a line."""
    lists = []
    for name, entries in kept.items():
        lines = ",\n".join(json.dumps(entry) for entry in entries)
        lists.append(f'"{name}": [\n{lines}\n]')
    return "{" + ",\n".join(lists) + "}\n"


def file_of(name: str, *, constant: bool = False) -> str:
    """The file of one claim's certificate, which has at most one of each kind.

    >>> file_of("mine.mean"), file_of("mine.mean", constant=True)
    ('mine.mean.json', 'mine.mean.constant.json')
    """
    return f"{name}{'.constant' * constant}.json"


def check_places(folder: Path, keep: Path | None, names: Sequence[str]) -> None:
    """Refuse folders with the names of files that are to be written.

    Args:
        folder: of the certificates of these claims.
        keep: folder that keeps all of them in one file, or None.
        names: of the claims.

    Raises:
        InputError: there is such a folder.
    """
    if keep is not None:
        check_no_folder("table of certificates", keep / TABLES)
    for name in names:
        for constant in (False, True):
            check_no_folder("certificate", folder / file_of(name, constant=constant))


@contextlib.contextmanager
def in_turn(folder: Path) -> Iterator[None]:
    """In the block no other command reads and writes what a folder keeps; see :func:`write`."""
    with folder_lock(folder, lambda: None), writing("folder of `--write`", folder):
        yield


def write(folder: Path, kept: Kept) -> None:
    """Write what a folder keeps, and its tables; within :func:`in_turn`, in which it was read."""
    write_whole(folder / FILE, text(kept).encode())
    write_whole(folder / TABLES, tables(kept).encode())


def left_by_certify(folder: Path, origin: str, name: str) -> list[Mapping[str, Any]]:
    """The certificates that a folder has of a user's claim, of the file as it is.

    Without those that are damaged.

    Args:
        folder: where ``ratecheck certify`` wrote to.
        origin: the user's file.
        name: the claim's id.
    """
    found = []
    for path in (folder / file_of(name, constant=constant) for constant in (False, True)):
        with contextlib.suppress(OSError, ValueError, AttributeError, *_DAMAGED):
            certificate: Mapping[str, Any] = json.loads(path.read_bytes())
            if certificate.get("id") == name and certificate.get("revision") == revision(origin):
                in_words(certificate)  # fails where a part is missing
                _check_values(certificate)
                found.append(certificate)
    return found


def revision(origin: str) -> str:
    """The revision of what the claims of a module compute, or of a user's file; none of no file.

    It does not depend on how claims are searched: a proof stays one.
    """
    if not origin:
        return ""
    if origin.endswith(".py"):
        return revision_of([(Path(origin).resolve(), PREFIX)])
    return meaning_of_module(origin)


@functools.cache
def meaning_of_module(origin: str) -> str:
    """The revision of what the claims of a module of the catalogue compute, however judged."""
    claims = module(origin)
    return revision_of_meaning(Path(claims.__file__ or ""), claims.__package__ or "")


def read(folder: Path) -> Kept:
    """What a paper keeps.

    Raises:
        InputError: the file cannot be read, or has not the form that was written.
    """
    path = folder / FILE
    whole = json_in("file of certificates", path)
    if not isinstance(whole, dict) or set(whole) != set(_FORM):
        found = f"the keys {sorted(whole)}" if isinstance(whole, dict) else type(whole).__name__
        raise InputError(f"{path} must hold {' and '.join(_FORM)}; found {found:.80}")
    for name, parts in _FORM.items():
        if not isinstance(whole[name], list):
            raise InputError(f"{path} must hold a list of {name}; found {whole[name]!r:.80}")
        for one in whole[name]:
            if not isinstance(one, dict) or not all(isinstance(one.get(p), str) for p in parts):
                wanted = f"objects with texts as {', '.join(parts)} under {name}"
                raise InputError(f"{path} must hold {wanted}; found {json.dumps(one):.80}")
    kept: Kept = whole
    for one in kept["certificates"]:
        _check_shown(one, path)
    keys = Counter((one["id"], one["kind"]) for one in kept["certificates"])
    names = Counter([*{name for name, _ in keys}, *(one["id"] for one in kept["unproved"])])
    for name, number in [*((name, number) for (name, _), number in keys.items()), *names.items()]:
        if number > 1:
            raise InputError(f"{path} must have each claim once; found {name:.80} twice")
    return kept


#: What a certificate may be.
_KINDS = ("counterexample", "identity", "quadratic", "constant")
#: What each list of the file holds: which texts every entry has.
_FORM = {
    "certificates": ("id", "kind", "revision"),
    "unproved": ("id", "expected", "relation", "reason"),
}


def _check_shown(certificate: Mapping[str, Any], path: Path) -> None:
    """Refuse a certificate that lacks a part that is shown, or has something else in its place."""
    if certificate["kind"] not in _KINDS:
        found = f"{certificate['kind']!r:.40} in that of {certificate['id']:.80}"
        raise InputError(f"{path} must have kinds among {', '.join(_KINDS)}; found {found}")
    try:
        _check_values(certificate)
        in_words(certificate)
        tables({"certificates": [certificate], "unproved": []})
        enclosed({"certificates": [certificate]})
        strength(certificate)
    except (ValueError, AttributeError, *_DAMAGED) as error:
        known = isinstance(error, InputError)
        found = f"{error}" if known else f"{f'{type(error).__name__}: {error}':.80}"
        name = certificate["id"]
        raise InputError(
            f"{path} must hold whole certificates; found that of {name:.80} damaged ({found})"
        ) from None


def _check_values(certificate: Mapping[str, Any]) -> None:
    """Refuse values that no certificate has; those that one may have are read as they are.

    Raises:
        InputError: there are some: what was expected, and what was found.
        ValueError: or what reading a certificate raises that is damaged.
    """
    kind, seconds = certificate["kind"], certificate.get("seconds", 0)
    _demand(0 <= seconds < math.inf, "seconds", "a finite number of at least 0", seconds)
    if kind == "constant":
        ends = certificate["ratio"]
        low, high = map(Fraction, ends)
        _demand(0 <= low <= high, "ratio", "two numbers of at least 0 in order", ends)
        _demand_sizes("sizes", certificate["sizes"])
        boxes = certificate["boxes"]
        _demand(boxes >= 1, "boxes", "at least 1", boxes)
    elif kind == "quadratic":
        excess = certificate["excess"]
        _demand(Fraction(excess) >= 0, "excess", "at least 0", excess)
    elif kind == "identity":
        chance = certificate["log2_chance"]
        _demand(chance < 0, "log2_chance", "below 0, as of a chance below 1", chance)
        for name in ("sizes", "every_branch"):
            for sizes in certificate.get(name, ()):
                _demand_sizes(name, sizes)
    else:
        cases = certificate["cases"]
        _demand(bool(cases), "cases", "at least one", cases)
        for case in cases:
            _demand_apart(case, certificate.get("relation") or "==")


def _demand(is_so: bool, name: str, expected: str, found: Any) -> None:
    if not is_so:
        raise InputError(f"`{name}` must be {expected}; found {found!r:.60}")


def _demand_sizes(name: str, sizes: Mapping[str, Any]) -> None:
    """Refuse sizes that are no whole numbers from 0 on."""
    for axis, size in sizes.items():
        expected = f"whole numbers of at least 0, `{axis:.20}` too"
        _demand(type(size) is int and size >= 0, name, expected, size)


def _demand_apart(case: Mapping[str, Any], relation: str) -> None:
    """Refuse a case whose two sides are not in intervals that break a relation."""
    for side in ("measured", "bound"):
        start, end = map(Fraction, case[side])
        _demand(start <= end, side, "an interval, its lower end first", case[side])
    (low, high), (least, most) = (map(Fraction, case[side]) for side in ("measured", "bound"))
    above, below = low > most, high < least
    broken = {"<=": above, ">=": below}.get(relation, above or below)
    where = {"<=": "above", ">=": "below"}.get(relation, "apart from")
    _demand(broken, "measured", f"{where} `bound`", [case["measured"], case["bound"]])


def in_words(certificate: Mapping[str, Any], premises: Premises = None) -> str:
    """What a certificate proves, in a few words; the first are those of its kind of evidence.

    Args:
        certificate: plain JSON values.
        premises: evidence for the claims that a theorem assumes, by their ids; by default they
            count as not proved.

    >>> in_words({"kind": "counterexample", "arithmetic": "balls", "bits": 64})
    'proved false by balls of 64 bits'
    """
    kind = of_certificate(certificate, premises)
    if certificate["kind"] == "counterexample":
        bits = f" of {certificate['bits']} bits" if certificate["bits"] else ""
        return f"{kind} by {certificate['arithmetic']}{bits}{of_constants(certificate)}"
    if certificate["kind"] == "quadratic":
        known = (Evidence.ASSUMED, Evidence.STEP, Evidence.FACTOR)
        where = ", for all dimensions," if kind in known else ""
        return f"{kind}{where} by {certificate['arithmetic']}{_of_theorem(certificate, premises)}"
    if certificate["kind"] == "constant":
        sizes = ", ".join(f"{name} = {size}" for name, size in certificate["sizes"].items())
        low, high = certificate["ratio"]
        where = f"{' for ' if sizes else ''}{sizes}"
        return f"{kind}: ratio in [{low}, {high}]{where}{IN_RANGES}"
    where = f"{_of_sizes(certificate)}{of_whole(certificate)}{_of_branches(certificate)}"
    if kind != Evidence.MET and "every_branch" in certificate:  # the sizes that it is proved for
        some = {**certificate, "sizes": certificate["every_branch"], "all_sizes": False}
        where = f"{_of_sizes(some)}{of_whole(some)}, on every branch {_ways(some)}"
    chance = f", but for a chance below 2^{certificate['log2_chance']}"
    return f"{kind}: {where}{chance}{_open(certificate)}"


#: What a proved constant is about: the boxes are those that a space's coordinates fill.
IN_RANGES = ", for numbers in the ranges that instances are drawn from"


def of_constants(certificate: Mapping[str, Any]) -> str:
    """That numbers of a formula were rounded before anybody saw them, if some were.

    >>> of_constants({"constants": [1.4142135623730951]})
    ', with constants that were rounded (1.414213)'
    """
    rounded = [f"{value!s:.8}" for value in certificate.get("constants", ())]
    return f", with constants that were rounded ({', '.join(rounded)})" if rounded else ""


def _of_theorem(certificate: Mapping[str, Any], premises: Premises) -> str:
    """What a theorem assumes, and how much more than the bound it shows.

    >>> theorem = {"assumes": {"1. mine.lemma": "x >= 0", "2. a mean": "y >= 0"}}
    >>> one = {"kind": "quadratic", "id": "mine.step", "theorem": theorem, "excess": "1/1000000"}
    >>> one["agrees"] = {"of": 2, "sizes": [{"d": 1}, {"d": 2}]}
    >>> _of_theorem(one, {"mine.lemma": Evidence.SEARCHED})[1:73]
    'from 2 assumptions (1 that is no claim) that 12 or more instances meet; '
    >>> _of_theorem(one, {"mine.lemma": Evidence.SEARCHED})[73:108]
    'it is the claim on every branch; mi'
    >>> _of_theorem(one, {"mine.lemma": Evidence.SEARCHED})[106:]
    'mine.lemma is only searched; with 1 + 1/1000000 times the bound'
    """
    told, number = certificate["theorem"], len(certificate["theorem"]["assumes"])
    alone = number - sum(map(bool, named_in(certificate)))
    words = f" from {number or 'no'} assumption{'s' * (number != 1)}"
    words += f" ({alone} that {'is no claim' if alone == 1 else 'are no claims'})" * bool(alone)
    words += f" that {INSTANCES} or more instances meet" * bool(number)
    words += _of_agreement(certificate.get("agrees"))
    if "itself" in told:
        words += f"; it is one of them, but for a factor: {', '.join(told['itself'])}"
    for name, kind in unproved(certificate, premises).items():
        words += f"; {name} is only {kind}" if kind else f"; {name} is not proved here"
    if certificate["excess"] != "0":
        words += f"; with 1 + {certificate['excess']} times the bound"
    if "found" in certificate:
        near = float(Fraction(certificate["found"]["ratio"]))
        words += f"; the ratio is {near:.6g} at an instance"
    return words


def _of_agreement(agrees: Mapping[str, Any] | None) -> str:
    """Where a theorem is known to be its claim.

    >>> _of_agreement({"of": 1, "sizes": [{"d": 1}], "signs": ["scale"]})
    '; it is the claim on every branch; assumed are the signs of scale'
    >>> _of_agreement({"of": 2, "sizes": [{"d": 1}], "left": "1 others: no answer"})[:66]
    '; it is the claim on every branch at 1 of 2 combinations of sizes,'
    """
    met = f"on the branches that {INSTANCES} or more instances meet"
    if agrees is None or not agrees["sizes"]:
        why = agrees and agrees["left"].partition(": ")[2]
        return f"; it is the claim {met}" + (f", and elsewhere open: {why}" if why else "")
    words = "; it is the claim on every branch"
    if "left" in agrees:
        words += f" at {len(agrees['sizes'])} of {agrees['of']} combinations of sizes"
        words += f", and at others {met}"
    if "signs" in agrees:
        words += f"; assumed are the signs of {', '.join(agrees['signs'])}"
    return words


def assumptions(certificate: Mapping[str, Any]) -> list[str]:
    """What a theorem assumes, a line for each: its name, which may be a claim's id, and formula.

    >>> theorem = {"assumes": {"1. f is convex": "gap >= 0"}}
    >>> assumptions({"kind": "quadratic", "theorem": theorem, "agrees": {"signs": ["scale"]}})
    ['1. f is convex: gap >= 0', 'sign of scale: > 0']
    """
    if certificate["kind"] != "quadratic":
        return []
    told = [f"{name}: {form}" for name, form in certificate["theorem"]["assumes"].items()]
    signs = certificate.get("agrees", {}).get("signs", ())
    return told + [f"sign of {name}: {'>' if name == 'scale' else '>='} 0" for name in signs]


def _of_sizes(identity: Mapping[str, Any]) -> str:
    """For which sizes an identity is proved.

    >>> sizes = [{"n": 1, "d": 1}, {"n": 2, "d": 1}]
    >>> _of_sizes({"sizes": sizes, "all_sizes": True})
    'all of its space (n 1-2, d 1)'
    >>> _of_sizes({"sizes": [{}], "all_sizes": True})  # of numbers alone
    'all of its space (one size)'
    """
    sizes = identity["sizes"]
    if not identity["all_sizes"]:
        return f"{len(sizes)} combinations"
    ends = {name: (min(s[name] for s in sizes), max(s[name] for s in sizes)) for name in sizes[0]}
    axes = [
        f"{name} {low}" if low == high else f"{name} {low}-{high}"
        for name, (low, high) in ends.items()
    ]
    return f"all of its space ({', '.join(axes) or 'one size'})"


def of_whole(identity: Mapping[str, Any]) -> str:
    """For which whole numbers an identity is proved, where it has some.

    >>> of_whole({"drawn": ["k", "T"]})
    ', for the whole numbers k, T that were drawn'
    >>> of_whole({"drawn": [], "whole": {"k": "every one found in an instance"}})
    ', for every whole number k found in an instance'
    """
    if identity["drawn"]:
        return f", for the whole numbers {', '.join(identity['drawn'])} that were drawn"
    if "whole" not in identity:
        return ""
    (covered,) = set(identity["whole"].values())
    found = covered.removeprefix("every one")
    return f", for every whole number {', '.join(identity['whole'])}{found}"


def _of_branches(identity: Mapping[str, Any]) -> str:
    """For how many sizes an identity is proved on every branch, where a formula has some.

    >>> _of_branches({"branches": "every one", "ways": 12})
    ', on every branch (12 ways)'
    >>> _of_branches({"branches": "every one", "ways": 12, "ties": "left out"})
    ', on every branch (12 ways) but where numbers that it compares are equal'
    """
    if identity["branches"] == "every one":
        return f", on every branch {_ways(identity)}"
    some = len(identity.get("every_branch", ()))
    return f", for {some} of its sizes on every branch {_ways(identity)}" if some else ""


def _ways(identity: Mapping[str, Any]) -> str:
    """How many branches an identity has where it is proved on every one.

    >>> _ways({"ways": 12, "empty": 3})
    '(12 ways, others excluded)'
    """
    others = ", others excluded" * ("empty" in identity)
    ways = f"({identity['ways']} ways{others})" if "ways" in identity else ""
    return f"{ways} {BUT_FOR_TIES}" if "ties" in identity else ways


def _open(identity: Mapping[str, Any]) -> str:
    """For how many sizes an identity is not decided on some branch, and why.

    >>> _open({"branches": "those that the points met", "open": "2 of the sizes: a rule"})
    '; open on other branches for 2 of the sizes: a rule'
    """
    return f"; open on other branches for {identity['open']}" if "open" in identity else ""


def counts(kept: Kept) -> dict[str, tuple[int, int]]:
    """Of false claims about instances and of true identities: how many are proved, of how many.

    An identity that holds on the branches met alone is not proved.
    """
    proved, left = kept["certificates"], kept["unproved"]
    false = [c for c in left if c["expected"] == "violated" and c["relation"]]
    true = [c for c in left if c["expected"] == "holds" and c["relation"] == "=="]
    identities = [of_certificate(c) for c in proved if c["kind"] == "identity"]
    met = identities.count(Evidence.MET)
    return {
        name: (done, done + open_)
        for name, done, open_ in (
            ("false", sum(c["kind"] == "counterexample" for c in proved), len(false)),
            ("identities", len(identities) - met, met + len(true)),
        )
    }


def enclosed(kept: Kept) -> int:
    """How many bounds have a constant proved within 1 % of the one found, or 2 % if attained.

    A bound that is proved for all dimensions has one if an instance comes so near to it.

    >>> near = {"kind": "quadratic", "excess": "0", "found": {"ratio": "100/101"}}
    >>> far = {"kind": "constant", "ratio": ["0.5", "0.6"]}
    >>> enclosed({"certificates": [near, far, {"kind": "identity"}], "unproved": []})
    1
    """
    ratios = [ratio for c in kept["certificates"] if (ratio := _ratio(c)) is not None]
    return sum(
        high <= low * (_OF_ATTAINED if low > _ATTAINED else _OF_OTHERS) for low, high in ratios
    )


def _ratio(certificate: Mapping[str, Any]) -> tuple[Fraction, Fraction] | None:
    """The interval of a bound's best constant."""
    if certificate["kind"] == "constant":
        low, high = map(Fraction, certificate["ratio"])
        return low, high
    if certificate["kind"] == "quadratic" and "found" in certificate:
        return Fraction(certificate["found"]["ratio"]), 1 + Fraction(certificate["excess"])
    return None


def tables(kept: Kept) -> str:
    """Kept certificates as tables: what is proved false, proved true, and not proved."""
    false, true = counts(kept)["false"], counts(kept)["identities"]
    rates = sum(c["expected"] == "violated" and not c["relation"] for c in kept["unproved"])
    lines = [
        f"# Certificates: {false[0]} of {false[1]} false claims, {true[0]} of {true[1]} identities",
        "",
        "Written by `ratecheck certify --write`; `ratecheck certify --check` verifies the file.",
        "",
        "## Proved false at an instance",
        "",
        "| claim | arithmetic | bits | digits | measured | bound |",
        "|---|---|---|---|---|---|",
    ]
    for one in kept["certificates"]:
        if one["kind"] == "counterexample":
            sides = [short(one["cases"][0][name][0]) for name in ("measured", "bound")]
            numbers = [str(one["bits"] or ""), "all" if not one["bits"] else str(one["digits"])]
            lines.append(_row([f"`{one['id']}`", one["arithmetic"], *numbers, *sides]))
    lines += ["", "## Identities, but for a chance below 2^-100", ""]
    lines += ["| claim | what is known | arithmetic | sizes | branches |", "|---|---|---|---|---|"]
    for one in kept["certificates"]:
        if one["kind"] == "identity":
            sizes = "all of its space" if one["all_sizes"] else f"{len(one['sizes'])} combinations"
            left = f"; without {one['left']}" if "left" in one else ""
            arithmetic = one["arithmetic"].removesuffix(" at random points")
            some = len(one.get("every_branch", ()))
            branches = f"{one['branches']}{f'; every one of {some} sizes' if some else ''}"
            branches += f", {one['ways']} ways" if "ways" in one else ""
            branches += ", others excluded" * ("empty" in one)
            branches += f", {BUT_FOR_TIES}" * ("ties" in one)
            branches += _open(one)
            sizes += of_whole(one)
            cells = [of_certificate(one), arithmetic, sizes + left, branches]
            lines.append(_row([f"`{one['id']}`", *cells]))
    theorems = [one for one in kept["certificates"] if one["kind"] == "quadratic"]
    if theorems:
        lines += ["", "## Proved for all dimensions, by exact rationals", ""]
        lines += [
            "| claim | what is shown | assumptions | times the bound | ratio, found |",
            "|---|---|---|---|---|",
        ]
        for one in theorems:
            told, excess = one["theorem"], one["excess"]
            more = "1" if excess == "0" else f"1 + {excess}"
            found = one["found"]["ratio"] if "found" in one else ""
            assumed = f"{len(told['assumes'])}{', it is one of them' * ('itself' in told)}"
            cells = [told["text"], assumed, more, found]
            lines.append(_row([f"`{one['id']}`", *cells]))
    constants = [one for one in kept["certificates"] if one["kind"] == "constant"]
    if constants:
        lines += ["", "## Constants of bounds that hold, enclosed for their smallest sizes", ""]
        lines += [
            "| claim | sizes | ratio, found | ratio, proved | boxes |",
            "|---|---|---|---|---|",
        ]
        for one in constants:
            sizes = ", ".join(f"{name} = {size}" for name, size in one["sizes"].items())
            lines.append(_row([f"`{one['id']}`", sizes, *one["ratio"], f"{one['boxes']:,}"]))
    lines += ["", "## False claims and identities without a certificate", ""]
    lines += ["| claim | why |", "|---|---|"]
    for one in kept["unproved"]:
        if one["relation"] and (one["expected"] == "violated" or one["relation"] == "=="):
            lines.append(_row([f"`{one['id']}`", one["reason"]]))
    if rates:
        lines += ["", f"{rates} false claims are about exponents: they have no two sides."]
    return "\n".join(lines) + "\n"


def short(number: str) -> str:
    """A rational or a decimal as it is, or rounded to twelve digits where it is long.

    >>> short("3/8"), short("491235290891/156250000000000000")
    ('3/8', '0.00000314390586170')
    >>> short("4.997188454165926812345678E-8")
    '4.99718845417E-8'
    """
    if len(number) <= _SHOWN:
        return number
    value = Fraction(number)
    context = Context(prec=12, Emin=-(10**9), Emax=10**9)
    return str(context.divide(Decimal(value.numerator), Decimal(value.denominator)))


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

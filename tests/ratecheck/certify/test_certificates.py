"""What is proved of false claims, the certificates, and that false certificates are refused."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from linsys import InputError
from linsys.linalg import precise
from linsys.linalg.balls import Ball, Undecided
from ratecheck._certify import against_claims, certificate
from ratecheck._certify.against_claims import Refused, verify
from ratecheck._certify.enclosures import Unprovable, enclose
from ratecheck._certify.prove import Proof, certify, prove
from ratecheck._certify.verify_many import contents
from ratecheck._claims.claim import Claim
from ratecheck._commands import app
from ratecheck._discover.catalogue import find_claims
from ratecheck._processes.limit import TimeLimit, time_limit
from tests.ratecheck.certify._files import ClaimsOf

CLAIMS = ClaimsOf("false_claims.py")
ITEMS = CLAIMS.items
FILE = CLAIMS.file
INSTANCES: dict[str, dict[str, Any]] = {
    **{name: {"x": 0.25} for name in ITEMS},
    "root": {"x": 0.1},
    "vectors": {"v": [0.3, -0.1], "w": [0.0, 0.0]},
    "branch": {"v": [0.5, 0.25], "w": [0.0, 0.0]},
}


def proof(name: str, **instance: Any) -> Proof:
    return prove(ITEMS[name], INSTANCES[name] | instance)


def proved(name: str) -> dict[str, Any]:
    content = proof(name).certificate
    assert content is not None
    return json.loads(json.dumps(content))


def test_a_rational_claim_is_proved_by_rationals() -> None:
    content = proved("square")
    assert content["arithmetic"] == "exact rationals"
    assert content["bits"] == 0
    assert content["cases"] == [{"entry": 0, "measured": ["1/4"] * 2, "bound": ["1/16"] * 2}]


def test_a_root_is_proved_by_balls_and_both_sides_are_enclosed() -> None:
    content = proved("root")
    assert (content["arithmetic"], content["bits"], content["relation"]) == ("balls", 64, ">=")
    low, high = map(Fraction, content["cases"][0]["measured"])
    assert low**2 < Fraction(1, 10) < high**2
    assert content["cases"][0]["bound"] == ["9/10"] * 2
    assert content["digits"] >= 15


def test_the_entry_that_is_farthest_apart_is_shown_and_ties_are_no_obstacle() -> None:
    content = proved("vectors")
    assert [case["entry"] for case in content["cases"]] == [0]


def test_an_open_branch_is_taken_both_ways() -> None:
    content = proved("tie")
    assert sorted(case["measured"][0] for case in content["cases"]) == ["2", "3"]


def test_a_rounded_constant_is_named() -> None:
    assert proved("constant")["constants"] == [2**0.5]


def test_assumptions_are_proved_too() -> None:
    assert proved("given")["assumptions"] == {"x < 1/2": "proved"}
    assert proof("given", x=0.75).reason == "the instance does not meet 'x < 1/2' exactly"


def test_what_is_not_proved_says_why() -> None:
    assert proof("holds").reason == "the claim holds at the instance"
    assert "have over 256 outcomes" in proof("branch").reason


@pytest.mark.parametrize(
    ("name", "line", "error"),
    [
        ("leaves", "return float(x), x**2", "TypeError: a ball becomes a float"),
        ("lapack", "return np.linalg.norm(np.linalg.inv(np.asarray([[x]]))), x**2", "UFuncType"),
    ],
)
def test_a_formula_that_leaves_the_arithmetic_is_named_with_its_line(
    name: str, line: str, error: str
) -> None:
    number = FILE.read_text().splitlines().index(f"    {line}") + 1
    outcome = proof(name)
    assert outcome.certificate is None
    assert outcome.reason.startswith(f"false_claims.py:{number}, `{line}`: {error}")


def test_a_branch_raises_where_it_is_not_followed() -> None:
    with pytest.raises(Undecided, match="over 1 outcomes"):
        enclose(ITEMS["tie"].entry, INSTANCES["tie"], 64, most=1)  # type: ignore[arg-type]
    with pytest.raises(Unprovable, match="float"):
        enclose(ITEMS["leaves"].entry, INSTANCES["leaves"], 64)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [(float, "float64"), (type(precise([0.5])[0]), "80 digits"), (Ball, "float64")],
    ids=["float64", "many digits", "balls"],
)
def test_a_formula_that_asks_for_the_type_of_its_numbers_is_not_proved(
    kind: type, numbers: str
) -> None:
    entry = dataclasses.replace(
        ITEMS["square"].entry,
        measure=lambda s: (s.x, s.x * (2 if isinstance(s.x, kind) else 1) / 2),
    )
    with pytest.raises(Unprovable, match=f"the same in balls and in {numbers}"):
        enclose(entry, {"x": 0.5}, 64)  # type: ignore[arg-type]


def test_a_large_number_beside_hides_no_type() -> None:
    space = rc.Space(fields={"x": rc.interval(), "z": rc.reals()})
    entry = dataclasses.replace(
        ITEMS["square"].entry,
        space=space,
        measure=lambda s: (s.x, s.x * (2 if isinstance(s.x, Ball) else 1) / 2),
    )
    with pytest.raises(Unprovable, match="the same in balls and in float64"):
        enclose(entry, {"x": 0.5, "z": 1000.0}, 64)  # type: ignore[arg-type]


def test_other_fields_are_refused() -> None:
    with pytest.raises(InputError, match=r"`instance` must have the fields \['x'\]; found \['y'\]"):
        prove(ITEMS["square"], {"y": 1.0})


def test_a_claim_is_certified_from_python() -> None:
    outcome = certify(ITEMS["square"].entry)
    assert outcome.certificate is not None
    assert "violated" in verify(outcome.certificate)
    assert rc.certify is certify
    assert certify(ITEMS["holds"].entry).certificate is None
    assert certify("affpcl.d1f_sec12").id == "affpcl.d1f_sec12"
    with pytest.raises(InputError, match="`claim` must be a claim or an id; found 3"):
        certify(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["square", "root", "vectors", "given", "constant", "tie"])
def test_the_checker_accepts_what_is_proved(name: str) -> None:
    assert verify(proved(name)).startswith("violated: measured in [")


def changed(name: str, change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    content = copy.deepcopy(proved(name))
    change(content)
    return content


def set_to(*keys: Any) -> Callable[[dict[str, Any]], None]:
    *path, last, value = keys

    def change(content: Any) -> None:
        for key in path:
            content = content[key]
        content[last] = value

    return change


FALSE = {
    "a moved enclosure": ("root", set_to("cases", 0, "measured", ["0.31", "0.316"]), "`measured`"),
    "a narrower one": (
        "root",
        set_to("cases", 0, "measured", ["0.3162277660168379331", "0.3162277660168379332"]),
        "`measured` must hold",
    ),
    "another side": ("square", set_to("cases", 0, "bound", ["1/17", "1/17"]), "`bound` must hold"),
    "sides that meet": (
        "square",
        set_to("cases", 0, "bound", ["0", "1"]),
        "`cases` must break the claim",
    ),
    "ends out of order": ("square", set_to("cases", 0, "bound", ["1", "0"]), "in order"),
    "no number": ("square", set_to("cases", 0, "bound", ["x", "0"]), "`cases` must hold"),
    "no case": ("square", set_to("cases", []), "`cases` must be at least one"),
    "a case left out": ("tie", lambda c: c["cases"].pop(), "`cases` must be 2; found 1"),
    "another entry": ("vectors", set_to("cases", 0, "entry", 1), "`entry` must be 0; found 1"),
    "another instance": ("square", set_to("instance", "x", 0.26), "`measured` must hold"),
    "an instance that holds": ("root", set_to("instance", "x", 0.8), "must hold"),
    "another field": ("square", set_to("instance", {"y": 0.25}), "`instance` must have"),
    "an instance outside": ("given", set_to("instance", "x", 0.75), "does not meet 'x < 1/2'"),
    "an instance of no domain": ("square", set_to("instance", "x", 5.0), "must be of its domain"),
    "an instance without end": ("square", set_to("instance", "x", 1e999), "claim's space"),
    "an instance of another shape": ("square", set_to("instance", "x", [0.2]), "claim's space"),
    "more digits": ("root", set_to("digits", 999), "`digits` must be"),
    "a pattern": ("square", set_to("id", "mine.*"), "`id` must be that of one claim"),
    "another revision": ("square", set_to("revision", "0123456789abcdef"), "`revision` must be"),
    "another relation": ("square", set_to("relation", ">="), "`relation` must be <="),
    "another claim": ("square", set_to("id", "mine.root"), "`relation` must be >="),
    "rationals where there are none": (
        "root",
        lambda c: c.update(arithmetic="exact rationals", bits=0),
        "`arithmetic` must be balls",
    ),
    "other bits": ("root", set_to("bits", 65), "`bits` must be"),
    "other assumptions": ("given", set_to("assumptions", {}), "`assumptions` must be"),
    "a constant left out": ("constant", set_to("constants", []), "`constants` must be"),
    "another format": ("square", set_to("format", 0), "`format` and `kind`"),
    "a key left out": ("square", lambda c: c.pop("instance"), "certificate must have instance"),
    "a formula that leaves": (
        "square",
        set_to("id", "mine.leaves"),
        "`instance` must be evaluated in balls",
    ),
    "no claim about instances": (
        "square",
        lambda c: (c.update(id="affpcl.thm1_main"), c.pop("file")),
        "`id` must be of a claim about instances",
    ),
}


@pytest.mark.parametrize("what", FALSE)
def test_a_false_certificate_is_refused(what: str) -> None:
    name, change, reason = FALSE[what]
    with pytest.raises(Refused) as error:
        verify(changed(name, change))
    assert reason in str(error.value)


def test_an_unknown_claim_is_refused() -> None:
    with pytest.raises(InputError, match="nobody"):
        verify(changed("square", set_to("id", "mine.nobody")))


def test_a_checker_that_compares_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusals come from the comparison with what is computed anew, and from the formula."""
    monkeypatch.setattr(against_claims, "_compare", lambda *_: None)
    name, change, _ = FALSE["a moved enclosure"]
    with pytest.raises(Refused, match="`formula` must break the claim by itself"):
        verify(changed(name, change))
    monkeypatch.setattr(against_claims, "check_formula", lambda *_: None)
    assert verify(changed(name, change)).startswith("violated")


def test_ends_are_rounded_outward(monkeypatch: pytest.MonkeyPatch) -> None:
    third, most = Fraction(1, 3), Fraction(2, 3)
    low, high = map(Fraction, certificate.written((third, most)))
    assert low < third
    assert most < high
    both = certificate.ROUND_FLOOR, certificate.ROUND_CEILING
    monkeypatch.setattr(certificate, "ROUND_FLOOR", both[1])
    monkeypatch.setattr(certificate, "ROUND_CEILING", both[0])
    low, high = map(Fraction, certificate.written((third, most)))
    assert low > third
    with pytest.raises(Refused, match="`measured` must hold"):
        verify(proved("root"))


def test_the_command_proves_writes_and_checks(
    ratecheck: Callable[..., Any], tmp_path: Path
) -> None:
    written = ("--out", str(tmp_path), "--json")
    done = ratecheck("certify", f"{FILE}::mine.*oo*", f"{FILE}::mine.holds", *written)
    assert done.code == 0, done.err
    told = {one["id"]: one for one in json.loads(done.out)}
    assert told["mine.root"]["certificate"]["bits"] == 64
    assert 0 < told["mine.root"]["certificate"]["seconds"] < 60
    assert told["mine.holds"]["certificate"] is None
    assert [path.name for path in tmp_path.iterdir()] == ["mine.root.json"]
    path = tmp_path / "mine.root.json"
    done = ratecheck("certify", "--check", path)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("mine.root: violated: measured in [0.3162277")
    path.write_text(path.read_text().replace('"x": 0.1', '"x": 0.2'))
    done = ratecheck("certify", "--check", path)
    assert done.code == 1
    assert done.out.startswith("mine.root: refused: `measured` must hold")


def test_a_counterexample_of_a_claim_that_had_other_fields_is_not_taken(
    ratecheck: Callable[..., Any], tmp_path: Path
) -> None:
    text = (
        "import ratecheck as rc\n"
        "@rc.Paper('mine', 'm').upper('a', ref='1', on={'x': rc.interval()})\n"
        "def a(x):\n    'Less than half.'\n    return x, 0.5\n"
    )
    file = tmp_path / "mine.py"
    file.write_text(text)
    assert ratecheck("audit", file, "--out", tmp_path, "--threads", 1).code == 1
    file.write_text(text.replace("'x'", "'y'").replace("x)", "y)").replace("return x", "return y"))
    done = ratecheck("certify", file, "--results", tmp_path, "--out", tmp_path, "--json")
    assert done.code == 0, done.err
    assert list(json.loads(done.out)[0]["certificate"]["instance"]) == ["y"]


@pytest.mark.parametrize(
    "content",
    [
        *("{", "[]", "null", '"x"', "{}", "[" * 100_000),
        *(json.dumps({"instance": one}) for one in (None, [], {"x": "0.1"}, {"x": [0.1]})),
        json.dumps({"instance": {"x": 10**400}}),
        json.dumps({"instance": {"x": 0.8}}),  # where the claim holds
        json.dumps({"instance": {"x": 0.05}}),  # outside of its domain
        None,
    ],
)
def test_a_damaged_counterexample_counts_as_absent(
    content: str | None, ratecheck: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "audit" / "counterexamples" / "mine.root.json"
    if content is None:
        path.mkdir(parents=True)
    else:
        path.parent.mkdir(parents=True)
        path.write_text(content)
    done = ratecheck(
        *("certify", f"{FILE}::mine.root", "--results", tmp_path, "--out", tmp_path, "--json")
    )
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)[0]["certificate"]["kind"] == "counterexample"


@pytest.mark.parametrize(
    "option",
    [
        *(("--constant",), ("--sizes", "n=2"), ("--results", "there")),
        *(("--write", "kept"), ("--out", "there"), ("--scheduler", "local")),
    ],
)
def test_options_that_say_nothing_beside_check_are_refused(
    option: tuple[str, ...], ratecheck: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = ratecheck("certify", "--check", "missing.json", *option)
    assert (done.code, done.out) == (2, "")
    given = "--limit, --threads, --json, --verbose"
    assert done.err == f"ratecheck: options beside --check must be {given}; found {option[0]}\n"
    monkeypatch.setenv("RATECHECK_SCHEDULER", "local")  # for other commands
    assert "found missing.json" in ratecheck("certify", "--check", "missing.json", "--json").err


def test_ctrl_c_says_that_the_same_command_goes_on() -> None:
    for words in (["certify", "a.b"], ["certify", "a.b", "--constant"]):
        assert app._interrupted(words).endswith("the same command resumes")
    for words in (["certify", "--check", "a.json"], ["certify", "--check=a.json"]):
        assert app._interrupted(words) == "interrupted"  # it begins anew
    assert app._interrupted(["audit", "--replay", "a.json"]) == "interrupted"


MARKS = """
import pathlib
import ratecheck as rc

pathlib.Path(__file__).with_name("mark").touch()


@rc.Paper("mine", "m").upper("a", ref="1", on={"x": rc.interval()})
def a(x):
    "Less than half."
    return x, 0.5
"""


@pytest.fixture
def stranger(ratecheck: Callable[..., Any], tmp_path: Path, monkeypatch: Any) -> Path:
    """A certificate of a file that leaves a mark when it is imported, from another folder."""
    made, there, here = (tmp_path / name for name in ("made", "there", "here"))
    for folder in (made, there, here):
        folder.mkdir()
    for folder in (made, there):  # a file that is imported already would not run again
        (folder / "marks.py").write_text(MARKS)
    monkeypatch.chdir(here)
    assert ratecheck("certify", made / "marks.py", "--out", made, "--results", made).code == 0
    assert (made / "mark").exists()
    path = there / "mine.a.json"
    path.write_bytes((made / "mine.a.json").read_bytes())
    return marked(path, file=str(there / "marks.py"))


def marked(path: Path, **changes: Any) -> Path:
    """The certificate of the stranger with other words, beside its file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return path


def test_a_certificate_runs_no_file_outside_of_the_project(
    ratecheck: Callable[..., Any], stranger: Path
) -> None:
    file, mark = stranger.with_name("marks.py"), stranger.with_name("mark")
    names = [
        (str(file), "mine.a", "must lie below"),
        ("../there/marks.py", "mine.a", "must lie below"),
        (f"{file}::/../../here/marks.py", "mine.a", "`file` must be a Python file"),
        (str(file.parent), "mine.a", "`file` must be a Python file"),
        ("", str(file), "`id` must be that of one claim"),
        ("", "marks.py", "`id` must be that of one claim"),
        ("", "../there", "`id` must be that of one claim"),
        ("missing.py", "mine.a", "must exist; found no file missing.py"),
    ]
    for number, (name, claim, said) in enumerate(names):
        done = ratecheck("certify", "--check", marked(stranger, file=name, id=claim))
        assert (done.code, said in done.out) == (1, True), (number, done.out)
        assert ": refused: " in done.out
        assert not mark.exists(), number
    marked(stranger, file=str(file), id="mine.a")
    done = ratecheck("certify", "--check", stranger, file)  # the user names it
    assert (done.code, mark.exists()) == (0, True)
    assert done.out.startswith("mine.a: violated")


def test_a_certificate_of_other_code_runs_nothing(
    ratecheck: Callable[..., Any], stranger: Path, monkeypatch: Any
) -> None:
    file, mark = stranger.with_name("marks.py"), stranger.with_name("mark")
    monkeypatch.chdir(stranger.parent)
    done = ratecheck("certify", "--check", stranger)  # the file is below the current folder
    assert (done.code, mark.exists()) == (0, True)
    mark.unlink()
    file.write_text(f"{MARKS}\n# other code\n")
    for beside in ([], [file]):
        done = ratecheck("certify", "--check", stranger, *beside)
        assert (done.code, "the certificate is of other code" in done.out) == (1, True)
        assert not mark.exists()


def test_a_link_out_of_the_project_is_not_followed(
    ratecheck: Callable[..., Any], stranger: Path
) -> None:
    link = Path("linked.py")
    link.symlink_to(stranger.with_name("marks.py"))
    done = ratecheck("certify", "--check", marked(stranger, file=str(link.absolute())))
    assert (done.code, "must lie below" in done.out) == (1, True)
    assert not stranger.with_name("mark").exists()


def test_a_project_holds_all_below_its_table(ratecheck: Callable[..., Any], stranger: Path) -> None:
    (stranger.parents[1] / "pyproject.toml").write_text("[tool.ratecheck]\nfiles = []\n")
    assert ratecheck("certify", "--check", stranger).code == 0


def test_a_counterexample_runs_no_file_outside_of_the_project(
    ratecheck: Callable[..., Any], stranger: Path
) -> None:
    file, mark = stranger.with_name("marks.py"), stranger.with_name("mark")
    told = {"id": "mine.a", "file": str(file), "instance": {"x": 0.9}, "verdict": "violated"}
    path = Path("shown.json")
    for change in ({}, {"file": "", "id": str(file)}, {"file": f"{file}::x.py"}, {"file": 3}):
        path.write_text(json.dumps(told | change))
        done = ratecheck("audit", "--replay", path)
        assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
        assert not mark.exists()
    path.write_text(json.dumps(told))
    done = ratecheck("audit", file, "--replay", path)
    assert (done.code, mark.exists()) == (0, True)
    # what an audit says to repeat names the file
    done = ratecheck("audit", file, "--threads", 1)
    told = "".join(done.out.replace("\\\n", "").split())  # the line is broken as shells allow it
    assert f"again:ratecheckaudit{file}--replayresults/" in told


@pytest.mark.parametrize(
    ("content", "reason"),
    [("{", "must be JSON"), ("[]", "found none"), ("3", "found none"), (None, "must be readable")],
)
def test_a_file_without_certificates_is_refused(
    content: str | None, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "file.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=reason):
        contents(path)


def test_the_checker_is_short() -> None:
    assert len(Path(against_claims.__file__).read_text().splitlines()) < 300


@pytest.mark.slow
@pytest.mark.parametrize("paper", ["affpcl", "firm", "fslora", "ood", "psl"])
def test_no_true_claim_is_proved_false(paper: str) -> None:
    """Both sides of an identity at a random instance would be apart if one enclosure were wrong."""
    enclosed = 0
    for item in find_claims([paper]):
        entry = item.entry
        if not isinstance(entry, Claim) or entry.expect != "holds":
            continue
        layout = entry.space.layout(entry.space.all_sizes()[-1])
        rng = np.random.default_rng(list(item.id.encode()))
        fields = layout.decode(rng.uniform(size=(1, layout.coordinates)))
        instance = {name: values[0].tolist() for name, values in fields.items()}
        with contextlib.suppress(Undecided, Unprovable, TimeLimit), time_limit(10):
            sides = enclose(entry, instance, 64, most=4)
            if not all(told == "proved" for told in sides.assumptions.values()):
                continue
            enclosed += 1
            assert not sides.violates(entry.relation), item.id
    assert enclosed >= 30


def test_a_claim_of_no_file_is_proved_for_whoever_has_it() -> None:
    program = (
        "import ratecheck as rc\n"
        "paper = rc.Paper('loose', 'of no file')\n"
        "@paper.upper('square', ref='1', tex='x', on={'x': rc.interval()})\n"
        "def square(x):\n"
        "    'x <= x^2.'\n"
        "    return x, x**2\n"
        "found = rc.certify(square, {'x': 0.5}).certificate\n"
        "print(found['cases'], repr(found['revision']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    expected = [{"entry": 0, "measured": ["1/2", "1/2"], "bound": ["1/4", "1/4"]}]
    assert done.stdout == f"{expected} ''\n"


def test_a_claim_that_cannot_be_evaluated_is_not_called_searched() -> None:
    space = rc.Space({"x": rc.interval()})
    paper = rc.Paper("mine", "my paper")

    @paper.upper("float", ref="1", on=space)
    def rounded(x):  # type: ignore[no-untyped-def]
        """x is at most 2."""
        return float(x), 2

    proof = rc.certify(rounded)
    assert proof.certificate is None
    assert "float()" in proof.reason
    assert "searched" not in proof.reason

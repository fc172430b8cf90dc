"""What README and documentation show is what happens, and no link of theirs leads nowhere."""

from __future__ import annotations

import contextlib
import html
import inspect
import io
import os
import re
import subprocess
import sys
import textwrap
from glob import glob
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest

import ratecheck as rc
from ratecheck._claims import fields

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "docs" / "tutorials").glob("*.md"))
#: Of a page's program, by its place: what to change so that it prints something else.
CHANGES = {
    ("algorithm.md", 0): ("beta: float = 0.9", "beta: float = 0.0"),
    ("algorithm.md", 1): ("gamma=0.01", "gamma=0.001"),
    ("README.md", 1): ("gamma=0.01", "gamma=0.001"),
    ("certificates.md", 0): ("p.show((x - a * g)", "p.show((x + a * g)"),
    ("certificates.md", 1): ("fx - g.squared / 2", "fx - g.squared / 3"),
    ("expectation.md", 0): ("[0.25, 0.75]", "[0.5, 0.5]"),
    ("expectation.md", 1): ("[0.0, 1.0]", "[0.5, 0.5]"),
    ("expectation.md", 2): ("[0.4, 0.6]", "[0.2, 0.8]"),
    ("expectation.md", 3): ("0.9 * x + 0.1", "0.8 * x + 0.2"),
    ("expectation.md", 4): ("beta=5.0", "beta=0.05"),
    ("expectation.md", 5): ("nu=1.0", "nu=2.0"),
    ("model.md", 0): ("gamma=0.01", "gamma=0.001"),
    ("model.md", 1): ("gamma=0.01", "gamma=0.001"),
}


def page(name: str) -> str:
    """A page by the name of its file."""
    (file,) = (path for path in PAGES if path.name == name)
    return file.read_text()


def printed(program: str) -> list[str]:
    """Lines that a program prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(program, "a page", "exec"), {})
    return output.getvalue().splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "place"), CHANGES)
def test_programs_print_what_they_say(name: str, place: int) -> None:
    program = re.findall(r"```python\n(.*?)```", page(name), re.DOTALL)[place]
    ending = takewhile(lambda line: line.startswith("# "), reversed(program.splitlines()))
    said = [line[2:] for line in ending][::-1]
    assert said
    assert printed(program) == said
    change, mutant = CHANGES[name, place]
    assert change in program
    assert printed(program.replace(change, mutant)) != said


def test_every_program_is_run_somewhere() -> None:
    shown = {path.name: path.read_text().count("```python\n") for path in PAGES}
    run = {name: sum(key[0] == name for key in CHANGES) for name in shown}
    run["README.md"] += 1  # the claim, below
    tested = {"flower.md", "data.md"}  # by tests of their own
    assert {n: c for n, c in shown.items() if n not in tested} == {
        n: c for n, c in run.items() if n not in tested
    }


def test_the_table_of_fields_is_complete_and_true() -> None:
    line = r"^\| `(\w+)(\(.*?\))` \| .* \| `(.*)` \| (.*) \|$"
    rows = re.findall(line, page("claim.md"), re.MULTILINE)
    functions = {n: getattr(fields, n) for n in dir(rc) if hasattr(fields, n) and n.islower()}
    assert {name for name, *_ in rows} == {
        name for name, one in functions.items() if one.__module__ == fields.__name__
    }
    for name, signature, example, shape in rows:
        parameters = inspect.signature(getattr(rc, name)).parameters.values()
        plain = [one.replace(annotation=inspect.Parameter.empty) for one in parameters]
        assert f"({', '.join(map(str, plain))})" == signature
        space = rc.Space(fields={"x": eval(f"rc.{example}")})
        sizes = {axis: 2 + k for k, axis in enumerate(space.sizes)}
        layout = space.layout(sizes)
        x = layout.decode(np.full((1, layout.coordinates), 0.3))["x"][0]
        told = () if shape == "a number" else eval(shape.strip("`"), dict(sizes))
        assert x.shape == told
        assert len(set(told)) == len(set(sizes))  # no axis is mistaken for another


def command(line: str, folder: Path) -> tuple[int, list[str]]:
    """Exit code and output of a line that begins with ratecheck; a shell would fill in its *."""
    words = [
        each
        for word in line.split()
        for each in (sorted(glob(word, root_dir=folder)) if "*" in word else [word])
    ]
    done = subprocess.run(
        [sys.executable, "-m", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return done.returncode, done.stdout.splitlines()


def files_of(text: str) -> dict[str, str]:
    """The files that a page has the reader write."""
    pattern = r"```\{code-block\} python\n:caption: (\S+)\n\n(.*?)```"
    return dict(re.findall(pattern, text, re.DOTALL))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["index.md", "claim.md", "expectation.md", "rate.md", "figure.md", "certificates.md"],
)
def test_commands_print_what_they_say(name: str, tmp_path: Path) -> None:
    text = page(name)
    for file, program in files_of(text).items():
        (tmp_path / file).write_text(program)
    sessions = re.findall(r"```\{code-block\} console\n\$ ([^\n]*)\n(.*?)```", text, re.DOTALL)
    assert sessions
    for line, said in sessions:
        code, output = command(line, tmp_path)
        # another search may find another instance first; the one that is shown is evaluated below
        stated = [s for s in said.splitlines() if not re.match(r"  (measured|\w) ", s)]
        if line.startswith("ratecheck certify"):  # how long a proof takes is another time otherwise
            stated, output = (
                [re.sub(r" \d+\.\d+$", " SECONDS", s) for s in of] for of in (stated, output)
            )
        assert [s for s in stated if s not in output] == []
        assert code == int(line.startswith("ratecheck audit") and "violated" in said)


@pytest.mark.slow
def test_the_instance_that_is_shown_breaks_the_lemma(tmp_path: Path) -> None:
    program = re.findall(r"```python\n(.*?)```", page("README.md"), re.DOTALL)[0]
    shown = re.search(r"\n((?:    .*\n)+)\nThe instance", page("README.md"))
    assert shown is not None
    verdict, text, sides, *arrays = textwrap.dedent(shown[1]).splitlines()
    for name in ("index.md", "claim.md"):
        assert {verdict, text, sides, *arrays} <= set(page(name).splitlines())
    (tmp_path / "my_paper.py").write_text(program)
    instance = {k.strip(): v for k, v in (line.split(" = ") for line in arrays)}
    listed = ", ".join(f'"{name}": {value}' for name, value in instance.items())
    stated = f'{{"id": "mine.lemma_3", "verdict": "violated", "instance": {{{listed}}}}}'
    (tmp_path / "shown.json").write_text(stated)
    code, output = command("ratecheck audit my_paper.py --replay shown.json", tmp_path)
    assert (code, sides in output) == (0, True)
    # In one dimension, as a page goes on, the lemma holds.
    sized = 'on=rc.Space(sizes={"d": (1, 1), "n": (1, 4)}, fields=TASKS)'
    line = program.replace("on=TASKS", sized)
    assert line != program
    (tmp_path / "my_paper.py").write_text(line)
    code, output = command("ratecheck audit my_paper.py", tmp_path)
    assert (code, "1 claim: 1 holds" in "\n".join(output)) == (0, True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rate.md", "figure.md"])
def test_the_tests_that_a_page_shows_pass(name: str, tmp_path: Path) -> None:
    for file, program in files_of(page(name)).items():
        (tmp_path / file).write_text(program)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")  # not that of a folder above
    code, output = command("pytest -q -p no:cacheprovider", tmp_path)
    assert (code, re.fullmatch(r"\d+ passed.*", output[-1]) is not None) == (0, True)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_file_it_names_exists(path: Path) -> None:
    text = path.read_text()
    made = {f"{name}.md" for name in ("papers/index", "gallery/index", "api/index")}
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        place = ROOT / "docs" / link[1:] if link.startswith("/") else path.parent / link
        from_papers = place.parent.name == "papers" and "docs" in place.parts
        assert from_papers or str(link) in made or place.exists(), link
    for name in re.findall(r"`((?:tests|notebooks|docs|experiments|linsys)/[\w/.]+\.\w+)`", text):
        assert (ROOT / name).is_file(), name


def leading_nowhere(site: Path) -> list[str]:
    """Links of a site's pages to no file or to no place of a page, and marks of a broken text."""
    pages = {file.resolve(): file.read_text() for file in site.rglob("*.html")}
    places = {
        file: set(re.findall(r'\b(?:id|name)="([^"]*)"', text)) for file, text in pages.items()
    }
    wrong = []
    for file, text in pages.items():
        for link in re.findall(r'<a\b[^>]*\bhref="([^"]*)"', text):
            path, _, place = html.unescape(link).partition("#")
            if re.match(r"\w+:|//", path):
                continue
            target = (file.parent / path).resolve() if path else file
            if not target.exists() or (place and place not in places.get(target, {place})):
                wrong.append(f"{file.name}: {link}")
        wrong += [f"{file.name}: {one}" for one in re.findall('class="[^"]*problematic.*', text)]
    return wrong


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.html").write_text('<a href="two.html#here">x</a> <a href="#id1">*</a>')
    (tmp_path / "two.html").write_text('<p id="here"><a href="one.html">x</a></p>')
    assert leading_nowhere(tmp_path) == ["one.html: #id1"]
    (tmp_path / "two.html").write_text('<a href="no.html">x</a><span class="problematic">*</span>')
    assert [one.partition(": ")[2] for one in sorted(leading_nowhere(tmp_path))] == [
        "#id1", "two.html#here", 'class="problematic">*</span>', "no.html"
    ]  # fmt: skip


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """A link that leads nowhere, or a page that nothing leads to, is a warning."""
    options = ("-q", "-W", "--keep-going", "-b", "html", "-d", str(tmp_path / "trees"))
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, "docs", str(tmp_path / "site")],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    front = (tmp_path / "site" / "index.html").read_text()
    assert "https://cdn" not in front
    assert (tmp_path / "site" / "_static" / "mathjax" / "tex-chtml.js").is_file()
    names = (tmp_path / "site" / "api" / "ratecheck.html").read_text()
    for foreign in ("_SupportsArray", "Alias for field", "An array object represents", "Built-in"):
        assert foreign not in names  # signatures as they are written, and docstrings of ours alone
    systems = (tmp_path / "site" / "api" / "linsys.sketching.systems.html").read_text()
    assert 'href="linsys.sketching.html#linsys.sketching.LeastSquares"' in systems
    assert 'id="ratecheck.Claim.changed"' in names  # of a base that is no public name
    assert leading_nowhere(tmp_path / "site") == []
    claim = (tmp_path / "site" / "tutorials" / "claim.html").read_text()
    assert (
        'href="../api/ratecheck.html#ratecheck.Paper.upper"' in claim
    )  # names lead to the reference
    expectation = (tmp_path / "site" / "tutorials" / "expectation.html").read_text()
    assert re.search('href="../gallery/td0.html"><[^>]*>examples/gallery/td0<', expectation)
    assert re.search(r'href="\.\./_downloads/\w+/is_affpcl_worth_it\.ipynb"', expectation)
    for paper in (ROOT / "examples" / "gallery").glob("*/paper.py"):
        name = paper.parent.name
        text = (tmp_path / "site" / "gallery" / f"{name}.html").read_text()
        (figure,) = re.findall(rf'src="\.\./(_images/{name}-\w+-quick\.png)"', text)
        assert (tmp_path / "site" / figure).is_file()
        claims = rc.find_claims([str(paper)])
        assert text.count('<div class="math') >= len(claims)
        for item in claims:  # as the command prints it, and in words
            assert re.search(rf"{item.id} +{item.entry.expect}", re.sub("<.*?>", "", text))
        verdicts = re.findall("<strong>(Holds|Violated)</strong>", text)
        assert verdicts == [item.entry.expect.title() for item in claims]

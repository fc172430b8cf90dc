"""The pages of the gallery: of each theorem the formula, the code, the verdict; and the figure.

Claims are judged and figures drawn when the site is built, in some minutes; what is computed is
kept below ``results/gallery``, and only what changed is computed again.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "examples" / "gallery"
README = (GALLERY / "README.md").read_text(encoding="utf-8")
RESULTS = Path("results", "gallery")  # below ROOT
#: A claim of the table in README: its ratio in the largest search, and what came out.
ROW = re.compile(r"^\| (\w+\.\w+) \| .*? \| \w+ \| ([\d.]*) ?\| (.*?) ?\|$", re.MULTILINE)
ABOUT = """Theorems of well-known papers that are not the five. Each paper is one file of under 150
lines in `examples/gallery`, which uses public names alone: its theorems are claims, one of them
with a wrong constant on purpose (the *false statement of ours*), and an experiment draws the theory
beside runs. Beside each figure is what was checked, and how the claims came out."""


def gallery() -> Iterator[tuple[str, str]]:
    """The pages by the names of their files, and the index."""
    papers = sorted(path.parent.name for path in GALLERY.glob("*/paper.py"))
    shutil.rmtree(ROOT / RESULTS / "figures", ignore_errors=True)  # none of a paper that is gone
    audits = {name: _made(name) for name in papers}
    judged = {claim["id"]: claim for claim in json.loads(_audit("", "--json"))}
    listed = []
    for name, printed in audits.items():
        docstring = ast.get_docstring(ast.parse(_read(name, "paper.py"))) or name
        title, _, text = docstring.partition("\n")
        (image,) = (path.name for path in figures() if path.name.startswith(f"{name}-"))
        yield f"{name}.md", "\n\n".join(_page(name, title, text.strip(), image, printed, judged))
        (counts,) = re.findall(r"^\d+ claims: (.*);", printed, re.MULTILINE)
        listed.append(f"* - [![{title}]({image}){{width=260px}}]({name}.md)")
        listed.append(f"  - **[{title.rstrip('.')}]({name}.md)**\n\n    {counts}")
    rows, tree = "\n".join(listed), "\n".join(papers)
    sources = README[README.index("What the texts were taken from") : README.index("## Figures")]
    yield (
        "index.md",
        f"# Gallery\n\n{ABOUT}\n\n```{{list-table}}\n:widths: 40 60\n\n{rows}\n```\n\n{sources}\n"
        f"```{{toctree}}\n:hidden:\n\n{tree}\n```\n",
    )


def figures() -> list[Path]:
    """The figures that :func:`gallery` has drawn."""
    return sorted((ROOT / RESULTS / "figures").glob("*-quick.png"))


def _made(paper: str) -> str:
    """Draw a paper's figure, judge its claims, and return what ``ratecheck audit`` prints.

    Minutes for all papers the first time, so that each is said beforehand.
    """
    print(f"==> gallery: {paper}", flush=True)
    _ratecheck("run", str((GALLERY / paper).relative_to(ROOT)))
    return _audit(paper)


def _audit(paper: str, *options: str) -> str:
    """What ``ratecheck audit`` prints of a paper, or of all."""
    return _ratecheck("audit", str((GALLERY / paper).relative_to(ROOT)), *options)


def _ratecheck(command: str, *arguments: str) -> str:
    """The output of a command; a check or a verdict that is not as expected ends the build."""
    done = subprocess.run(
        [sys.executable, "-m", "ratecheck", command, *arguments, "--out", str(RESULTS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "80"},
    )
    if done.returncode:
        raise RuntimeError(f"gallery, {command}: {done.stderr or done.stdout}")
    return done.stdout


def _page(
    name: str, title: str, text: str, image: str, printed: str, judged: Mapping[str, Any]
) -> Iterator[str]:
    """The parts of a paper's page."""
    yield f"# {title.rstrip('.')}"
    yield _plain(text)
    yield f"![{title}]({image})"
    about, formulas = _formulas(_read(name, "theorems.md"))
    yield about
    table = {claim: (ratio, told) for claim, ratio, told in ROW.findall(README)}
    for function, code in _code(_read(name, "paper.py")).items():
        claim = f"{name}.{function}"
        yield f"## {judged[claim]['source'].partition(', ')[2]}"
        yield formulas[function]
        yield _verdict(judged[claim], *table[claim])
        yield f"```python\n{code}\n```"
        command = f"$ ratecheck audit examples/gallery/{name}"
        yield f"```console\n{command}\n{_lines_of(claim, printed)}\n```"
    yield "## The file"
    inside = (GALLERY / name / "paper.py").relative_to(ROOT)
    yield f"{{download}}`paper.py </../{inside}>`"
    yield f"```{{literalinclude}} /../{inside}\n:language: python\n```\n"


def _read(name: str, file: str) -> str:
    return (GALLERY / name / file).read_text(encoding="utf-8")


def _formulas(text: str) -> tuple[str, dict[str, str]]:
    """What is said of all theorems, and each of them by the name of its claim."""
    about, *sections = text.split("\n## ")
    named = (section.partition("\n") for section in sections)
    return about.partition("\n")[2].strip(), {name: said.strip() for name, _, said in named}


def _code(text: str) -> dict[str, str]:
    """What makes each claim, by the second half of its id: a function, or a call of ``changed``."""
    lines, found = text.splitlines(), {}
    for node in ast.parse(text).body:
        calls = node.decorator_list if isinstance(node, ast.FunctionDef) else [node]
        for made in calls:
            made = made.value if isinstance(made, ast.Expr) else made
            if isinstance(made, ast.Call) and re.search(
                r"^PAPER\.|\.changed$", ast.unparse(made.func)
            ):
                first = made.lineno - 1
                found[ast.literal_eval(made.args[0])] = "\n".join(lines[first : node.end_lineno])
    return found


def _verdict(judged: Mapping[str, Any], ratio: str, told: str) -> str:
    """How a claim came out, and by how much it is loose or wrong."""
    if judged["verdict"] == "violated":
        wrong = f"by a factor of {judged['ratio']:.3g} on the instance below"
        return f"**Violated**, {wrong}{_plain(told) and f' ({_plain(told)})'}."
    if judged["kind"] == "identity":
        how = "both sides are equal"
    elif float(ratio) == 1:
        how = "and is tight"
    else:
        how = f"loose by a factor of {1 / float(ratio):.3g} on the tightest instance that was found"
    return f"**Holds**, {how} ({_plain(told)})."


def _lines_of(claim: str, printed: str) -> str:
    """What was printed of a claim: its row below the head, and why where it is false."""
    row, why = (
        re.search(rf"^{re.escape(claim)}{then}", printed, re.MULTILINE)
        for then in (r" .*(?:\n  .*)*", r": .*(?:\n  .*)*")
    )
    (head,) = set(re.findall(r"^claim  .*?$", printed, re.MULTILINE))
    return "\n".join([head, *(found[0] for found in (row, why) if found)])


def _plain(text: str) -> str:
    """Text in which no sign is one of Markdown's."""
    return re.sub(r"[*_|]", r"\\\g<0>", text)

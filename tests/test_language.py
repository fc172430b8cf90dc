"""The language of docstrings, in all modules that are not tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("linsys", "mgda", "lora_bridge", "ratecheck", "experiments", "examples")
#: "The same for all users." says nothing to whoever reads this docstring alone.
NOTHING_NAMED = re.compile(r"The same(,| (as|at|but|by|for|from|in|of|to|with|without)\b)")


def _is_statement(node: ast.AST) -> bool:
    """Whether a docstring is the text of a claim or theorem, which kept pages repeat."""
    return isinstance(node, ast.FunctionDef) and any(
        isinstance(one, ast.Call)
        and isinstance(one.func, ast.Attribute)
        and isinstance(one.func.value, ast.Name)
        and (one.func.value.id == "PAPER" or one.func.attr == "theorem")
        for one in node.decorator_list
    )


def _unclear(source: str) -> Iterator[str]:
    """Public names, and "module", whose docstring names nothing."""
    if not NOTHING_NAMED.search(source):  # as in nearly all files, which need not be parsed
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            name = "module" if isinstance(node, ast.Module) else node.name
            text = ast.get_docstring(node) or ""
            if not (name.startswith("_") or _is_statement(node)) and NOTHING_NAMED.match(text):
                yield name


def test_docstrings_name_what_they_are_about() -> None:
    modules = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    unclear = {path.relative_to(ROOT).as_posix(): [*_unclear(path.read_text())] for path in modules}
    assert len(modules) > 100
    assert {path: names for path, names in unclear.items() if names} == {}


def test_a_docstring_that_names_nothing_is_seen() -> None:
    seen = '"The same as before."\nclass A:\n  @property\n  def f(self):\n    "The same, moved."'
    named = 'def f():\n    "The same steps for all agents."\ndef _g():\n    "The same for two."'
    statement = '@PAPER.upper("a")\ndef f():\n    "The same for alpha <= 1."'
    assert [*_unclear(seen)] == ["module", "f"]
    assert [*_unclear(named)] == [*_unclear(statement)] == []

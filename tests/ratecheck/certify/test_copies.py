"""The programs that check certificates alone share no code: what they have twice stays the same."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "ratecheck" / "_certify"
#: What is the same, and in which programs.
COPIES = {
    "once": ("check", "check_formula", "check_identity", "check_constant"),
    "answers": ("check", "check_formula", "check_identity", "check_constant"),
    "unpacked": ("check_formula", "check_constant"),
    "apart": ("check", "check_formula"),
    "__main__": ("check_formula", "check_identity", "check_constant"),
}
#: What differs on purpose: how numbers are read, and what the programs raise and say of it.
SAME = {
    "_ILL": "ILL",
    "parse_float=number, ": "",
    "(Wrong, *ILL)": "ILL",
    "raise Wrong": "raise ValueError",
}
#: A change of each that must not stay in one program alone.
CHANGES = {
    "once": ("< len(pairs)", "<= len(pairs)"),
    "answers": ('if one.isprintable() else "?"', 'if one.isascii() else "?"'),
    "unpacked": ("not unzip.eof or ", ""),
    "apart": ("measured[0]", "measured[1]"),
    "__main__": ("[1]) else", "[0]) else"),
}


def parts(source: str) -> dict[str, str]:
    """The functions of a program, and what it does as a command, as syntax trees in text.

    Of ``answers`` without the block that decides about one certificate.
    """
    for theirs, common in SAME.items():
        source = source.replace(theirs, common)
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.If):
            found["__main__"] = ast.dump(node)
        if not isinstance(node, ast.FunctionDef):
            continue
        if node.name == "answers":
            (loop,) = [one for one in node.body if isinstance(one, ast.For)]
            (decision,) = [one for one in loop.body if isinstance(one, ast.Try)]
            decision.body = [ast.Pass()]
            # what is open is said where something can be
            decision.handlers = [one for one in decision.handlers if "Open" not in ast.dump(one)]
        found[node.name] = ast.dump(node)
    return found


def differ(sources: Mapping[str, str]) -> list[str]:
    """The names of what is not the same in all programs that have it."""
    found = {program: parts(source) for program, source in sources.items()}
    return [
        name
        for name, programs in COPIES.items()
        if len({found[program][name] for program in programs}) > 1
    ]


SOURCES = {path.stem: path.read_text() for path in FOLDER.glob("check*.py")}


def test_what_programs_have_twice_is_the_same() -> None:
    assert set().union(*COPIES.values()) == set(SOURCES)
    assert differ(SOURCES) == []


@pytest.mark.parametrize("name", COPIES)
def test_a_change_of_one_copy_is_noticed(name: str) -> None:
    before, after = CHANGES[name]
    for program in COPIES[name]:
        source = SOURCES[program]
        start = source.index(f"def {name}(" if name != "__main__" else "if __name__")
        rest = source[start:]
        assert before in rest
        changed = source[:start] + rest.replace(before, after, 1)
        assert differ({**SOURCES, program: changed}) == [name]

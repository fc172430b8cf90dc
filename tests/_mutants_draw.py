"""Mutants: single changes of the code that a test should notice; drawn, and written into files."""

from __future__ import annotations

import ast
import os
import random
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Parts of paths, and what they are counted as.
GROUPS = {
    "linsys, mgda": ("linsys/", "mgda/"),
    "ratecheck": ("ratecheck/",),
    "lora_bridge, papers": ("lora_bridge/", "/claims/", "/theory/", "/bridge/"),
}
#: Flower's needs another environment.
LEFT_OUT = ("tests/", "examples/", "experiments/bridge/", "lora_bridge/flower/")
#: Changes that nearly any test notices that comes by: drawn a third as often as others.
COARSE = ("returned value", "arguments")
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.Gt: ast.GtE,
    ast.Eq: ast.NotEq,
    ast.Is: ast.IsNot,
    ast.In: ast.NotIn,
}
COMPARISONS |= {new: old for old, new in COMPARISONS.items()}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


@dataclass(frozen=True)
class Mutant:
    """Bytes ``start`` to ``end`` of a function's source, ``old``, are ``new``."""

    path: str
    function: str
    line: int
    start: int
    end: int
    old: str
    new: str
    kind: str
    compiled: bool

    @property
    def group(self) -> str:
        return next(g for g, parts in GROUPS.items() if any(part in self.path for part in parts))

    def __str__(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.path}:{self.line} {self.function}: {old} -> {new}"


class Source:
    """A file's bytes, and its functions and methods; of two of one name the last one counts."""

    def __init__(self, path: Path) -> None:
        self.bytes = path.read_bytes()
        self.starts = [0]
        for line in self.bytes.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.functions = dict(self._functions(ast.parse(self.bytes), ""))

    def _functions(self, tree: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
        for node in ast.iter_child_nodes(tree):
            if isinstance(node, ast.FunctionDef):
                yield prefix + node.name, node
            elif isinstance(node, ast.ClassDef):
                yield from self._functions(node, f"{prefix}{node.name}.")

    def span(self, node: Any) -> tuple[int, int]:
        """First byte of a node, and the one after its last."""
        first = self.starts[node.lineno - 1] + node.col_offset
        return first, self.starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, function: str) -> bytes | None:
        node = self.functions.get(function)
        return None if node is None else self.bytes[slice(*self.span(node))]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or isinstance(getattr(node, "value", None), str)


def _changes(node: Any) -> Iterator[tuple[str, ast.AST, str]]:
    """What can be changed in a node: the kind, the node that is replaced, and its new text."""

    def other(**fields: Any) -> str:
        return ast.unparse(type(node)(**{**dict(ast.iter_fields(node)), **fields}))

    match node:
        case ast.Compare(ops=[op]):
            yield "comparison", node, other(ops=[COMPARISONS[type(op)]()])
        case ast.BinOp(left=left, op=op, right=right):
            if type(op) in OPERATORS and not (_is_text(left) or _is_text(right)):
                yield "operator", node, other(op=OPERATORS[type(op)]())
        case ast.Constant(value=bool() as value):
            yield "constant", node, str(not value)
        case ast.Constant(value=int() | float() as value):
            yield "constant", node, repr(value + 1)
        case ast.BoolOp(op=op):
            yield "and, or", node, other(op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            if not isinstance(operand, ast.Constant):
                yield "sign, not", node, ast.unparse(operand)
        case ast.Return(value=ast.expr() as result) if not isinstance(result, ast.Constant):
            yield "returned value", result, "None"
        case ast.If(test=test) | ast.IfExp(test=test):
            yield "condition", test, f"not ({ast.unparse(test)})"
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Continue():
            yield "statement", node, "None"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement", node, "None"
        case ast.Call(func=function, args=[first, second, *rest]):
            symmetric = re.search("(max|min)(imum)?$", ast.unparse(function))
            if not (symmetric or isinstance(first, ast.Starred) or isinstance(second, ast.Starred)):
                yield "arguments", node, other(args=[second, first, *rest])


def _sites(node: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
    """All changes within a node, but those of texts, types, patterns and messages of errors."""
    yield from _changes(node)
    if isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert | ast.pattern):
        return
    skipped = set[str]()
    if isinstance(node, ast.FunctionDef | ast.AnnAssign):
        skipped = {"annotation", "returns", "decorator_list", "args"}
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and field not in skipped:
                yield from _sites(child)


def draw(tree: Path, paths: list[str], same: Path | None, count: int, seed: int) -> list[Mutant]:
    """``count`` mutants, as many of each group: lines at random, of each one change at random.

    With ``same``, another tree, only functions are changed that have the same source there.
    """
    pools: dict[str, list[list[Mutant]]] = defaultdict(list)
    overrides = tomllib.loads((tree / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    bodies = {one for part in overrides if "ignore_errors" in part for one in part["module"]}
    parts = [part for group in GROUPS.values() for part in group]
    for path in paths:
        if path.startswith(LEFT_OUT) or not any(part in path for part in parts):
            continue
        source = Source(tree / path)
        if same is not None and not (same / path).exists():
            continue
        there = source if same is None else Source(same / path)
        for name, node in source.functions.items():
            if there.text(name) != source.text(name):
                continue
            decorators = " ".join(map(ast.unparse, node.decorator_list))
            compiled = "compiled" in decorators or "jit" in decorators
            compiled |= path[:-3].replace("/", ".") in bodies
            base = source.span(node)[0]
            lines: dict[int, list[Mutant]] = defaultdict(list)
            for kind, spot, new in _sites(node):
                start, end = source.span(spot)
                old, line = source.bytes[start:end].decode(), source.bytes[:start].count(b"\n") + 1
                place = (path, name, line, start - base, end - base)
                lines[line].append(Mutant(*place, old, new, kind, compiled))
            if lines:
                pools[next(iter(lines.values()))[0].group] += lines.values()
    rng = random.Random(seed)
    chosen = [rng.sample(pools[group], count // len(GROUPS)) for group in GROUPS]
    return [
        rng.choices(line, [1 if one.kind in COARSE else 3 for one in line])[0]
        for lines in zip(*chosen, strict=True)  # so that any number of the first is a fair sample
        for line in lines
    ]


def edit(tree: Path, mutants: dict[int, Mutant], *, probes: bool) -> None:
    """Write mutants into the files of a tree, or probes in their places; lines keep their numbers.

    A probe calls ``hit`` of the module ``_mutants_probe`` with the mutant's number.
    """
    edits: dict[str, list[tuple[tuple[int, int, int], bytes, int]]] = defaultdict(list)
    for number, mutant in mutants.items():
        source = Source(tree / mutant.path)
        base = source.span(source.functions[mutant.function])[0]
        start, end = base + mutant.start, base + mutant.end
        assert source.bytes[start:end].decode() == mutant.old, mutant
        hit = b'__import__("_mutants_probe").hit(%d)' % number
        outer, inner = (start, 1, -end), (end, 0, -start)  # of two, one may begin where one ends
        if not probes:
            lines = "\n" * mutant.old.count("\n")
            edits[mutant.path].append((outer, f"({mutant.new}{lines})".encode(), end))
        elif mutant.kind == "statement":
            edits[mutant.path].append((outer, hit + b"; ", start))
        else:
            edits[mutant.path] += [(outer, b"(" + hit + b", (", start), (inner, b"))[1]", end)]
    for path, pieces in edits.items():
        file = tree / path
        text, done, parts = file.read_bytes(), 0, list[bytes]()
        for (start, _, _), new, end in sorted(pieces):
            parts += [text[done:start], new]
            done = end
        file.write_bytes(b"".join(parts) + text[done:])
        compile(file.read_bytes(), path, "exec")
        moment = 1_500_000_000 + 2 * min(mutants)  # else Python may take what it compiled before
        os.utime(file, (moment, moment))

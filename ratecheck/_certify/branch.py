"""Branch and bound over boxes of instances: the least constant that holds in all of them.

The boxes in which the constant is largest are divided first, so that the search may be stopped at
any time: the largest constant of those that are left holds everywhere. What was divided, and along
which coordinate, is a tree. It is all that a checker needs, which evaluates the boxes anew.
"""

from __future__ import annotations

import base64
import io
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ratecheck._certify.cover import Coordinate
from ratecheck._certify.enclosures import Unprovable
from ratecheck._certify.examine import Examined, Problem
from ratecheck._claims.fields import Numbers
from ratecheck._store.files import write_whole

__all__ = ["Branching", "divided", "grown", "is_over", "replay"]

#: Boxes that are divided at once, and the most that may wait.
BATCH, MOST = 384, 400_000
#: Simple numbers have at most so many decimals.
_DECIMALS = 12
#: What reading a file raises that is damaged, or is not there.
_DAMAGED = (OSError, ValueError, KeyError, EOFError, zlib.error, BadZipFile)
#: A leaf of the tree; other codes are one more than the coordinate that is divided.
_LEAF = 0


class Branching:
    """The boxes that are left, and the tree of those before them.

    Args:
        problem: the bound.
        target: a box in which this constant holds is done.
    """

    def __init__(self, problem: Problem, target: float) -> None:
        self.problem, self.target = problem, target
        low, high = problem.cover.roots()
        self.roots = low.shape[1]
        #: Of every box of the tree the code and the number of the first of its two parts.
        self.codes = np.zeros(0, dtype=np.uint8)
        self.first = np.zeros(0, dtype=np.int64)
        k = len(low)
        self.low, self.high = np.empty((k, 0)), np.empty((k, 0))
        self.ratio, self.split = np.empty(0), np.empty(0, dtype=int)
        self.node, self.depth = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        for start in range(0, self.roots, 2 * BATCH):
            part = slice(start, start + 2 * BATCH)
            examined = problem.examine(low[:, part], high[:, part], target, target)
            self._take(examined, np.zeros(len(examined.ratio), dtype=np.int64))

    @property
    def proved(self) -> float:
        """The constant that is proved so far; infinite where none is."""
        return max(self.target, float(self.ratio.max(initial=0.0)))

    @property
    def done(self) -> bool:
        """Whether the target is proved."""
        return not len(self.ratio)

    def worst(self) -> tuple[str, Numbers]:
        """A box in which nothing better is known, by the names of its coordinates; its middle."""
        at = int(np.argmax(self.ratio))
        low, high = self.low[:, at], self.high[:, at]
        return self.problem.cover.named(low, high), (low + high) / 2

    def middles(self, count: int) -> Numbers:
        """The middles of the boxes that are to be divided first, (k, count) or fewer."""
        at = self._first(min(count, len(self.ratio)))
        middle = (self.low[:, at] + self.high[:, at]) / 2
        whole = [one.kind == "whole" for one in self.problem.cover.coordinates]
        middle[whole] = np.floor(middle[whole])
        return middle

    def simplest(self, count: int) -> Numbers:
        """The shortest decimals in the boxes that are to be divided first, (k, count) or fewer.

        A function that compares with a number is another one there, or at an end.
        """
        at = self._first(min(count, len(self.ratio)))
        low, high = self.low[:, at], self.high[:, at]
        found = self.middles(count)
        for digits in range(_DECIMALS, -1, -1):
            shorter = np.round((low + high) / 2, digits)
            found = np.where((low <= shorter) & (shorter <= high), shorter, found)
        return found

    def _first(self, some: int) -> Any:
        """Numbers of the boxes with the largest constants; where none is known the larger box."""
        known = np.isfinite(self.ratio)
        key = np.where(known, self.ratio, 1e300) * 2.0 ** np.where(known, 0, -self.depth)
        return np.argpartition(-key, some - 1)[:some] if some < len(key) else np.arange(some)

    def step(self) -> None:
        """Divide the boxes with the largest constants, and examine their parts.

        Raises:
            Unprovable: these boxes are points, or too many boxes wait.
        """
        some = min(BATCH, len(self.ratio))
        at = self._first(some)
        if (self.split[at] < 0).any():
            stuck = at[self.split[at] < 0][0]
            at_point = self.problem.cover.named(self.low[:, stuck], self.high[:, stuck])
            raise Unprovable(f"nothing is known where {at_point}")
        if len(self.ratio) > MOST:
            raise Unprovable(f"more than {MOST:,} boxes wait")
        low, high = self.low[:, at], self.high[:, at]
        low, high = divided(self.problem.cover.coordinates, low, high, self.split[at])
        parts = self.problem.examine(low, high, self.target, self.target)
        self.codes[self.node[at]] = self.split[at] + 1
        self.first[self.node[at]] = len(self.codes) + 2 * np.arange(some)
        depth = np.repeat(self.depth[at] + 1, 2)
        rest = np.ones(len(self.ratio), dtype=bool)
        rest[at] = False
        self._keep(rest)
        self._take(parts, depth)

    def _keep(self, rows: Any) -> None:
        self.low, self.high = self.low[:, rows], self.high[:, rows]
        self.ratio, self.split = self.ratio[rows], self.split[rows]
        self.node, self.depth = self.node[rows], self.depth[rows]

    def _take(self, examined: Examined, depth: Any) -> None:
        """Take in new boxes; those that are not done wait."""
        node = len(self.codes) + np.arange(len(examined.ratio))
        self.codes = np.concatenate([self.codes, np.zeros(len(node), dtype=np.uint8)])
        self.first = np.concatenate([self.first, np.zeros(len(node), dtype=np.int64)])
        left = ~examined.closed
        self.low = np.concatenate([self.low, examined.low[:, left]], axis=1)
        self.high = np.concatenate([self.high, examined.high[:, left]], axis=1)
        self.ratio = np.concatenate([self.ratio, examined.ratio[left]])
        self.split = np.concatenate([self.split, examined.split[left]])
        self.node = np.concatenate([self.node, node[left]])
        self.depth = np.concatenate([self.depth, depth[left]])

    def tree(self) -> str:
        """The tree as text: the codes of all boxes, level by level."""
        level, codes = np.arange(self.roots), []
        while len(level):
            own = self.codes[level]
            codes.append(own)
            first = self.first[level[own > _LEAF]]
            level = np.stack([first, first + 1], axis=1).ravel()
        packed = zlib.compress(np.concatenate(codes).tobytes(), 9)
        return base64.b85encode(packed).decode()

    def save(self, path: Path, key: str) -> None:
        """Write all of it to a file, from which :func:`load` goes on."""
        names = ("codes", "first", "low", "high", "ratio", "split", "node", "depth")
        content = io.BytesIO()
        np.savez_compressed(content, key=key, **{name: getattr(self, name) for name in names})
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content.getvalue())

    def load(self, path: Path, key: str) -> bool:
        """Go on from a file, if it is of the same key: claim, revision, sizes and target."""
        try:
            with np.load(io.BytesIO(path.read_bytes())) as stored:
                if str(stored["key"]) != key:
                    return False
                values = {name: stored[name] for name in stored.files if name != "key"}
        except _DAMAGED:
            return False
        vars(self).update(values)
        return True


def is_over(path: Path) -> bool:
    """Whether the search in a file, as :meth:`Branching.save` writes it, has proved its target."""
    try:
        with np.load(path) as stored:
            return not len(stored["ratio"])
    except _DAMAGED:
        return False


def divided(
    coordinates: list[Coordinate], low: Numbers, high: Numbers, split: Any
) -> tuple[Numbers, Numbers]:
    """The two parts of each box, (k, B) to (k, 2 B), side by side.

    >>> one = Coordinate("t", 1.0, 4.0, "whole")
    >>> [side.tolist() for side in divided([one], np.array([[1.0]]), np.array([[4.0]]), [0])]
    [[[1.0, 3.0]], [[2.0, 4.0]]]
    """
    lows, highs = np.repeat(low, 2, axis=1), np.repeat(high, 2, axis=1)
    split = np.asarray(split)
    for i, one in enumerate(coordinates):
        rows = np.flatnonzero(split == i)
        if not len(rows):
            continue
        a, b = low[i, rows], high[i, rows]
        at = _middles(one, a, b)
        highs[i, 2 * rows] = np.floor(at) if one.kind == "whole" else at
        lows[i, 2 * rows + 1] = np.floor(at) + 1 if one.kind == "whole" else at
    return lows, highs


def _middles(one: Coordinate, a: Numbers, b: Numbers) -> Numbers:
    middle = a + (b - a) / 2
    if one.kind == "whole":
        return np.where((a > 0) & (b > 4 * a), np.sqrt(np.maximum(a, 0)) * np.sqrt(b), middle)
    if one.kind == "ratio":
        return np.where(b > 1.01 * a, np.sqrt(a) * np.sqrt(b), middle)
    if one.kind == "zoom":
        size = np.sqrt(np.abs(a)) * np.sqrt(np.abs(b))
        wide = np.maximum(np.abs(a), np.abs(b)) > 2 * np.minimum(np.abs(a), np.abs(b))
        at = np.where(wide, np.where(a > 0, size, -size), middle)
        at = np.where(a == 0, b / 4, np.where(b == 0, a / 4, at))
        return np.where((a < 0) & (b > 0), 0.0, at)
    return middle


def replay(
    problem: Problem, tree: str, target: float, proved: float,
    doing: Callable[[int], None] = lambda done: None,
) -> tuple[int, bool]:  # fmt: skip
    """Go through a tree and evaluate every box of it anew.

    Returns:
        How many boxes there are, and whether the bound is nowhere negative in them.

    Raises:
        Unprovable: a leaf is not proved, or the tree has other boxes.
    """
    try:
        data = zlib.decompress(base64.b85decode(tree))
    except (ValueError, zlib.error) as error:
        raise Unprovable(f"the tree is not readable: {error}") from None
    codes = np.frombuffer(data, dtype=np.uint8)
    at, signed = 0, True

    def stated(examined: Examined) -> Any:
        nonlocal at, signed
        signed &= not examined.negative.any()
        count = len(examined.ratio)
        own = codes[at : at + count].astype(int)
        if len(own) < count:
            raise Unprovable(
                f"the tree must say what becomes of {at + count} boxes; it ends before"
            )
        if (own > len(examined.low)).any():
            raise Unprovable("the tree divides along a coordinate that there is not")
        if (~examined.closed & (own == _LEAF)).any():
            at_least = float(examined.ratio[~examined.closed & (own == _LEAF)].max())
            raise Unprovable(f"a leaf of the tree is proved with the constant {at_least:.9g} only")
        at += count
        doing(at)
        return own

    _by_levels(problem, target, proved, stated)
    if at != len(codes):
        raise Unprovable(f"the tree must have {at} boxes; it has {len(codes)}")
    return at, signed


def grown(problem: Problem, target: float, proved: float, most: int) -> tuple[str, int]:
    """A tree that is found level by level, so that :func:`replay` sees the very same batches.

    What is known of a box may depend on those that are evaluated together with it.

    Args:
        problem: the bound.
        target: the constant with which parts are cut off.
        proved: the constant with which a box is done, not smaller.
        most: boxes that the tree may have.

    Returns:
        The tree as text, and how many boxes it has.

    Raises:
        Unprovable: it has more boxes, or one that cannot be divided.
    """
    codes: list[Any] = []
    total = 0

    def chosen(examined: Examined) -> Any:
        nonlocal total
        total += len(examined.ratio)
        if total > most:
            raise Unprovable(f"the tree has more than {most:,} boxes, level by level")
        if (~examined.closed & (examined.split < 0)).any():
            raise Unprovable("nothing is known of a single point")
        own = np.where(examined.closed, _LEAF, examined.split + 1)
        codes.append(own.astype(np.uint8))
        return own

    _by_levels(problem, target, proved, chosen)
    packed = zlib.compress(np.concatenate(codes).tobytes(), 9)
    return base64.b85encode(packed).decode(), total


def _by_levels(
    problem: Problem, target: float, proved: float, code_of: Callable[[Examined], Any]
) -> None:
    """Evaluate all boxes, level by level, and divide those to which a coordinate is given."""
    low, high = problem.cover.roots()
    while low.shape[1]:
        parts = []
        for start in range(0, low.shape[1], 2 * BATCH):
            rows = slice(start, start + 2 * BATCH)
            examined = problem.examine(low[:, rows], high[:, rows], target, proved)
            code = code_of(examined)
            inner = code > _LEAF
            parts.append(
                divided(
                    problem.cover.coordinates, examined.low[:, inner], examined.high[:, inner],
                    code[inner] - 1,
                )
            )  # fmt: skip
        low, high = (np.concatenate([part[side] for part in parts], axis=1) for side in (0, 1))

"""The linear equations between multipliers that make an identity of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ratecheck._certify.gram.forms import Atom, Form, Monomial
from ratecheck._certify.gram.problem import Block

Key = tuple[Monomial, Atom]
Rationals = list[list[Fraction]]


@dataclass(frozen=True)
class Cell:
    """A block with its multiplier restricted to U P U', P positive semidefinite.

    Args:
        block: the block.
        U: rational, as many columns as P has.
    """

    block: Block
    U: tuple[tuple[Fraction, ...], ...]

    @property
    def size(self) -> int:
        """The rows of P."""
        return len(self.U[0])

    def coefficients(self) -> dict[Key, dict[tuple[int, int], Fraction]]:
        """What an entry of P, on or above the diagonal, contributes to each key."""
        result: dict[Key, dict[tuple[int, int], Fraction]] = {}
        n, k = len(self.U), self.size
        columns = [[(i, self.U[i][a]) for i in range(n) if self.U[i][a]] for a in range(k)]
        for a in range(k):
            for b in range(a, k):
                weight = 1 if a == b else 2
                for i, u in columns[a]:
                    for j, v in columns[b]:
                        for key, c in self.block.matrix[i][j].terms.items():
                            entries = result.setdefault(key, {})
                            entries[a, b] = entries.get((a, b), Fraction(0)) + weight * c * u * v
        return result

    def whole(self, P: Rationals) -> Rationals:
        """The multiplier U P U'."""
        left = [row_times(row, P) for row in self.U]
        return [[sum(map(_product, row, other), Fraction(0)) for other in self.U] for row in left]


def _product(first: Fraction, second: Fraction) -> Fraction:
    return first * second


def row_times(row: Sequence[Fraction], matrix: Rationals) -> list[Fraction]:
    """A row times a matrix."""
    return [
        sum((row[i] * matrix[i][j] for i in range(len(row)) if row[i]), Fraction(0))
        for j in range(len(matrix[0]))
    ]


def whole_cell(block: Block) -> Cell:
    """A block without a restriction."""
    n = len(block.matrix)
    return Cell(block, tuple(tuple(Fraction(int(i == j)) for j in range(n)) for i in range(n)))


@dataclass(frozen=True)
class System:
    """The linear equations that make an identity of the multipliers.

    Args:
        cells: whose entries on and above the diagonals are the unknowns, one cell after another.
        rows: of every equation the coefficients by unknown.
        keys: what each equation is about.
    """

    cells: Sequence[Cell]
    rows: Sequence[Mapping[int, Fraction]]
    keys: Sequence[Key]

    @property
    def unknowns(self) -> int:
        """How many."""
        return sum(cell.size * (cell.size + 1) // 2 for cell in self.cells)

    def right(self, target: Form) -> list[Fraction]:
        """The right-hand sides for a target."""
        return [target.terms.get(key, Fraction(0)) for key in self.keys]


def system(cells: Sequence[Cell], targets: Sequence[Form]) -> System:
    """The equations for these cells, with those that only a target has.

    Cells with more rows come first: their entries follow from the others, which are rounded.
    """
    cells = sorted(cells, key=lambda cell: (-cell.size, cell.block.free))
    rows: dict[Key, dict[int, Fraction]] = {key: {} for t in targets for key in t.terms}
    start = 0
    for cell in cells:
        place = {pair: start + n for n, pair in enumerate(upper(cell.size))}
        for key, entries in cell.coefficients().items():
            row = rows.setdefault(key, {})
            for pair, c in entries.items():
                if c:
                    row[place[pair]] = c
        start += len(place)
    keys = sorted(rows)
    return System(cells, [rows[key] for key in keys], keys)


def upper(size: int) -> list[tuple[int, int]]:
    """The places of a matrix on and above its diagonal."""
    return [(i, j) for i in range(size) for j in range(i, size)]

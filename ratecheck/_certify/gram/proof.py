"""A proof that was found: its multipliers, as data and as lines to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ratecheck._certify.check import SQUARES, TIMES, Matrix, rationals
from ratecheck._certify.gram.problem import Problem
from ratecheck._certify.gram.solve import multipliers
from ratecheck._certify.gram.verify import verify


@dataclass(frozen=True)
class Proof:
    """Multipliers that make bound - measured a sum of what is not negative.

    Args:
        problem: of the theorem.
        terms: plain values: ``of``, what is multiplied, and ``multiplier``, rows of rationals.
        excess: what is proved is (1 + excess) times the bound.
    """

    problem: Problem
    terms: Sequence[Mapping[str, Any]]
    excess: Fraction

    def check(self) -> None:
        """Verify it by exact arithmetic once more.

        Raises:
            ratecheck._certify.check.Wrong: it is no proof.
        """
        verify(self.problem, self.terms, self.excess)

    def __str__(self) -> str:
        bound = "bound" if not self.excess else f"{1 + self.excess} bound"
        return "\n".join([f"{bound} - measured =", *(f"  {line}" for line in lines(self.terms))])


def prove(problem: Problem, excess: Fraction | None = None) -> Proof:
    """Prove a theorem for all dimensions, and verify the proof by exact arithmetic.

    Args:
        problem: with a conclusion.
        excess: the share by which the bound may be exceeded; by default none where that can be
            proved, else a millionth or 10^-4, which :attr:`Proof.excess` says.

    Raises:
        Unproved: no proof is found.
        InputError: the theorem shows nothing.

    >>> p = Problem()
    >>> v, w = p.vectors("v w")
    >>> p.show((v + w).squared <= 2 * v.squared + 2 * w.squared)
    >>> print(prove(p))
    bound - measured =
      |v - w|^2
    """
    return Proof(problem, *multipliers(problem, excess))


def lines(terms: Sequence[Mapping[str, Any]]) -> list[str]:
    """A term to a line, Gram matrices as sums of squares."""
    result: list[str] = []
    for term in terms:
        name, factor, *rows = term["of"]
        size = len(term["multiplier"])
        matrix = rationals(term["multiplier"], size)
        before = "" if factor == "1" else f"{factor} "
        if name == SQUARES or name.startswith(TIMES):
            weight = "" if name == SQUARES else f"[{name.removeprefix(TIMES)}] "
            for number, square in squares(matrix, rows):
                result.append(f"{_number(number)}{before}{weight}{square}")
        elif size == 1:
            result.append(f"{_number(matrix[0][0])}{before}[{name}]")
        else:
            result.append(f"{before}<{term['multiplier']}, [{name}]>")
    return result


def squares(matrix: Matrix, rows: Sequence[str]) -> list[tuple[Fraction, str]]:
    """A positive semidefinite matrix as a sum of squares with factors, by elimination."""
    names = [_product(row) for row in rows]
    left = [list(row) for row in matrix]
    result = []
    for k, pivot_row in enumerate(left):
        pivot = pivot_row[k]
        if not pivot:
            continue
        shares = [entry / pivot for entry in pivot_row]
        parts = [_signed(shares[j], names[j]) for j in range(k, len(left)) if shares[j]]
        body = " ".join(parts).removeprefix("+ ")
        open_, close = ("(", ")") if rows[k].count("*") == 0 else ("|", "|")
        result.append((pivot, f"{open_}{body}{close}^2"))
        for i in range(k + 1, len(left)):
            for j in range(k + 1, len(left)):
                left[i][j] -= pivot * shares[i] * shares[j]
    return result


def _product(row: str) -> str:
    monomial, _, name = row.partition(" * ")
    return monomial if not name else name if monomial == "1" else f"{monomial} {name}"


def _signed(number: Fraction, name: str) -> str:
    return f"{'+' if number > 0 else '-'} {_number(abs(number))}{name}"


def _number(number: Fraction) -> str:
    if number == 1:
        return ""
    return f"{number} " if number.denominator == 1 else f"({number}) "

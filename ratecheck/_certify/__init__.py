"""Proofs about claims, by exact rationals and balls, as files that anybody checks again."""

from ratecheck._certify import gram as gram

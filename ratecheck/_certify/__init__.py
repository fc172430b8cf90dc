"""Proofs about claims, by exact rationals and balls, as files that anybody checks again."""

from ratecheck._certify import gram as gram
from ratecheck._names import check_installed

check_installed("certify", "flint")

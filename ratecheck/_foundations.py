"""What a paper's claims and algorithms need of linsys, under one name: ``rc.linalg.norm``."""

from linsys import InputError as InputError, linalg as linalg
from linsys.recursions import LinearRecursion as LinearRecursion
from linsys.rounds import rounds as rounds

__all__ = ["InputError", "LinearRecursion", "linalg", "rounds"]

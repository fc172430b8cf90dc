"""What a paper's claims and algorithms need of linsys, under one name: ``rc.linalg.norm``."""

from linsys import linalg as linalg
from linsys.rounds import rounds as rounds
from linsys.validate import InputError as InputError

__all__ = ["InputError", "linalg", "rounds"]

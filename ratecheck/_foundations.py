"""What a paper's claims and algorithms need of linsys, under one name: ``rc.linalg.norm``."""

from linsys.quadratics import Quadratics as Quadratics
from linsys.rounds import rounds as rounds
from linsys.validate import InputError as InputError
from ratecheck import _linalg as linalg

__all__ = ["InputError", "Quadratics", "linalg", "rounds"]

"""Systems of collaborative learning, the algorithms on them, and exact answers about both."""

from linsys.systems import FiniteSystem, GaussianSystem, sample_gaussian_system
from linsys.validate import InputError

__all__ = ["FiniteSystem", "GaussianSystem", "InputError", "sample_gaussian_system"]

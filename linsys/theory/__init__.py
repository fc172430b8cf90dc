"""What the papers state about linear systems, as functions of (stacks of) systems.

Each function returns the two sides of a statement, ``(measured, bound)``. All of them work on many
systems at once and on high-precision numbers; see :class:`FiniteStack`.
"""

from linsys.theory._stack import FiniteStack

__all__ = ["FiniteStack"]

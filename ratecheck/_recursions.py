"""What a paper needs of linsys' exact moments, which bring the compiler along."""

from linsys.recursions import LinearRecursion as LinearRecursion

__all__ = ["LinearRecursion"]

"""The decorator of every kernel, as :mod:`linsys._compiled` makes it."""

from linsys._compiled import compiled, unique_name

__all__ = ["compiled", "unique_name"]

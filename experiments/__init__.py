"""Every figure and rate of the papers, one file each, and the ``ratecheck`` command."""

from pkgutil import extend_path

# Modules of a user's folder of this name come before ours, also without an ``__init__.py``.
__path__ = list(dict.fromkeys([*extend_path([], __name__), *__path__]))

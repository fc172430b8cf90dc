"""python-flint, which a plain installation leaves out."""

from linsys.validate import InputError

try:
    import flint
except ImportError as error:
    raise InputError(
        "extra `certify` must be installed; found no flint: pip install 'ratecheck[certify]', or "
        "in a clone '.[certify]'"
    ) from error

__all__ = ["flint"]

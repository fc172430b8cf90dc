"""What to write in place of a call that leaves high precision, by the line that makes it."""

from __future__ import annotations

import linecache
import re

from ratecheck._claims.places import place_of

#: How the message of a TypeError begins that a high-precision number raises in place of becoming a
#: float, and that of one that NumPy raises where it has no loop for such numbers.
LEFT, _NO_LOOP = "left high precision", "Cannot cast ufunc"
#: Of others that NumPy raises for such numbers.
_NO_METHOD, _NOT_FINITE = "of type mpf which has no callable", "ufunc 'isfinite' not supported"
#: Functions of ``math`` that high-precision numbers have by another name.
_RENAMED = {
    **{"acos": "np.arccos", "atan": "np.arctan", "fabs": "abs", "fsum": "sum", "pow": "**"},
    **{"hypot": "np.sqrt", "dist": "rc.linalg.norm"},
}
#: What makes floats of numbers, and nothing else.
_CONVERSIONS = {"asarray", "astype", "float", "float64"}
#: Those that are called as in NumPy.
_ALIKE = {"cos", "exp", "expm1", "log", "log1p", "prod", "sin", "sqrt", "tan"}
_OF_LINALG = {
    "eigvalsh": "rc.linalg.lambda_min or rc.linalg.lambda_max",
    "inv": "rc.linalg.inverse",
    "norm": "rc.linalg.operator_norm or rc.linalg.norm",
    "solve": "rc.linalg.solve",
}
_CALLED, _ASSIGNED = re.compile(r"(?:\w+\.)*(\w+)\("), re.compile(r"(\w+)\[[^=]*\] [-+*/]?= ")


def leaves(error: BaseException) -> bool:
    """Whether an error says that a call does not take high-precision numbers."""
    said = str(error)
    return isinstance(error, TypeError) and (
        said.startswith((LEFT, _NO_LOOP, _NOT_FINITE)) or _NO_METHOD in said
    )


def called(error: BaseException) -> str:
    """What was called where an error arose, such as "math.floor"; "" where that is not known."""
    call = _CALLED.match(_what_raised(error))
    return call[0].removesuffix("(") if call else ""


def instead(error: BaseException) -> str:
    """What to write in place of what, where an error is one of these and that is known; else "".

    Such as "np.sqrt in place of math.sqrt".
    """
    said = str(error)
    if not said.startswith((LEFT, _NO_LOOP)):
        return ""
    if said.startswith(_NO_LOOP) and " output " in said:  # such as y += x
        return "y = y + x in place of y += x, which keeps the kind of numbers of y"
    code = _what_raised(error)
    if said.startswith(LEFT) and (to := _ASSIGNED.match(code)):
        return f"np.array([..]) of its entries in place of assignments to {to[1]}, in float64"
    call = _CALLED.match(code)
    if call is None:
        return ""
    name, called = call[1], call[0].removesuffix("(")
    if said.startswith(_NO_LOOP):
        better = _OF_LINALG.get(name)
    elif name in _CONVERSIONS:
        return f"the numbers as they are in place of {called}()"
    else:
        better = f"np.{name}" if name in _ALIKE else _RENAMED.get(name)
    return f"{better} in place of {called}" if better not in (None, called) else ""


def _what_raised(error: BaseException) -> str:
    """The part of the formula's line that raised an error, from its first character on."""
    at = place_of(error)
    if at is None or at.lineno is None or at.colno is None:
        return ""
    line = linecache.getline(at.filename, at.lineno).encode()  # columns count bytes
    return line[at.colno :].decode()

"""Elementary functions on lanes, without a branch, to a unit or two in the last place.

Arguments are reduced by tables of 16 values, which two registers hold.  The polynomials interpolate
at Chebyshev nodes of the reduced interval; the comment beside each gives its largest relative error
in exact arithmetic, below the rounding of a double (1.1e-16).
"""

from __future__ import annotations

import struct
from decimal import Decimal

from linsys.kernels._parts import compiled_part
from linsys.kernels.simd import (
    bits_to_float,
    float_to_bits,
    fma,
    fnma,
    lookup,
    splat,
    splat_bits,
    sqrt,
    to_float,
    to_int,
)

__all__ = ["exp2", "minus_two_log", "normal_pair", "normal_radius", "sincos", "unit_interval"]


def _bits(value: Decimal | float) -> int:
    """The IEEE bits of the nearest double."""
    bits: int = struct.unpack("<Q", struct.pack("<d", float(value)))[0]
    return bits


def _double(bits: int) -> float:
    """The double with these IEEE bits."""
    number: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return number


_ONE_BITS = 0x3FF0000000000000
_MANTISSA = 0x000FFFFFFFFFFFFF
_STEP = 1 << 48  # a sixteenth of a binade, in bits
#: 1.5 * 2^48: adding it rounds to the nearest sixteenth and leaves their number in the low bits.
_ROUND = 422212465065984.0

#: 2^(i/16) less i steps: i, at the same place in the rounded argument, is added with the exponent.
_power = lookup("_power", [_bits(Decimal(2) ** (Decimal(i) / 16)) - i * _STEP for i in range(16)])


@compiled_part
def exp2(x):
    """2^x for -1022 <= x < 1023.5."""
    shifted = x + _ROUND
    r = x - (shifted - _ROUND)
    sixteenths = float_to_bits(shifted)
    scale = bits_to_float(float_to_bits(_power(sixteenths)) + (sixteenths << splat_bits(48)))
    # (2^r - 1) / r on |r| <= 1/32, degree 5: 1.5e-17 of 2^r
    p = fma(r, splat(0.00015403723980749256), splat(0.0013333781576784268))
    p = fma(p, r, splat(0.009618129106919537))
    p = fma(p, r, splat(0.0555041086566393))
    p = fma(p, r, splat(0.24022650695910075))
    p = fma(p, r, splat(0.6931471805599457))
    return fma(scale * r, p, scale)


#: Mantissas are taken from here to twice as far, so that 1 is two thirds into its sixteenth: the
#: numbers below 1 lie twice as dense.
_LEAST_BITS = 0x3FE6555555555555


def _reciprocal(i: int) -> float:
    """About 1/m in the middle of sixteenth i of the mantissas; exactly 1 where m = 1 is."""
    low, high = (_double(_LEAST_BITS + at * _STEP) for at in (i, i + 1))
    return 1.0 if low < 1.0 < high else 2.0 / (low + high)


_RECIPROCALS = [_reciprocal(i) for i in range(16)]
_reciprocal_of = lookup("_reciprocal_of", [_bits(c) for c in _RECIPROCALS])
_log_of = lookup("_log_of", [_bits(2 * Decimal(c).ln()) for c in _RECIPROCALS])
_MINUS_TWO_LOG2 = -1.3862943611198906
_EXPONENT_AS_FLOAT = 0x4330000000000000  # 2^52: an integer or-ed in becomes 2^52 + integer


@compiled_part
def minus_two_log(x):
    """-2 log x of a positive normal number, zero at 1."""
    biased = float_to_bits(x) + splat_bits(_ONE_BITS - _LEAST_BITS)
    exponent = bits_to_float((biased >> splat_bits(52)) | splat_bits(_EXPONENT_AS_FLOAT))
    k = exponent - (4503599627370496.0 + 1023.0)
    m = bits_to_float((biased & splat_bits(_MANTISSA)) + splat_bits(_LEAST_BITS))
    sixteenth = biased >> splat_bits(48)
    f = fma(m, _reciprocal_of(sixteenth), splat(-1.0))
    # -2 log(1 + f) / f on |f| <= 0.0298, degree 8: 1e-17
    f2 = f * f
    even = fma(f2, splat(-0.22258592118499437), splat(-0.28571404339388623))
    odd = fma(f2, splat(0.2504000620231024), splat(0.3333330667868813))
    even = fma(even, f2, splat(-0.40000000005978414))
    odd = fma(odd, f2, splat(0.500000000065761))
    even = fma(even, f2, splat(-0.6666666666666626))
    odd = fma(odd, f2, splat(0.9999999999999957))
    even = fma(even, f2, splat(-2.0))
    p = fma(odd, f, even)
    return fma(f, p, fma(k, splat(_MINUS_TWO_LOG2), _log_of(sixteenth)))


def _cosines() -> list[Decimal]:
    """cos(2 pi i / 16) for i = 0 .. 15."""
    root = Decimal(2).sqrt()
    quarter = [Decimal(1), (2 + root).sqrt() / 2, root / 2, (2 - root).sqrt() / 2]
    half = [*quarter, Decimal(0), *(-c for c in quarter[:0:-1])]
    return [*half, *(-c for c in half)]


_COSINES = _cosines()
_cosine_of = lookup("_cosine_of", [_bits(c) for c in _COSINES])
_sine_of = lookup("_sine_of", [_bits(c) for c in _COSINES[-4:] + _COSINES[:-4]])


@compiled_part
def sincos(f, sixteenth):
    """(sin, cos) of (``sixteenth`` + f) 2 pi / 16 for |f| <= 1/2; whole turns do not matter."""
    z = f * f
    # sin(pi f / 8) / f, degree 4 in f^2 <= 1/4: 4e-18
    s = fma(z, splat(6.114984947804156e-10), splat(-2.857514779264285e-07))
    s = fma(s, z, splat(7.782483030805464e-05))
    s = fma(s, z, splat(-0.01009318902353477))
    s = fma(s, z, splat(0.39269908169872414)) * f
    # (cos(pi f / 8) - 1) / f^2, degree 4 in f^2: 1e-20 of the cosine
    c = fma(z, splat(-2.4016997195677942e-11), splat(1.4026794790126717e-08))
    c = fma(c, z, splat(-5.09362323289788e-06))
    c = fma(c, z, splat(0.000990896515238458))
    c = fma(c, z, splat(-0.07710628438351061)) * z
    sine, cosine = _sine_of(sixteenth), _cosine_of(sixteenth)
    return fma(cosine, s, fma(sine, c, sine)), fnma(sine, s, fma(cosine, c, cosine))


@compiled_part
def unit_interval(bits):
    """Uniform on {0, 2^-52, .., 1 - 2^-52} from the upper 52 random bits."""
    return bits_to_float((bits >> splat_bits(12)) | splat_bits(_ONE_BITS)) - 1.0


@compiled_part
def normal_radius(bits):
    """Length of a pair of independent standard normals; at most sqrt(128 ln 2) = 9.42."""
    return sqrt(minus_two_log(to_float(bits | splat_bits(1)) * 2.0**-64))


@compiled_part
def normal_pair(radius, bits):
    """Two independent standard normals by Box and Muller: a radius at a uniform angle."""
    # The low four bits turn by sixteenths, the upper 52 within one.
    fraction = bits_to_float((bits >> splat_bits(12)) | splat_bits(_ONE_BITS)) - 1.5
    sine, cosine = sincos(fraction, bits)
    return radius * sine, radius * cosine


@compiled_part
def floor_positive(x):
    """(integer part as bits, fractional part) of x in [0, 2^52)."""
    whole = to_int(x)
    return whole, x - to_float(whole)

"""Elementary functions on lanes, without a branch, to a few units in the last place.

The polynomials interpolate at Chebyshev nodes of the reduced interval; the comment beside each
gives its largest relative error in exact arithmetic, below the rounding of a double (1.1e-16).
"""

from __future__ import annotations

from linsys._compiled import compiled
from linsys.kernels.simd import (
    bits_to_float,
    float_to_bits,
    fma,
    maximum,
    select,
    splat,
    splat_bits,
    sqrt,
    to_float,
    to_int,
)

__all__ = ["exp2", "log", "normal_pair", "sincos_quarter", "unit_interval"]

_LN2_HIGH, _LN2_LOW = (
    0.6931467056274414,
    4.7493250390316726e-07,
)  # _LN2_HIGH has 20 significant bits
_ROUND = (
    6755399441055744.0  # 1.5 * 2^52: adding it rounds to the nearest integer, left in the low bits
)
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_ONE_BITS = 0x3FF0000000000000
_MANTISSA = 0x000FFFFFFFFFFFFF
_EXPONENT_AS_FLOAT = (
    0x4330000000000000  # 2^52: an integer below 2^52 or-ed in becomes 2^52 + integer
)


@compiled
def exp2(x):
    """2^x for x < 1023.5; below -1022 the result is 2^-1022, the least normal number."""
    x = maximum(x, splat(-1022.0))
    shifted = x + _ROUND
    r = x - (shifted - _ROUND)
    # (2^r - 1) / r on |r| <= 1/2, degree 10: 2e-17 of 2^r; even and odd halves run in parallel.
    r2 = r * r
    even = fma(r2, splat(4.4549605981865186e-10), splat(1.0178062445845774e-07))
    odd = fma(r2, splat(7.072585949269223e-09), splat(1.321544258792169e-06))
    even = fma(even, r2, splat(1.525273382983612e-05))
    odd = fma(odd, r2, splat(0.0001540353044173605))
    even = fma(even, r2, splat(0.0013333558146416936))
    odd = fma(odd, r2, splat(0.009618129107606888))
    even = fma(even, r2, splat(0.0555041086648216))
    odd = fma(odd, r2, splat(0.24022650695910097))
    even = fma(even, r2, splat(0.6931471805599453))
    p = fma(fma(odd, r, even), r, splat(1.0))
    return bits_to_float(float_to_bits(p) + (float_to_bits(shifted) << splat_bits(52)))


@compiled
def log(x):
    """Natural logarithm of a positive normal number."""
    biased = float_to_bits(x) + splat_bits(_ONE_BITS - _SQRT_HALF_BITS)
    exponent = bits_to_float((biased >> splat_bits(52)) | splat_bits(_EXPONENT_AS_FLOAT))
    k = exponent - (4503599627370496.0 + 1023.0)
    m = bits_to_float((biased & splat_bits(_MANTISSA)) + splat_bits(_SQRT_HALF_BITS))
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    # (log((1+s)/(1-s)) - 2s) / s^3 in z = s^2 <= 0.0295, degree 6: 1e-17
    z2 = z * z
    even = fma(z2, splat(0.14621188500121074), splat(0.18182900699448717))
    odd = fma(z2, splat(0.15331337546229434), splat(0.22222210975660114))
    even = fma(even, z2, splat(0.2857142862695204))
    odd = fma(odd, z2, splat(0.39999999999897345))
    even = fma(even, z2, splat(0.666666666666667))
    p = fma(odd, z, even)
    return fma(k, splat(_LN2_HIGH), fma(k, splat(_LN2_LOW), fma(s * z, p, s + s)))


@compiled
def sincos_quarter(turns):
    """(sin, cos) of 2 pi ``turns`` for turns in [0, 1)."""
    quarters = turns * 4.0
    shifted = quarters + _ROUND
    f = quarters - (shifted - _ROUND)
    z = f * f
    # sin(pi f / 2) / f, degree 6 in f^2 <= 1/4: 3e-18
    s = fma(z, splat(5.633910598053464e-08), splat(-3.59864319355575e-06))
    s = fma(s, z, splat(0.00016044115070141775))
    s = fma(s, z, splat(-0.004681754132336218))
    s = fma(s, z, splat(0.07969262624604276))
    s = fma(s, z, splat(-0.6459640975062443))
    s = fma(s, z, splat(1.5707963267948966)) * f
    # cos(pi f / 2), degree 7 in f^2: 3e-20
    c = fma(z, splat(-6.321230856185146e-09), splat(4.710609515348118e-07))
    c = fma(c, z, splat(-2.520203676375042e-05))
    c = fma(c, z, splat(0.000919260274182107))
    c = fma(c, z, splat(-0.020863480763311126))
    c = fma(c, z, splat(0.2536695079010467))
    c = fma(c, z, splat(-1.2337005501361697))
    c = fma(c, z, splat(1.0))
    # The quadrant q = 0..4 is in the low bits of `shifted`: odd ones swap, and each function
    # changes sign in two.
    q = float_to_bits(shifted)
    one = splat_bits(1)
    swap = to_float(q & one) == splat(1.0)
    flip_sin = (q & splat_bits(2)) << splat_bits(62)
    flip_cos = ((q + one) & splat_bits(2)) << splat_bits(62)
    sine = bits_to_float(float_to_bits(select(swap, c, s)) ^ flip_sin)
    cosine = bits_to_float(float_to_bits(select(swap, s, c)) ^ flip_cos)
    return sine, cosine


@compiled
def unit_interval(bits):
    """Uniform on {0, 2^-52, .., 1 - 2^-52} from the upper 52 random bits."""
    return bits_to_float((bits >> splat_bits(12)) | splat_bits(_ONE_BITS)) - 1.0


@compiled
def normal_pair(bits_radius, bits_angle):
    """Two independent standard normals by Box-Muller; |z| <= sqrt(104 ln 2) = 8.49."""
    u = 1.0 - unit_interval(bits_radius)
    radius = sqrt(log(u) * -2.0)
    sine, cosine = sincos_quarter(unit_interval(bits_angle))
    return radius * sine, radius * cosine


@compiled
def floor_positive(x):
    """(integer part as bits, fractional part) of x in [0, 2^52)."""
    whole = to_int(x)
    return whole, x - to_float(whole)

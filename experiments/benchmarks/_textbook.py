"""Ten textbook methods with their worst cases, as theorems of :mod:`ratecheck.gram`.

Each function states measured <= bound; the least factor of the bound is the worst case, of which
the closed form is known.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from ratecheck import gram

Build = Callable[[gram.Problem], gram.Statement]


def gradient_descent(p: gram.Problem, steps: int = 3) -> gram.Statement:
    """f(x_N) - f* <= L/(4N + 2) |x_0 - x*|^2 (Drori and Teboulle 2014)."""
    f = gram.Function(p, "f", smooth=1)
    least, start = f.minimiser(), p.vector("start")
    x = start
    for _ in range(steps):
        x = x - f.gradient(x)
    return f(x) - f(least) <= (start - least).squared


def contraction(p: gram.Problem) -> gram.Statement:
    """|x_1 - x*|^2 <= max(1 - a mu, a L - 1)^2 |x_0 - x*|^2, for mu = 1/10, L = 1, a = 3/2."""
    f = gram.Function(p, "f", smooth=1, strongly="0.1")
    least, start = f.minimiser(), p.vector("start")
    step = start - Fraction(3, 2) * f.gradient(start)
    return (step - least).squared <= (start - least).squared


def gradient_norm(p: gram.Problem) -> gram.Statement:
    """|grad f(x_N)|^2 <= 2 L/(2 N + 1) (f(x_0) - f*) with a = 1/L, here N = 2."""
    f = gram.Function(p, "f", smooth=1)
    least, start = f.minimiser(), p.vector("start")
    x = start
    for _ in range(2):
        x = x - f.gradient(x)
    return f.gradient(x).squared <= f(start) - f(least)


def nesterov(p: gram.Problem) -> gram.Statement:
    """f(x_N) - f* <= 2 L/(N^2 + 5 N + 6) |x_0 - x*|^2 with the momentum k/(k + 3), here N = 3."""
    f = gram.Function(p, "f", smooth=1)
    least, start = f.minimiser(), p.vector("start")
    x = y = start
    for k in range(3):
        x, before = y - f.gradient(y), x
        y = x + Fraction(k, k + 3) * (x - before)
    return f(x) - f(least) <= (start - least).squared


def subgradient(p: gram.Problem) -> gram.Statement:
    """min_k f(x_k) - f* <= R M/sqrt(N + 1) with a = R/(M sqrt(N + 1)); N = 3, here R = M = 1."""
    f = gram.Function(p, "f")
    least, x = f.minimiser(), p.vector("start")
    p.assume((x - least).squared <= 1, "start")
    best = p.value("best")
    for k in range(4):
        p.assume(f.gradient(x).squared <= 1, f"subgradient {k}")
        p.assume(best <= f(x) - f(least), f"best {k}")
        x = x - f.gradient(x) / 2
    return best <= gram.Form.of(1)


def proximal_point(p: gram.Problem) -> gram.Statement:
    """f(x_N) - f* <= |x_0 - x*|^2/(4 a N) (Taylor, Hendrickx and Glineur 2017)."""
    f = gram.Function(p, "f")
    least, start = f.minimiser(), p.vector("start")
    x = start
    for _ in range(3):
        x = f.implicit(x, 2)
    return f(x) - f(least) <= (start - least).squared


def halpern(p: gram.Problem) -> gram.Statement:
    """|x_N - T x_N|^2 <= (2/(N + 1))^2 |x_0 - x*|^2 (Lieder 2021)."""
    T = gram.Operator(p, "T", lipschitz=1)
    fixed, start = p.vector("fixed"), p.vector("start")
    T.points.append((fixed, fixed))
    x = start
    for k in range(2):
        x = start / (k + 2) + Fraction(k + 1, k + 2) * T(x)
    return (x - T(x)).squared <= (start - fixed).squared


def heavy_ball(p: gram.Problem) -> gram.Statement:
    """Two steps with momentum on a quadratic: (1 - h)^2 - h/9 on an eigenvalue h in [1/4, 1]."""
    H = gram.SymmetricMap(p, "H", least="0.25", largest=1)
    x = p.vector("start")
    first = x - H(x)
    second = first - H(first) + (first - x) / 9
    return second.squared <= x.squared


def nonconvex(p: gram.Problem) -> gram.Statement:
    """min_k |grad f(x_k)|^2 <= 4 L/(3 N + 2) (f(x_0) - inf f) with a = 1/L, without convexity."""
    f = gram.Function(p, "f", smooth=1, strongly=None)
    start = x = p.vector("start")
    least = p.value("least")
    for k in range(3):
        p.assume(least <= f.gradient(x).squared, f"gradient {k}")
        x = x - f.gradient(x)
    p.assume(least <= f.gradient(x).squared, "last gradient")
    p.assume(p.value("infimum") <= f(x) - f.gradient(x).squared / 2, "above the infimum")
    infimum = gram.Form({((), ("infimum",)): Fraction(1)})
    return least <= f(start) - infimum


def exact_line_search(p: gram.Problem) -> gram.Statement:
    """f(x_1) - f* <= ((L - mu)/(L + mu))^2 (f(x_0) - f*) (de Klerk, Glineur and Taylor 2017)."""
    f = gram.Function(p, "f", smooth=1, strongly="0.25")
    least, start, after = f.minimiser(), p.vector("start"), p.vector("after")
    p.equal(f.gradient(after) @ f.gradient(start), 0, "orthogonal gradients")
    p.equal(f.gradient(after) @ (after - start), 0, "the best point of the line")
    return f(after) - f(least) <= f(start) - f(least)


#: Methods with the exact worst case: of the source that is named, or the largest over [mu, L] of a
#: polynomial that the method applies to an eigenvalue.
RATES: dict[str, tuple[Build, Fraction]] = {
    "gradient descent": (gradient_descent, Fraction(1, 14)),
    "contraction": (contraction, Fraction(289, 400)),
    "gradient norm": (gradient_norm, Fraction(2, 5)),
    "fast gradient": (nesterov, Fraction(1, 15)),
    "subgradient": (subgradient, Fraction(1, 2)),
    "proximal point": (proximal_point, Fraction(1, 24)),
    "Halpern": (halpern, Fraction(4, 9)),
    "heavy ball": (
        heavy_ball,
        max((1 - h) ** 2 - h / 9 for h in (Fraction(1, 4), Fraction(1))) ** 2,
    ),
    "nonconvex": (nonconvex, Fraction(4, 11)),
    "exact line search": (exact_line_search, Fraction(9, 25)),
}


def problem(name: str) -> gram.Problem:
    """The theorem of a method."""
    p = gram.Problem()
    p.show(RATES[name][0](p))
    return p

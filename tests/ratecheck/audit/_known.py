"""Well-known inequalities and identities, as claims.

Many hold with equality somewhere, or cancel to a few digits in float64; that is where a search that
trusted float64 would find "counterexamples".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ratecheck as rc
from linsys.linalg import lambda_max, lambda_min, norm, operator_norm, stretch, transpose

NUMBERS = rc.Space(
    fields={
        "a": rc.positive(),
        "b": rc.positive(),
        "t": rc.interval(),
        "x": rc.reals(),
        "y": rc.reals(),
        "z": rc.reals(),
        "k": rc.whole_numbers(low=1, high=12),
    },
    batched=True,
)
HUGE = rc.Space(
    fields={name: rc.reals(magnitude=(1.0, 1e8)) for name in ("x", "y", "z")}, batched=True
)
VECTORS = rc.Space(
    fields={
        "x": rc.reals("d"),
        "y": rc.reals("d"),
        "z": rc.reals("d"),
        "u": rc.ball("d"),
        "t": rc.interval(),
    },
    sizes={"d": (1, 4)},
    batched=True,
)
CHANCES = rc.Space(
    fields={
        "p": rc.simplex("k"),
        "q": rc.simplex("k"),
        "r": rc.simplex("k"),
        "f": rc.interval("k"),
    },
    sizes={"k": (1, 4)},
    given={"q > 0": lambda s: s.q > 0},
    batched=True,
)
MATRICES = rc.Space(
    fields={"A": rc.reals("d", "d"), "B": rc.reals("d", "d"), "x": rc.reals("d")},
    sizes={"d": (1, 3)},
    batched=True,
)


def dot(x: Any, y: Any) -> Any:
    return (x * y).sum(axis=-1)


def sym(A: Any) -> Any:
    return (A + transpose(A)) / 2


def tv(p: Any, q: Any) -> Any:
    return np.abs(p - q).sum(axis=-1) / 2


def log0(p: Any) -> Any:
    """log p, and 0 where p = 0."""
    return np.log(p + (p == 0))


def kl(p: Any, q: Any) -> Any:
    return (p * (log0(p) - np.log(q))).sum(axis=-1)


def chi2(p: Any, q: Any) -> Any:
    return ((p - q) ** 2 / q).sum(axis=-1)


def hellinger2(p: Any, q: Any) -> Any:
    return ((np.sqrt(p) - np.sqrt(q)) ** 2).sum(axis=-1) / 2


def entropy(p: Any) -> Any:
    return -(p * log0(p)).sum(axis=-1)


def frobenius2(A: Any) -> Any:
    return (A * A).sum(axis=(-2, -1))


def trace(A: Any) -> Any:
    return sum(A[..., k, k] for k in range(A.shape[-1]))


def count(s: Any) -> Any:
    """d or k as a number for every instance."""
    fields = vars(s)
    return np.full(
        len(fields.get("x", fields.get("p"))), float(next(iter(fields.values())).shape[-1])
    )


Measure = Callable[[Any], tuple[Any, Any]]
#: name: (space, kind, whether equality is attained or approached, measure)
CLAIMS: dict[str, tuple[rc.Space, str, bool, Measure]] = {
    # numbers
    "am_gm": (NUMBERS, "upper", True, lambda s: (np.sqrt(s.a * s.b), (s.a + s.b) / 2)),
    "gm_hm": (NUMBERS, "upper", True, lambda s: (2 / (1 / s.a + 1 / s.b), np.sqrt(s.a * s.b))),
    "quadratic_mean": (
        NUMBERS,
        "upper",
        True,
        lambda s: (s.a + s.b, np.sqrt(2 * (s.a**2 + s.b**2))),
    ),
    "young_weighted": (
        NUMBERS,
        "upper",
        True,
        lambda s: (
            np.exp(s.t * np.log(s.a) + (1 - s.t) * np.log(s.b)),
            s.t * s.a + (1 - s.t) * s.b,
        ),
    ),
    "young_eps": (
        NUMBERS,
        "upper",
        True,
        lambda s: (2 * s.x * s.y, s.a * s.x**2 + s.y**2 / s.a),
    ),
    "log_below_line": (NUMBERS, "upper", False, lambda s: (np.log(1 + s.a), s.a)),
    "exp_above_line": (NUMBERS, "lower", True, lambda s: (np.exp(s.t), 1 + s.t)),
    "one_minus_exp": (NUMBERS, "upper", True, lambda s: (1 - s.t, np.exp(-s.t))),
    "bernoulli": (NUMBERS, "lower", True, lambda s: ((1 + s.t) ** s.k, 1 + s.k * s.t)),
    "square_of_sum": (
        NUMBERS,
        "upper",
        True,
        lambda s: ((s.x + s.y) ** 2, 2 * s.x**2 + 2 * s.y**2),
    ),
    "triangle": (NUMBERS, "upper", True, lambda s: (abs(s.x + s.y), abs(s.x) + abs(s.y))),
    "reverse_triangle": (
        NUMBERS,
        "upper",
        True,
        lambda s: (abs(abs(s.x) - abs(s.y)), abs(s.x - s.y)),
    ),
    "max_plus_min": (
        NUMBERS,
        "identity",
        True,
        lambda s: (np.maximum(s.x, s.y) + np.minimum(s.x, s.y), s.x + s.y),
    ),
    "geometric_sum": (
        NUMBERS,
        "upper",
        True,
        lambda s: (s.t * (1 - s.t), 0 * s.t + 0.25),
    ),
    "binomial": (
        NUMBERS,
        "identity",
        True,
        lambda s: ((s.x + s.y) ** 2, s.x**2 + 2 * s.x * s.y + s.y**2),
    ),
    # the same and more with cancellation of up to sixteen digits
    "binomial_huge": (
        HUGE,
        "identity",
        True,
        lambda s: ((s.x + s.y) ** 2, s.x**2 + 2 * s.x * s.y + s.y**2),
    ),
    "cubic_huge": (
        HUGE,
        "identity",
        True,
        lambda s: ((s.x - s.y) ** 3, s.x**3 - 3 * s.x**2 * s.y + 3 * s.x * s.y**2 - s.y**3),
    ),
    "factors_huge": (
        HUGE,
        "identity",
        True,
        lambda s: ((s.x - s.y) * (s.x + s.y), s.x**2 - s.y**2),
    ),
    "order_of_sums_huge": (HUGE, "upper", True, lambda s: ((s.x + s.y) + s.z, s.x + (s.y + s.z))),
    "variance_huge": (
        HUGE,
        "upper",
        True,
        lambda s: ((s.x**2 + s.y**2) / 2 - ((s.x + s.y) / 2) ** 2, (s.x - s.y) ** 2 / 4),
    ),
    "difference_of_roots_huge": (
        HUGE,
        "upper",
        True,
        lambda s: (np.sqrt(s.x**2 + 1) - abs(s.x), 1 / (np.sqrt(s.x**2 + 1) + abs(s.x))),
    ),
    # vectors
    "cauchy_schwarz": (
        VECTORS,
        "upper",
        True,
        lambda s: (abs(dot(s.x, s.y)), norm(s.x) * norm(s.y)),
    ),
    "lagrange": (
        VECTORS,
        "lower",
        False,
        lambda s: (dot(s.x, s.x) * dot(s.y, s.y) - dot(s.x, s.y) ** 2, 0 * dot(s.x, s.y)),
    ),
    "triangle_vectors": (
        VECTORS,
        "upper",
        True,
        lambda s: (norm(s.x + s.y), norm(s.x) + norm(s.y)),
    ),
    "triangle_three": (
        VECTORS,
        "upper",
        True,
        lambda s: (norm(s.x - s.z), norm(s.x - s.y) + norm(s.y - s.z)),
    ),
    "parallelogram": (
        VECTORS,
        "identity",
        True,
        lambda s: (
            norm(s.x + s.y) ** 2 + norm(s.x - s.y) ** 2,
            2 * dot(s.x, s.x) + 2 * dot(s.y, s.y),
        ),
    ),
    "polarization": (
        VECTORS,
        "identity",
        True,
        lambda s: (4 * dot(s.x, s.y), dot(s.x + s.y, s.x + s.y) - dot(s.x - s.y, s.x - s.y)),
    ),
    "convex_square": (
        VECTORS,
        "upper",
        True,
        lambda s: (
            norm(s.t[:, None] * s.x + (1 - s.t)[:, None] * s.y) ** 2,
            s.t * dot(s.x, s.x) + (1 - s.t) * dot(s.y, s.y),
        ),
    ),
    "l1_l2": (
        VECTORS,
        "upper",
        True,
        lambda s: (np.abs(s.x).sum(axis=-1), np.sqrt(count(s)) * norm(s.x)),
    ),
    "l2_l1": (VECTORS, "upper", True, lambda s: (norm(s.x), np.abs(s.x).sum(axis=-1))),
    "linf_l2": (VECTORS, "upper", True, lambda s: (np.abs(s.x).max(axis=-1), norm(s.x))),
    "ball": (VECTORS, "upper", True, lambda s: (abs(dot(s.u, s.x)), norm(s.x))),
    "three_squares": (
        VECTORS,
        "upper",
        True,
        lambda s: (norm(s.x + s.y + s.z) ** 2, 3 * (dot(s.x, s.x) + dot(s.y, s.y) + dot(s.z, s.z))),
    ),
    # distributions
    "pinsker": (CHANCES, "upper", True, lambda s: (tv(s.p, s.q), np.sqrt(kl(s.p, s.q) / 2))),
    "gibbs": (CHANCES, "lower", False, lambda s: (kl(s.p, s.q), 0 * kl(s.p, s.q))),
    "kl_chi2": (CHANCES, "upper", True, lambda s: (kl(s.p, s.q), np.log(1 + chi2(s.p, s.q)))),
    "tv_chi2": (CHANCES, "upper", True, lambda s: (4 * tv(s.p, s.q) ** 2, chi2(s.p, s.q))),
    "hellinger_tv": (CHANCES, "upper", True, lambda s: (hellinger2(s.p, s.q), tv(s.p, s.q))),
    "tv_hellinger": (
        CHANCES,
        "upper",
        True,
        lambda s: (tv(s.p, s.q) ** 2, hellinger2(s.p, s.q) * (2 - hellinger2(s.p, s.q))),
    ),
    "hellinger_kl": (CHANCES, "upper", False, lambda s: (2 * hellinger2(s.p, s.q), kl(s.p, s.q))),
    "tv_triangle": (CHANCES, "upper", True, lambda s: (tv(s.p, s.r), tv(s.p, s.q) + tv(s.q, s.r))),
    "tv_events": (
        CHANCES,
        "identity",
        True,
        lambda s: (tv(s.p, s.q), np.maximum(s.p - s.q, 0).sum(axis=-1)),
    ),
    "tv_functions": (CHANCES, "upper", True, lambda s: (abs(dot(s.p - s.q, s.f)), tv(s.p, s.q))),
    "jensen": (CHANCES, "upper", True, lambda s: (dot(s.p, s.f) ** 2, dot(s.p, s.f**2))),
    "popoviciu": (
        CHANCES,
        "upper",
        True,
        lambda s: (dot(s.p, s.f**2) - dot(s.p, s.f) ** 2, 0.25 + 0 * s.p[:, 0]),
    ),
    "entropy": (
        CHANCES,
        "upper",
        True,
        lambda s: (entropy(s.p), np.log(0 * s.p[:, 0] + s.p.shape[-1])),
    ),
    "entropy_kl": (
        CHANCES,
        "identity",
        True,
        lambda s: (
            entropy(s.p) + kl(s.p, 0 * s.p + 1 / (0 * s.p + s.p.shape[-1])),
            np.log(0 * s.p[:, 0] + s.p.shape[-1]),
        ),
    ),
    "entropy_concave": (
        CHANCES,
        "lower",
        True,
        lambda s: (entropy((s.p + s.q) / 2), (entropy(s.p) + entropy(s.q)) / 2),
    ),
    "collision": (
        CHANCES,
        "lower",
        True,
        lambda s: ((s.p**2).sum(axis=-1), 1 / (0 * s.p[:, 0] + s.p.shape[-1])),
    ),
    "max_below_root": (CHANCES, "upper", True, lambda s: (s.p.max(axis=-1), norm(s.p))),
    # matrices
    "submultiplicative": (
        MATRICES,
        "upper",
        True,
        lambda s: (operator_norm(s.A @ s.B), operator_norm(s.A) * operator_norm(s.B)),
    ),
    "operator_frobenius": (
        MATRICES,
        "upper",
        True,
        lambda s: (operator_norm(s.A), np.sqrt(frobenius2(s.A))),
    ),
    "image": (
        MATRICES,
        "upper",
        True,
        lambda s: (norm((s.A @ s.x[..., None])[..., 0]), operator_norm(s.A) * norm(s.x)),
    ),
    "weyl": (
        MATRICES,
        "upper",
        True,
        lambda s: (lambda_max(s.A + s.B), lambda_max(s.A) + lambda_max(s.B)),
    ),
    "weyl_perturbation": (
        MATRICES,
        "upper",
        True,
        lambda s: (abs(lambda_min(s.A) - lambda_min(s.B)), operator_norm(sym(s.A) - sym(s.B))),
    ),
    "rayleigh": (
        MATRICES,
        "lower",
        True,
        lambda s: (dot(s.x, (s.A @ s.x[..., None])[..., 0]), lambda_min(s.A) * dot(s.x, s.x)),
    ),
    "trace_cyclic": (MATRICES, "identity", True, lambda s: (trace(s.A @ s.B), trace(s.B @ s.A))),
    "trace_frobenius": (
        MATRICES,
        "identity",
        True,
        lambda s: (trace(transpose(s.A) @ s.A), frobenius2(s.A)),
    ),
    "trace_lambda": (
        MATRICES,
        "upper",
        True,
        lambda s: (trace(s.A), 0 * trace(s.A) + s.A.shape[-1] * lambda_max(s.A)),
    ),
    "polar": (
        MATRICES,
        "identity",
        True,
        lambda s: (operator_norm(stretch(s.A)), operator_norm(s.A)),
    ),
    "transposed": (
        MATRICES,
        "identity",
        True,
        lambda s: (operator_norm(transpose(s.A)), operator_norm(s.A)),
    ),
}


def declared(name: str) -> rc.Claim:
    """The claim of this name."""
    space, kind, _, measure = CLAIMS[name]
    return rc.Claim(
        id=f"known.{name}",
        source="",
        text="",
        kind=kind,
        space=space,
        measure=measure,  # type: ignore[arg-type]
    )

"""Identities of a user's file: true, false, and no quotients of polynomials."""

import numpy as np

import ratecheck as rc
from linsys.linalg import inverse, lambda_min, norm, solve

PAPER = rc.Paper("same", "identities to be decided")
PAIRS = rc.Space(fields={name: rc.reals("d") for name in "vw"}, sizes={"d": (1, 3)})
SYSTEMS = rc.Space(fields={"A": rc.reals("d", "d"), "b": rc.reals("d")}, sizes={"d": (1, 3)})
CHAINS = rc.Space(
    fields={"P": rc.simplex("S", "S"), "mu": rc.sphere("S"), "n": rc.whole_numbers(low=2, high=5)},
    sizes={"S": (1, 3)},
)


def _centred(fields):
    return {**fields, "v": fields["v"] - fields["v"].mean(axis=-1, keepdims=True)}


def _long(fields):
    v = fields["v"]
    length = np.sqrt((v * v).sum(axis=-1, keepdims=True))
    return {**fields, "v": np.where(length < 1, v / np.where(length > 0, length, 1), v)}


CENTRED = rc.Space(fields=PAIRS.fields, sizes=PAIRS.sizes, repair=_centred)
LONG = rc.Space(
    fields=PAIRS.fields,
    sizes=PAIRS.sizes,
    repair=_long,
    assumes={"|v| >= 1": lambda s: (s.v**2).sum() >= 1 - 1e-9},
)


@PAPER.identity("square", ref="1", tex="|v+w|^2=|v|^2+2v'w+|w|^2", on=PAIRS)
def square(v, w):
    """|v + w|^2 = |v|^2 + 2 v'w + |w|^2."""
    return ((v + w) ** 2).sum(), (v * v).sum() + 2 * (v * w).sum() + (w * w).sum()


@PAPER.identity("nearly", ref="2", tex="x=x+10^{-40}x^3", on=PAIRS)
def nearly(v, w):
    """x = x + 10^-40 x^3, which no sampling in floats refutes."""
    tiny = (v[0] * 0 + 10) ** -40
    return v, v + tiny * v**3


@PAPER.identity("cramer", ref="3", tex="A^{-1}b", on=SYSTEMS)
def cramer(A, b):
    """A^-1 b by two ways."""
    return solve(A, b), (inverse(A[None])[0] @ b[:, None])[:, 0]


@PAPER.identity("powers", ref="4", tex="P^n1=1", on=CHAINS)
def powers(P, mu, n):
    """P^n 1 = 1 and |mu|^2 = 1."""
    power = P
    for _ in range(int(n) - 1):
        power = power @ P
    return np.append(power.sum(axis=1), (mu * mu).sum()), np.ones(len(P) + 1, dtype=int)


@PAPER.identity("largest", ref="5", tex="|x|", on=PAIRS)
def largest(v, w):
    """|x| = max{x, -x}."""
    return np.abs(v), np.maximum(v, -v)


@PAPER.identity("unused", ref="6", tex="v'w", on=PAIRS)
def unused(v, w):
    """v'w = w'v beside a length that nothing depends on."""
    lengths = np.maximum(norm(v), norm(w))
    return (v * w).sum(), np.stack([(w * v).sum(), lengths])[:1]


@PAPER.identity("root", ref="7", tex="|v|^2", on=PAIRS)
def root(v, w):
    """|v| |v| = |v|^2, by a root."""
    return norm(v) * norm(v), (v * v).sum()


@PAPER.identity("branch", ref="8", tex="v'w", on=SYSTEMS)
def branch(A, b):
    """A branch on an eigenvalue."""
    return np.where(lambda_min(A[None])[0] > 0, b, 1 * b), b


@PAPER.identity("centred", ref="9", tex="1'v=0", on=CENTRED)
def centred(v, w):
    """1'v = 0, an equation that only the repair makes true."""
    return v.sum(), 0 * w.sum()


@PAPER.identity("long", ref="10", tex="v'w", on=LONG)
def long(v, w):
    """v'w = w'v for |v| >= 1, which the repair makes so by a root."""
    return (v * w).sum(), (w * v).sum()


@PAPER.identity("constant", ref="11", tex="\\sqrt 2x", on=PAIRS)
def constant(v, w):
    """sqrt(2) x twice, by a rounded constant."""
    return np.sqrt(2.0) * v, np.sqrt(2.0) * v

"""Identities of a user's file: true, false, and beyond the arithmetic."""

import numpy as np

import ratecheck as rc
from linsys.linalg import inverse, lambda_min, logistic, norm, solve, stretch

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


POSITIVE = rc.Space(
    fields={name: rc.positive("d", low=0.1, high=9.0) for name in "vw"}, sizes={"d": (1, 3)}
)


@PAPER.identity("softmax", ref="12", tex="\\sum_k p_k=1", on=PAIRS)
def softmax(v, w):
    """Probabilities e^v_k / Z sum to one, and log Z moves with v."""
    weights = np.exp(v - v.max())
    log_z = np.log(np.exp(v).sum()) - np.log(weights.sum())
    return np.stack([(weights / weights.sum()).sum(), log_z]), np.stack([1 + 0 * w[0], v.max()])


@PAPER.identity("sigmoid", ref="13", tex="\\sigma(-x)=1-\\sigma(x)", on=PAIRS)
def sigmoid(v, w):
    """sigma(-x) = 1 - sigma(x)."""
    return logistic(-v), 1 - logistic(v)


@PAPER.identity("parts", ref="14", tex="\\sqrt{M'M}^2=M'M", on=SYSTEMS)
def parts(A, b):
    """sqrt(A'A)^2 = A'A: no rule knows it for three rows."""
    root = stretch(A[None])[0]
    return root @ root, A.T @ A


@PAPER.identity("lengths", ref="15", tex="|v|=\\sqrt{v'v}", on=POSITIVE)
def lengths(v, w):
    """sqrt(x^2) = x, for an x of which no range says that it is positive."""
    x = v * v - v + 1
    return np.sqrt(x * x), x


@PAPER.identity("signed", ref="16", tex="\\sqrt{x^2}=x", on=PAIRS)
def signed(v, w):
    """sqrt(x^2) = x, also for x < 0."""
    return np.sqrt(v * v), v


@PAPER.identity("logs", ref="17", tex="\\log xy=\\log x+\\log y", on=PAIRS)
def logs(v, w):
    """log(x y) = log x + log y, also for negative numbers."""
    return np.log(np.abs(v * w)), np.log(v) + np.log(w)


@PAPER.identity("square_of_e", ref="18", tex="(e^x)^2=e^{x^2}", on=PAIRS)
def square_of_e(v, w):
    """(e^x)^2 = e^(x^2)."""
    return np.exp(v) ** 2, np.exp(v * v)


@PAPER.identity("five", ref="19", tex="\\sqrt2\\sqrt3=\\sqrt5", on=PAIRS)
def five(v, w):
    """sqrt(2) sqrt(3) = sqrt(5)."""
    one = 1 + 0 * v
    return np.sqrt(2 * one) * np.sqrt(3 * one), np.sqrt(5 * one)


@PAPER.identity("one_branch", ref="20", tex="|x|=x", on=PAIRS)
def one_branch(v, w):
    """e^|x| = e^x, on one branch alone."""
    return np.exp(np.abs(v)), np.exp(v)


@PAPER.identity("off", ref="21", tex="\\sqrt{x^2+10^{-30}}=|x|", on=PAIRS)
def off(v, w):
    """sqrt(x^2 + 10^-30) = |x|."""
    return np.sqrt(v * v + 1e-30), np.abs(v)


@PAPER.identity("beyond", ref="22", tex="\\sqrt{x^2+10^{-700}}=|x|", on=PAIRS)
def beyond(v, w):
    """sqrt(x^2 + 10^-700) = |x|, which no enclosure refutes."""
    return np.sqrt(v * v + (0 * v + 10) ** -700), np.abs(v)

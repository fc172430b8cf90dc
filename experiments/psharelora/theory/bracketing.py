"""How many brackets cover the rewards of N users: Proposition 1 with its constants.

An epsilon-bracket (Definition 4.2) is a pair g1 <= P_r <= g2 of functions of (tau0, tau1) with
||g1 - g2||_1 <= epsilon, the sum running over users and both outcomes. The steps are:

1. With |f_i - fbar_i| <= eta for the probabilities of every user, the bracket fbar -+ eta has
   length 4 N eta, so eta = epsilon / (4 N).
2. The sigmoid's slope is at most 1/4 and a difference of two rewards moves by at most 2 L1
   ||Theta_i - Theta'_i||_F, so it is enough to cover the parameters up to e = epsilon / (2 N L1) in
   the norm max_i ||.||_F.
3. A ball of radius rho of any norm in R^m has a cover by (1 + 2 rho / e)^m balls of radius e whose
   centres are in it. Without a constraint that is all: N balls of radius B in R^(d1 d2).
4. Delta_i = Q W_i with Q (d1, k) of orthonormal columns and ||W_i||_F = ||Delta_i||_F <= B, and
   ||Q W - Q' W'||_F <= B ||Q - Q'|| + ||W - W'||_F for the operator norm and ||Q'|| <= 1: cover Q,
   in the unit ball of the operator norm, up to e / (2 B), and every W_i up to e / 2. Both need
   1 + 4 B / e.

The paper's proof covers B without fixing its size, though ||B W||_F <= B bounds neither factor.
"""

from __future__ import annotations

import math

from linsys.validate import check_choice, check_integer, check_number

__all__ = ["KINDS", "bound", "parameters"]

#: One factor for all users (S_ShareLoRA), one for each (S_LoRA), no constraint on the rank (S).
KINDS = ("shared", "local", "full")


def parameters(kind: str, N: int, d1: int, d2: int, k: int) -> int:
    """The numbers that the class is described by: k (d1 + N d2), N k (d1 + d2), or N d1 d2.

    >>> [parameters(kind, N=10, d1=64, d2=3, k=2) for kind in KINDS]
    [188, 1340, 1920]
    """
    check_choice("kind", kind, KINDS)
    N, d1, d2 = (
        check_integer("N", N, low=1),
        check_integer("d1", d1, low=1),
        check_integer("d2", d2, low=1),
    )
    k = check_integer("k", k, low=1, high=min(d1, N * d2 if kind == "shared" else d2))
    return {"shared": k * (d1 + N * d2), "local": N * k * (d1 + d2), "full": N * d1 * d2}[kind]


def bound(
    kind: str,
    N: int,
    d1: int,
    d2: int,
    k: int,
    *,
    B: float,
    L1: float,
    epsilon: float,
) -> float:
    """An upper bound of log N(epsilon), the logarithm of the bracketing number.

    parameters * log(1 + 8 B N L1 / epsilon), or 4 instead of 8 for ``"full"``. At epsilon = 1 / (N
    N_p) this is Proposition 1 with the factor log(1 + 8 B L1 N^2 N_p).

    Args:
        kind: ``"shared"``, ``"local"`` or ``"full"``.
        N, d1, d2, k: users, sizes of their matrices, rank (not used by ``"full"``).
        B: bound of ||Delta_i||_F of all users.
        L1: Lipschitz constant of the rewards, Assumption 1.
        epsilon: length of the brackets.

    >>> sizes = dict(N=10, d1=64, d2=3, k=2, B=1.0, L1=1.0, epsilon=1e-3)
    >>> [round(bound(kind, **sizes)) for kind in KINDS]
    [2122, 15128, 20346]
    """
    B, L1 = check_number("B", B, low=0.0), check_number("L1", L1, low=0.0)
    epsilon = check_number("epsilon", epsilon, low=0.0, low_open=True)
    size = parameters(kind, N, d1, d2, k)
    return size * math.log1p((4.0 if kind == "full" else 8.0) * B * N * L1 / epsilon)

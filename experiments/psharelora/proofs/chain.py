"""P-ShareLoRA, Theorem B.3 with constants: a user's error, from noise and from the learned basis.

Theta_hat - Theta* is D = B_hat (W_hat - w) and what B_hat w with w = B_hat'Theta_diamond misses. u
are the differences of rewards by D over all comparisons, and its direction is u over its length.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.psharelora.theory.chain import Chain
from experiments.psharelora.theory.subspace import flat, frobenius, inner
from linsys.linalg import Numbers, lambda_max, logistic, norm, transpose
from ratecheck import gram as g


def _fitted(chain: Chain, distance: Numbers) -> dict[str, Any]:
    """The parts of every user's error, (B, N, m), and the numbers that bound them, (B, N).

    Args:
        chain: users with an estimate.
        distance: dist(B_hat, B_diamond) or more, (B,).
    """
    users, basis = chain.users, chain.basis[:, None]
    near = basis @ (transpose(basis) @ users.best)
    step, rest = chain.hat - near, near - users.delta
    count = np.sqrt(chain.x.shape[2] + 0 * chain.x[..., 0, 0])

    def rewards(theta: Numbers) -> Numbers:
        return np.asarray(inner(theta[:, :, None], chain.x) / count)

    chances = [logistic(inner(t[:, :, None], chain.x)) / count for t in (near, users.delta)]
    moved = rewards(step)
    size = norm(moved)
    over = 1 / np.where(size > 0, size, 1 + size)
    root = np.sqrt(chain.own_coverage)
    own = frobenius(transpose(users.basis)[:, None] @ chain.Z)
    spectral = np.sqrt(lambda_max(chain.Z @ transpose(chain.Z)))
    noise = own + distance[:, None] * spectral
    return {
        "moved": moved,
        "missed": rewards(rest),
        "change": chances[0] - chances[1],
        "along": moved * over[..., None],
        "seen": flat(transpose(basis) @ chain.Z),
        "heads": flat(transpose(basis) @ step) * (root * over)[..., None],
        "step": flat(step),
        "rest": flat(rest),
        "q": size,
        "root": root,
        "c": chain.c2[:, None],
        "noise": noise,
        "longest": chain.longest[:, None],
        "far": np.sqrt(users.b) + frobenius(users.best) * distance[:, None],
    }


def _optimal(p: g.Problem, known: str = "") -> dict[str, Any]:
    """c2 sqrt(lambda_i) |u| <= noise + sqrt(lambda_i) longest far/4, in three steps."""
    change, along = p.vectors("change along", "comparisons")
    seen, heads = p.vectors("seen heads", "heads")
    names = ("q", "root", "c", "noise", "longest", "far")
    q, root, c, noise, longest, far = (p.parameter(name) for name in names)
    both = c * root * longest * far, c * root**2 * far
    factors = [noise, root * longest * far, c * root * q, *both]
    p.assume(
        c * root * q <= seen @ heads - root * (change @ along),
        "W_hat_i is optimal in its ball, and (Phi(a) - Phi(b))(a - b) >= c2 (a - b)^2",
        factors,
    )
    p.bounded(seen, noise, f"||B_hat'Z|| <= ||B_diamond'Z|| + dist ||Z||{known}", [1])
    p.bounded(heads, 1, "coverage: ||D|| <= |u|/sqrt(lambda_i)", [1])
    p.cauchy_schwarz(seen, heads, "Cauchy-Schwarz, of the noise", factors)
    p.bounded(change, longest * far / 4, "Phi' <= 1/4, and ||Theta* - B_hat w|| <= far", [1])
    p.bounded(along, 1, "a direction", [1])
    p.cauchy_schwarz(-change, along, "Cauchy-Schwarz, of the basis", [f * root for f in factors])
    return dict(zip(names, (q, root, c, noise, longest, far), strict=True))


def _weight(chain: Chain) -> Numbers:
    return np.asarray(chain.c2[:, None] * np.sqrt(chain.own_coverage))


@g.theorem("psl.theorem_B3_corrected", at=lambda chain: _fitted(chain, chain.distance), power=2)
def theorem_B3_corrected(p: g.Problem) -> None:
    """c2 sqrt(lambda_i) |all differences of rewards| <= noise + sqrt(lambda_i) (c2 + 1/4) longest
    far, squared.
    """
    k = _optimal(p)
    moved, missed = p.vectors("moved missed", "comparisons")
    weight, reach = k["c"] * k["root"], k["longest"] * k["far"]
    p.bounded(moved, k["q"], "the length of u")
    p.bounded(missed, reach, "||x|| <= longest, and ||Theta* - B_hat w|| <= far")
    p.cauchy_schwarz(moved, missed, "Cauchy-Schwarz, of both")
    bound = k["noise"] + (weight + k["root"] / 4) * reach
    p.show(weight**2 * (moved + missed).squared <= bound**2)


def _within(chain: Chain) -> dict[str, Any]:
    """With the bound of dist by psl.theorem_4_1, or sqrt(k)."""
    _, limit = chain.theorem_4_1()
    distance = limit / (chain.c2 * chain.coverage * np.sqrt(chain.users.nu))
    return _fitted(chain, np.minimum(distance, np.sqrt(chain.users.rank)))


@g.theorem(
    "psl.chain_radius",
    at=_within,
    power=2,
    scale=lambda chain: (chain.c2[:, None] * chain.own_coverage) ** 2,
)
def chain_radius(p: g.Problem) -> None:
    """c2 lambda_i ||Theta_hat_i - Theta*_i|| <= noise + (c2 lambda_i + sqrt(lambda_i) longest/4)
    far, squared.
    """
    k = _optimal(p, ", dist by psl.chain_dist")
    step, rest = p.vectors("step rest", "parameters")
    root, weight = k["root"], k["c"] * k["root"]
    p.bounded(root * step, k["q"], "coverage: sqrt(lambda_i) ||D|| <= |u|")
    p.bounded(root * rest, root * k["far"], "||Theta* - B_hat w|| <= far")
    p.cauchy_schwarz(root * step, root * rest, "Cauchy-Schwarz, of both")
    bound = k["noise"] + (weight * root + root * k["longest"] / 4) * k["far"]
    p.show(weight**2 * (root * step + root * rest).squared <= bound**2)


def _together(chain: Chain) -> dict[str, Any]:
    """All users' D = Theta_hat - Theta_diamond and differences of rewards, as means over users."""
    users, N = chain.users, chain.users.N
    count = len(chain.x)
    share = np.sqrt(N + 0 * chain.c2)[:, None]
    each = share[..., None] * np.sqrt(chain.x.shape[2] + 0 * share[..., None])

    def rewards(theta: Numbers) -> Numbers:
        return inner(theta[:, :, None], chain.x)

    D = chain.hat - users.best
    moved = (rewards(D) / each).reshape(count, -1)
    change = logistic(rewards(users.delta)) - logistic(rewards(users.best))
    size = norm(moved)
    over = (1 / np.where(size > 0, size, 1 + size))[:, None]
    root = np.sqrt(chain.coverage)
    whole = np.swapaxes(chain.Z, 1, 2).reshape(count, chain.x.shape[3], -1)
    spectral = np.sqrt(lambda_max(whole @ transpose(whole)))
    U = users.basis
    away = U - chain.basis @ (transpose(chain.basis) @ U)
    return {
        "away": np.sqrt(users.nu)[:, None] * flat(away),
        "error": D.reshape(count, -1) / share,
        "Z": chain.Z.reshape(count, -1) / share,
        "step": D.reshape(count, -1) / share * root[:, None] * over,
        "change": (change / each).reshape(count, -1),
        "along": moved * over,
        "q": size,
        "root": root,
        "c": chain.c2,
        "noise": np.sqrt(2 * users.rank / N) * spectral,
        "longest": chain.longest,
        "tail": np.sqrt(users.tail / N),
    }


@g.theorem("psl.chain_dist", at=_together, power=2)
def chain_dist(p: g.Problem) -> None:
    """c2 lambda sqrt(nu) dist <= c2 sqrt(lambda) |u| <= 2 (noise + sqrt(lambda Sigma_tail/N)
    longest/4), squared.
    """
    away, error, Z, step = p.vectors("away error Z step", "parameters")
    change, along = p.vectors("change along", "comparisons")
    q, root, c, noise, longest, tail = p.parameters_named("q root c noise longest tail")
    factors = [noise, root * longest * tail, c * root * q]
    p.assume(away.squared <= error.squared, "N nu dist^2 <= ||(I - B_hat B_hat') Theta_diamond||^2")
    p.assume(root**2 * error.squared <= q**2, "coverage: lambda ||D||^2 <= N |u|^2")
    p.assume(
        c * root * q <= 2 * (Z @ step) + 2 * root * (change @ along),
        "Theta_hat is at least as likely as Theta_diamond, and -log Phi is c2-strongly convex",
        factors,
    )
    p.assume(Z @ step <= noise, "<Z, D> <= ||Z|| sqrt(2 k) ||D||, and coverage", factors)
    p.bounded(change, longest * tail / 4, "Phi' <= 1/4, and ||x|| <= longest", [1])
    p.bounded(along, 1, "a direction", [1])
    p.cauchy_schwarz(change, along, "Cauchy-Schwarz", [f * root for f in factors])
    bound = 2 * (noise + root * longest * tail / 4)
    p.show((c * root**2) ** 2 * away.squared <= bound**2)

"""P-ShareLoRA, Appendix B.2: what a pessimistic choice loses, for linear rewards."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.psharelora.theory.pessimism import Pessimist
from linsys.linalg import norm
from ratecheck import gram as g


def _choice(chooser: Pessimist) -> dict[str, Any]:
    """v of pi_tar and of the policy that is chosen, Theta_hat and its error, and the lengths."""
    best = chooser.values.argmax(axis=-1)[..., None, None]
    target, chosen = chooser.v[..., 0, :], np.take_along_axis(chooser.v, best, axis=-2)[..., 0, :]
    return {
        "v": chosen,
        "target": target,
        "hat": chooser.hat,
        "error": chooser.hat - chooser.truth,
        "n": norm(chosen),
        "m": norm(target),
        "e": chooser.error,
        "radius": chooser.radius,
        "missing": chooser.missing,
    }


def _lengths(p: g.Problem) -> tuple[Any, ...]:
    v, error = p.vectors("v error", "parameters")
    n, e, radius = (p.parameter(name) for name in ("n", "e", "radius"))
    p.bounded(v, n, "||v|| of the choice")
    p.bounded(error, e, "||Theta_hat - Theta*||")
    p.cauchy_schwarz(v, error, "Cauchy-Schwarz")
    return v, error, n, e, radius


@g.theorem("psl.B2_pessimism_corrected", at=_choice)
def B2_pessimism_corrected(p: g.Problem) -> None:
    """<v, Theta_hat - Theta*> - radius ||v|| <= (||Theta_hat - Theta*|| - radius)_+ ||v||."""
    v, error, n, e, radius = _lengths(p)
    missing = p.parameter("missing")
    p.assume(e <= missing + radius, "what a positive part is", factors=[n])
    p.show(v @ error - radius * n <= missing * n)


@g.theorem("psl.theorem_4_2_corrected", at=_choice)
def theorem_4_2_corrected(p: g.Problem) -> None:
    """<v_tar - v, Theta*> <= (radius + e) ||v_tar|| + (e - radius) ||v||, e the error's length."""
    v, error, n, e, radius = _lengths(p)
    target, hat = p.vectors("target hat", "parameters")
    m = p.parameter("m")
    p.bounded(target, m, "||v|| of pi_tar")
    p.cauchy_schwarz(target, -error, "Cauchy-Schwarz, of pi_tar")
    p.assume(target @ hat - radius * m <= v @ hat - radius * n, "(3.5): the choice is the best")
    p.show((target - v) @ (hat - error) <= (radius + e) * m + (e - radius) * n)


@g.theorem("psl.chain_value", at=_choice)
def chain_value(p: g.Problem) -> None:
    """The same with e <= radius: <v_tar - v, Theta*> <= 2 radius ||v_tar||."""
    v, error, n, e, radius = _lengths(p)
    target, hat = p.vectors("target hat", "parameters")
    m = p.parameter("m")
    gap = (radius + e) * m + (e - radius) * n
    p.assume((target - v) @ (hat - error) <= gap, "psl.theorem_4_2_corrected")
    p.assume(e <= radius, "psl.chain_radius", factors=[m, n])
    p.show((target - v) @ (hat - error) <= 2 * radius * m)


def _two_trajectories(instance: Any) -> dict[str, Any]:
    """What the worst rewards for pi_tar differ by, with the sign of the step, and two features."""
    chooser, first, second = instance.chooser, instance.psi[:, 0], instance.psi[:, 1]
    target = chooser.v[..., 0, :]
    length = norm(target)[..., None]
    moved = chooser.radius[..., None] * target / np.where(length > 0, length, 1 + 0 * length)
    up = (moved * (first - second)).sum(axis=-1)[..., None] >= 0
    return {
        "moved": np.where(up, moved, -moved),
        "first": first,
        "second": second,
        "radius": chooser.radius,
        "L": norm(instance.psi).max(axis=-1),
    }


@g.theorem("psl.B2_zeta_step_corrected", at=_two_trajectories)
def B2_zeta_step_corrected(p: g.Problem) -> None:
    """|<Theta - Theta_hat, psi - psi'>| <= 2 L1 radius, the sign taken into Theta - Theta_hat."""
    moved, first, second = p.vectors("moved first second", "parameters")
    radius, L = p.parameter("radius"), p.parameter("L")
    p.bounded(moved, radius, "(3.4)")
    p.bounded(first, L, "||psi|| <= L1")
    p.bounded(second, L, "||psi'|| <= L1")
    p.cauchy_schwarz(moved, first, "Cauchy-Schwarz")
    p.cauchy_schwarz(moved, -second, "Cauchy-Schwarz, of psi'")
    p.show(moved @ (first - second) <= 2 * L * radius)

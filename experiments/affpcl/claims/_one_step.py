"""Instances of one round of AffPCL, and words that several claims of Appendix G share."""

from __future__ import annotations

import dataclasses

import numpy as np

import ratecheck as rc
from experiments.affpcl.claims._meaning import meaning
from experiments.affpcl.claims._spaces import ASSUMES, standing, systems
from experiments.affpcl.theory.one_step import PersonalStack
from linsys.linalg import lambda_min, norm


def invertible(fields: rc.Fields) -> rc.Fields:
    """The standing assumptions, and psi moved towards I until sym(psi) >= floor.

    Then some eta_*^i has psi' eta_*^i = rho^i, and ||psi(s)|| <= 1 stays true.
    """
    psi, floor = fields["psi"], fields["floor"]
    lowest = lambda_min(psi)
    c = np.maximum(0, (floor - lowest) / (1 - np.minimum(lowest, floor)))[:, None, None]
    identity = np.eye(psi.shape[-1], dtype=int)
    return {**standing(fields), "psi": (1 - c) * psi + c * identity}


STEP = {
    "floor": rc.positive(low=1e-5, high=0.5),
    "dx": rc.reals("n", "d"),
    "dx_c": rc.reals("d"),
    "dtheta": rc.reals("d"),
    "share": rc.interval(low=1e-3, high=1.0),
    "doublings": rc.whole_numbers(low=0, high=16),
}
SIZES = {"n": (1, 3), "S": (1, 4), "d": (1, 2)}
#: Iterates, a step size and groups of equal agents; the density ratio is known.
KNOWN = dataclasses.replace(systems(STEP, SIZES), view=PersonalStack)
#: The same with an estimated ratio.
_RATIO = {**STEP, "psi": rc.contraction("S", "S"), "deta": rc.reals("n", "S")}
ESTIMATED = dataclasses.replace(
    systems(_RATIO, SIZES),
    view=PersonalStack,
    repair=invertible,
    assumes={**ASSUMES, "||psi(s)|| <= 1": lambda s: norm(s.psi) <= 1 + 1e-12},
    meaning=meaning(
        _RATIO,
        floor="the least eigenvalue that sym(Abar^i), sym(Phibar^i) and sym(psi) were given, "
        "without effect beyond A, Phi and psi",
    ),
)


def at_the_solutions(**fields: rc.Numbers) -> PersonalStack:
    """Systems whose iterates have arrived: what remains is noise."""
    nothing, mu = 0 * fields["theta"], fields["mu"]
    return PersonalStack(
        **fields,
        dx=nothing,
        dx_c=nothing[:, 0],
        dtheta=nothing[:, 0],
        psi=0 * mu[:, :1] + np.eye(mu.shape[-1], dtype=int),
        deta=0 * mu,
        share=1 + 0 * fields["floor"],
    )


NOISE = dataclasses.replace(
    systems({"floor": STEP["floor"], "doublings": STEP["doublings"]}, SIZES),
    view=at_the_solutions,
    constructed="all iterates are at their solutions, the step is the largest allowed and the "
    "density ratio is known, so that what remains is noise",
)


def hidden(level: float) -> dict[str, np.ndarray]:
    """The systems of ``OF_PHI`` with an average Phibar = level."""
    return {
        "mu": np.full((2, 2), 0.5),
        "A": np.ones((2, 1, 1)),
        "Phi": np.array([1.0, 2 * level - 1])[:, None, None],
        "theta": np.array([[1.0], [-1.0]]),
        "floor": np.array(level),
        "doublings": np.array(16.0),
    }


HIDDEN = [hidden(level) for level in (1e-3, 5e-4, 1e-4)]

OF_PHI = (
    "The proof takes both halves of Lemma D.2 with Definition 3's nu, which looks at A alone; its "
    "second half needs the same number of Phi. Two groups of 65536 agents, mu = (1/2, 1/2), A = "
    "1, Phi = (1, -0.9998), theta = 1 and -1, all iterates at their solutions: Phi averages to "
    "1e-4, so delta_cen = 5e-5, nu = 1, sigma = 2, but Phi(s) theta^i is near 1 or -1. "
)
WITH_PHI = (
    "Let nu' be the larger of nu and max_i ||E_i sqrt(Phi'Phi) Phibar_i^{-1}||. Lemma D.2's "
    "proof, with Phi in the place of A, gives E||Phi(s)(theta^i - theta^c)||^2 <= 2 sigma^2 "
    "min{1, nu' delta_cen^i}; the rest of the proof stands."
)

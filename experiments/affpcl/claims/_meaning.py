"""What the fields of AffPCL's instances are, where a name is not a symbol of the paper."""

from __future__ import annotations

from collections.abc import Collection

_MEANING = {
    "floor": "the least eigenvalue that sym(Abar^i) and sym(Phibar^i) were given, without effect "
    "beyond A and Phi",
    "x": "x_t^i",
    "x_c": "x_t^c",
    "theta_c": "theta_t^c",
    "state": "raw states s, q numbers each",
    "draw": "agent i samples state k, from 0, where draw^i S lies in [k, k + 1)",
    "delta_x": "x_t^c - x_*^c",
    "delta_theta": "theta_t^c - theta_*^c",
    "step_share": "the step size as a share of the largest that the statement allows",
    "dx": "x^i - x_*^i; of a run, at its start",
    "dx_c": "x^c - x_*^c; of a run, at its start",
    "dtheta": "theta^c - theta_*^c; of a run, at its start",
    "psi": "features psi(s) of the density ratio, a row for each state",
    "deta": "eta^i - eta_*^i",
    "share": "the step size as a share of the largest that the statement allows",
    "doublings": "k, where each of the agents shown stands for 2^k equal ones",
    "later": "k, where t is 2^k times the first power of two from 4 on that the statement is about",
    "damping": "a in A(s) = a I + turn(s) J, J a quarter turn",
    "turn": "the multiple of the quarter turn J in A(s), by state",
}


def meaning(fields: Collection[str], **own: str) -> dict[str, str]:
    """The lines about these fields; ``own`` where a space means something else by a name."""
    return {name: line for name, line in {**_MEANING, **own}.items() if name in fields}

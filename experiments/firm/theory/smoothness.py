"""FIRM, Appendix G.2: constants L_J with which grad J is claimed to be Lipschitz.

C_pi = C_psi / 4 and L_psi = C_psi^2 / 4 throughout, which hold for every softmax policy whose
features of the actions in a state are at most C_psi apart; kappa = 1 and rho = ``Chains.overlap``.

>>> import numpy as np
>>> ones = np.ones
>>> chains = Chains(
...     P=ones((1, 2, 2, 2)) / 2, r=ones((1, 2, 2, 1)), gamma=ones(1) / 2,
...     theta=np.zeros((1, 2, 2)), phi=np.eye(2)[None], start=ones((1, 2)) / 2,
... )
>>> float(printed_smoothness(chains, ones(1), ones(1))[0])  # 2 (4 (1/8 + 1) + 1/4)
9.5
>>> float(smoothness(chains, ones(1), ones(1))[0])  # 1/8 / (1/2), no step depends on the action
0.25
"""

from __future__ import annotations

import math

import numpy as np

import ratecheck as rc
from experiments.firm.theory.chain import Chains
from linsys.linalg import Numbers, norm
from linsys.validate import check_choice, check_number
from mgda.constants import Mixing, policy_lipschitz, score_bound, score_lipschitz
from mgda.momdp import MOMDP


def printed_smoothness(chains: Chains, r_max: Numbers, C_psi: Numbers) -> Numbers:
    """r_max/(1 - gamma) (4 C_nu C_psi + L_psi) with C_nu = C_pi / 2 + 1 / (1 - rho)."""
    C_nu = C_psi / 8 + 1 / (1 - chains.overlap)
    return np.asarray(r_max / (1 - chains.gamma) * (4 * C_nu * C_psi + C_psi**2 / 4))


def cited_smoothness(chains: Chains, r_max: Numbers, C_psi: Numbers) -> Numbers:
    """The printed smoothness with the C_nu of Xu et al., C_pi / 2 (1 + 1 / (1 - rho))."""
    C_nu = C_psi / 8 * (1 + 1 / (1 - chains.overlap))
    return np.asarray(r_max / (1 - chains.gamma) * (4 * C_nu * C_psi + C_psi**2 / 4))


def smoothness(chains: Chains, r_max: Numbers, C_psi: Numbers) -> Numbers:
    """gamma r_max L_psi / ((1 - gamma) (1 - gamma rho)) with L_psi = C_psi^2 / 4.

    rho is ``dependence``, one for all policies.
    """
    gamma = chains.gamma
    top = gamma * r_max * C_psi**2 / 4
    return np.asarray(top / ((1 - gamma) * (1 - gamma * chains.dependence)))


def eq49(chains: Chains, there: Chains, L: Numbers) -> rc.Sides:
    """||grad J^j - grad J^j'|| <= L ||theta - theta'||, parameters being logits / c."""
    logits = (chains.theta - there.theta).reshape(len(chains.theta), -1)
    return norm(chains.jac - there.jac), (L * norm(logits) / chains.scale)[:, None]


def eq49_shared(chains: Chains, there: Chains, x: Numbers, gap: Numbers, L: Numbers) -> rc.Sides:
    """(49) for one parameter of all states: c x(s) times it is the logit of the first action.

    x is (B, S), in [0, 1], and gap (B,) the distance of the two parameters times c.
    """
    change = (chains.jac - there.jac).reshape(*L.shape, -1, *chains.theta.shape[1:])
    return np.abs((change[..., 0] * x[:, None]).sum(axis=-1)), (L * gap / chains.scale)[:, None]


def smoothness_formula(momdp: MOMDP, mixing: Mixing, form: str = "printed") -> float:
    """L_J below equation (49): r_max / (1 - gamma) (4 C_nu C_psi + L_psi), not checked to be one.

    Args:
        momdp: the process.
        mixing: kappa and rho of Lemma 2.
        form: "printed" takes C_nu = C_pi / 2 (1 + ceil(log_rho(1 / kappa))) + 1 / (1 - rho);
            "xu" what the cited Proposition 1 of Xu et al. (2020) has, C_pi / 2 (1 + ceil(..) +
            1 / (1 - rho)). Only the latter grows as it must, fourfold, when x is doubled and theta
            halved; the former is no bound for long features.

    >>> from mgda.constants import Mixing
    >>> from mgda.instances import sample_momdp
    >>> round(smoothness_formula(sample_momdp(0, gamma=0.5), Mixing(1.0, 0.5), "xu"), 12)
    7.0
    """
    check_choice("form", form, ("printed", "xu"))
    check_number("rho", mixing.rho, low=0.0, high=1.0, low_open=True, high_open=True)
    kappa = max(mixing.kappa, 1.0)  # a smaller one gives a number of steps below zero
    waiting = math.ceil(math.log(1.0 / kappa) / math.log(mixing.rho))
    tail, C_pi = 1.0 / (1.0 - mixing.rho), policy_lipschitz(momdp)
    C_nu = 0.5 * C_pi * (1 + waiting) + (tail if form == "printed" else 0.5 * C_pi * tail)
    slope = 4.0 * C_nu * score_bound(momdp) + score_lipschitz(momdp)
    return momdp.r_max / (1.0 - momdp.gamma) * slope

"""FIRM, Theorem 1: what its explicit form, (32) with (33), says at realistic values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.firm.claims._chains import processes
from experiments.firm.paper import PAPER
from experiments.firm.theory import reach
from experiments.firm.theory.chain import Chains
from linsys.linalg import Numbers, norm

#: Discounts and numbers of objectives that occur.
_GAMMA = rc.interval(low=0.5, high=0.99)
_M = rc.whole_numbers(low=2, high=8)


def _scales(*, share: Any, gamma: Any, M: Any, rho: Any, **others: Any) -> SimpleNamespace:
    """lambda_A = share (1 - gamma)."""
    return SimpleNamespace(scales=reach.Scales(gamma, share * (1 - gamma), rho, M), **others)


def _best(*, gamma: Any, M: Any) -> SimpleNamespace:
    """The most favourable constants: independent states, the largest lambda_A."""
    return SimpleNamespace(scales=reach.Scales(gamma, 1 - gamma, 0 * gamma, M), one=1 + 0 * gamma)


REALISTIC = rc.Space(
    fields={
        "gamma": _GAMMA,
        "share": rc.positive(low=1e-3, high=1.0),
        "rho": rc.interval(high=0.99),
        "M": _M,
        "B": rc.positive(low=1.0, high=1e6),
        "beta": rc.positive(low=1e-3, high=1.0),
    },
    view=_scales,
    batched=True,
    meaning={"share": "lambda_A over 1 - gamma", "B": "transitions in a batch"},
)
BEST = rc.Space(fields={"gamma": _GAMMA, "M": _M}, view=_best, batched=True)


def _with_constant(*, constant: Any, **fields: Any) -> SimpleNamespace:
    """Processes in which the first feature of every critic is a constant."""
    s = processes().view(**fields)
    c = constant[:, None, None]
    rest = np.sqrt(1 - c**2) * s.chains.phi
    phi = np.concatenate([0 * rest[:, :, :1] + c, rest], axis=2)
    chains = Chains(s.chains.P, s.chains.r, s.chains.gamma, s.chains.theta, phi, s.chains.start)
    return SimpleNamespace(chains=chains, constant=constant)


CONSTANTS = rc.Space(
    fields={**processes().fields, "constant": rc.interval(low=0.1, high=1.0)},
    sizes=processes().sizes,
    view=_with_constant,
    batched=True,
    meaning={**processes().meaning, "constant": "the first feature c, of every state"},
)


@PAPER.upper(
    "constants_in_span",
    ref="Assumption 2(c): what lambda_A can be",
    printed_as="ours",
    tex=r"\lambda_A\le(1-\gamma)c^2",
    on=CONSTANTS,
    derivation="x = e_1: x'Ax = E[c (gamma c - c)] = -(1 - gamma) c^2. If phi(s)'v = 1 for all s, "
    "x = v/||v|| gives (1 - gamma)/||v||^2, and |phi| <= 1 makes ||v|| >= 1.",
)
def constants_in_span(chains: Chains, constant: Numbers) -> rc.Sides:
    """If the first feature of all states is c then lambda_A <= (1 - gamma) c^2. So R_w = 2
    r_max/lambda_A is at least 2 r_max/(1 - gamma) for every critic that can represent a
    constant, exact tabular ones among them.
    """
    return chains.lambda_A, (1 - chains.gamma) * constant**2


@PAPER.upper(
    "trivial_gradient",
    ref="Theorem 1: what its left side is at most",
    printed_as="ours",
    tex=r"\|\nabla J^j\|\le\frac{\gamma C_\psi r_{\max}}{2(1-\gamma)^2}",
    on=processes({"scale": rc.positive(low=0.1, high=10.0)}),
    derivation="grad J = gamma/(1 - gamma) E_nu E_pi[psi (Q - m)] for any m, as scores have mean "
    "zero; Q is in [0, r_max/(1-gamma)], m its middle.",
)
def trivial_gradient(chains: Chains, r_max: Numbers) -> rc.Sides:
    """||grad J^j|| <= gamma C_psi r_max/(2 (1 - gamma)^2), hence the left side of Theorem 1 is at
    most the square of that, whatever an algorithm does.
    """
    bound = chains.gamma * chains.C_psi * r_max / (2 * (1 - chains.gamma) ** 2)
    return norm(chains.jac), bound[:, None] + 0 * chains.J


@PAPER.lower(
    "explicit_bound_vacuous",
    ref="equations (32) and (33) at realistic values",
    printed_as="ours",
    uses=["constants_in_span", "trivial_gradient"],
    tex=r"\frac{8R^3\sqrt{M^3}}\beta4\sqrt{\frac{(r_{\max}+R_w)^2(1-\rho+4\kappa\rho)}"
    r"{(1-\rho)B}}\ge\Big(\frac{\gamma C_\psi r_{\max}}{2(1-\gamma)^2}\Big)^2",
    on=REALISTIC,
    note="So the explicit bound never says anything there: at its most favourable corner (gamma = "
    "0.99, M = 2, B = 10^6, beta = 1, rho = 0, lambda_A = 1 - gamma) it is 67 times trivial; "
    "at gamma = 0.9, B = 256 and beta = 0.01 it is 5e5 times. beta is that of (1). The "
    "experiments' beta = 0.01 belongs to the normalised (9) and is 0.01 tr G/M in (1), which may "
    "be any number, so that these values are not those of the experiments. Both sides grow like "
    "(1-gamma)^{-4}; the quotient has the factor C_psi r_max^2/beta, so that features and rewards "
    "of other sizes amount to another beta. At beta = 0.01 and M = 2, B has to exceed 4.4e13 "
    "(firm.batch_needed). The term 32 L_J R^4 M^{3/2} a K/beta has to be below the trivial bound "
    "too: at gamma = 0.9, beta = 0.01, K = 1 and L_J = gamma/(2 (1-gamma)^2) this is a < 1.1e-9, "
    "and then the first term of (32) needs T > 4.6e6 (1 + 2 log T).",
    derivation="R >= C_psi (1 + 2 (1 + gamma)/(1 - gamma)) and r_max + R_w >= 1 + 2/(1 - gamma) by "
    "firm.constants_in_span; the quotient is 128 sqrt(2) M^{3/2} (3 + gamma)^3 (3 - gamma) / "
    "(gamma^2 beta sqrt(B)) at least.",
)
def explicit_bound_vacuous(scales: reach.Scales, B: Numbers, beta: Numbers) -> rc.Sides:
    """For gamma in [0.5, 0.99], M in 2..8, B <= 10^6, 0.001 <= beta <= 1, r_max = 1, C_psi =
    sqrt(2), any rho and any critic that can represent constants: (33)'s term in sqrt(1/B) alone
    is at least the trivial bound on the left side of (32).
    """
    return scales.disagreement(B, beta), scales.trivial


@PAPER.lower(
    "batch_needed",
    ref="equations (32) and (33): the batch they need",
    printed_as="ours",
    tex=r"B\ge4.4\cdot10^{13}",
    on=BEST,
    note="With beta as in (1), not the experiments' beta of (9). In general B grows like "
    "M^3/beta^2: 4.4e9 at beta = 1. A tabular critic on S states has lambda_A <= (1-gamma)/S, "
    "which multiplies B by about S^8 or more as gamma goes to 1 (for S = 2 by 132.9 or more "
    "at gamma = 0.5).",
    uses=["explicit_bound_vacuous"],
    derivation="The derivation of firm.explicit_bound_vacuous, at gamma = 0.99.",
)
def batch_needed(scales: Any, one: Any) -> rc.Sides:
    """For gamma in [0.5, 0.99], M >= 2, beta = 0.01, r_max = 1, C_psi = sqrt(2), any rho and any
    critic that can represent constants: B has to be at least 4.4 10^13 for (33)'s term in
    sqrt(1/B) to fall below the trivial bound.
    """
    return (reach.batch_needed(scales, one / 100), 44 * 10**12 * one)


@PAPER.upper(
    "batch_needed_corrected",
    ref="equations (32) and (33) corrected: the batch they need",
    printed_as="ours",
    tex=r"B\le228\,M",
    on=BEST,
    derivation="4 M R^2 (1/C + (1 - 1/C)^2)/B against (C_psi/(2 (1-gamma)))^2, R = C_psi (3 + "
    "gamma)/(1 - gamma): B = 16 M (3 + gamma)^2 (1/C + (1 - 1/C)^2).",
)
def batch_needed_corrected(scales: Any) -> rc.Sides:
    """The corrected Q, firm.eq33_corrected, with exact critics and no local steps falls to the
    trivial bound on ||grad H lambda||^2 at B <= 228 M, for 8 clients and any beta, beta = 0
    among them; gamma in [0.5, 0.99], lambda_A = 1 - gamma.
    """
    return (reach.batch_needed_corrected(scales, 8), 228 * scales.M)

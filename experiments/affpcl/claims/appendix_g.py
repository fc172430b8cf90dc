"""Appendix G of AffPCL, its lemmas: one step of the personalised iterate."""

from __future__ import annotations

import numpy as np

import ratecheck as rc
from experiments.affpcl.claims._one_step import ESTIMATED, HIDDEN, KNOWN, NOISE, OF_PHI, WITH_PHI
from experiments.affpcl.paper import PAPER
from experiments.affpcl.theory import personalized as g
from experiments.affpcl.theory.directions import importance_corrected
from experiments.affpcl.theory.one_step import PersonalStack
from experiments.affpcl.theory.stack import apply
from linsys.linalg import norm


def _covariances(stack: PersonalStack) -> rc.Numbers:
    """H_2 = (1/n^2) sum_{j != k} <E rho^i g^{c->j}, E rho^i g^{c->k}>, shape (B, n)."""
    parts = importance_corrected(stack, stack.central)
    total = stack.average_second_moment(parts)
    return np.asarray(total - g.squares_of(stack))


def _bias(stack: PersonalStack) -> rc.Numbers:
    """||E g^{c->i}(x^c; theta^c)||^2, shape (B, n)."""
    return np.asarray((stack.mean(stack.central) ** 2).sum(axis=-1))


@PAPER.identity(
    "g1_identity",
    ref="Lemma G.1",
    tex=r"\mathbb{E}\tilde g^i=\mathbb{E}g^i(x^i)+\mathbb{E}_{\mu^0}"
    r"[\psi^\top\Delta\eta^i(Ax^c-\Phi\theta^c)]",
    on=ESTIMATED,
)
def g1_identity(stack: PersonalStack) -> rc.Sides:
    """E gtilde^i = E g^i(x^i) + E_{mu^0}[psi(s)' deta^i (A(s) x^c - Phi(s) theta^c)]."""
    error = (stack.mu0[:, None] * stack.ratio_error) @ stack.central
    return stack.direction_mean, apply(stack.A_bar, stack.x) - stack.b_bar + error


@PAPER.upper(
    "g1_norm",
    ref="Lemma G.1",
    tex=r"\|\mathbb{E}\mathcal{E}\|\le\sigma\|\Delta\eta^i\|+G_\rho(G_A\|\Delta x^c\|"
    r"+\|\Delta\theta^c\|)",
    on=ESTIMATED,
    note="The paper writes O(.) and calls |rhohat - rho| = O(1); this is what its proof shows. "
    "||psi|| <= 1 is not said there, and without it sigma takes the factor max ||psi||.",
)
def g1_norm(stack: PersonalStack) -> rc.Sides:
    """||E calE|| <= sigma ||deta^i|| + G_rho (G_A ||dx^c|| + ||dtheta^c||), where G_rho is the
    largest |rhohat^i - rho^i|, ||psi|| <= 1 and x_*^c is in the G_x of sigma.
    """
    errors = np.sqrt(stack.centre_error) + np.sqrt(stack.objective_error)
    bound = stack.sigma[:, None] * norm(stack.deta) + stack.G_rho * errors
    return norm(stack.estimation_mean), bound


@PAPER.lower(
    "corG1",
    ref="Corollary G.1",
    uses=["g1_identity"],
    tex=r"\mathbb{E}\langle\tilde g^i,\Delta x^i\rangle\ge\tfrac78\lambda^i\|\Delta x^i\|^2"
    r"-2(\lambda^i)^{-1}\mathbb{E}\|\mathcal{E}\|^2",
    on=ESTIMATED,
)
def corG1(stack: PersonalStack) -> rc.Sides:
    """E<gtilde^i, dx^i> >= (7/8) lambda^i ||dx^i||^2 - (2/lambda^i) E||calE||^2, with calE the
    random estimation error (1/n) sum_j (rhohat^i - rho^i)(s^j) g^{c->j}(x^c; theta^c).
    """
    return g.corollary_g1(stack)


@PAPER.lower(
    "corG1_sharper",
    ref="Corollary G.1, sharpened",
    tex=r"\mathbb{E}\langle\tilde g^i,\Delta x^i\rangle\ge\tfrac78\lambda^i\|\Delta x^i\|^2"
    r"-2(\lambda^i)^{-1}\|\mathbb{E}\mathcal{E}\|^2",
    on=ESTIMATED,
    derivation="Given the iterates, only E calE meets dx^i, and Young's inequality acts on it. "
    "Attained in one dimension at dx^i = -4 E calE / lambda^i. (28) defines calE as this mean, "
    "and so read Corollary G.1 has this form already.",
    sharpens="corG1",
)
def corG1_sharper(stack: PersonalStack) -> rc.Sides:
    """E<gtilde^i, dx^i> >= (7/8) lambda^i ||dx^i||^2 - (2/lambda^i) ||E calE||^2, with the squared
    mean of the estimation error in the place of its mean square.
    """
    return g.corollary_g1(stack, mean_error=True)


@PAPER.upper(
    "g2",
    ref="Lemma G.2",
    uses=["g2_H1", "g2_H2"],
    tex=r"\mathbb{E}\|g^{c\Rightarrow i}\|^2\le24G_A^2\|\Delta x^c\|^2+40\|\Delta\theta^c\|^2"
    r"+64\sigma^2(n^{-1}+2\delta_{\mathrm{env}}^i)+2\mathbb{E}\|\mathcal{E}\|^2",
    on=ESTIMATED,
    note="The proof ends with delta_cen^i where the lemma has delta_env^i; the lemma is right, "
    "because E_0 g^{c->j}(x_*^c) = 0 bounds the bias at the solution by 2 sigma delta_env^i.",
)
def g2(stack: PersonalStack) -> rc.Sides:
    """E||g^{c=>i}||^2 <= 24 G_A^2 ||dx^c||^2 + 40 ||dtheta^c||^2 + 64 sigma^2 (1/n + 2 delta_env^i)
    + 2 E||calE||^2, with calE the random estimation error and x_*^c in the G_x of sigma.
    """
    return g.lemma_g2(stack)


@PAPER.upper(
    "g2_mean_error",
    ref="Lemma G.2, calE as defined in (28)",
    reading="(28) defines calE as an expectation, and Lemma G.2 refers to the same letter.",
    tex=r"\mathbb{E}\|g^{c\Rightarrow i}\|^2\le24G_A^2\|\Delta x^c\|^2+40\|\Delta\theta^c\|^2"
    r"+64\sigma^2(n^{-1}+2\delta_{\mathrm{env}}^i)+2\|\mathbb{E}\mathcal{E}\|^2",
    on=ESTIMATED,
    expect="violated",
    note="(28) defines calE as an expectation. The first step of Lemma G.2 needs the random "
    "error: its variance is of order ||deta||^2 sigma^2 / n and no other term covers it. One "
    "agent, mu = (1/2, 1/2), A = Phi = 1, theta = 1, theta^c at its solution, dx^c = 1, "
    "psi' deta = (100, -100): the mean is 0, E||g^{c=>i}||^2 = 10001, the bound 24 + 64 sigma^2 "
    "= 280. Nothing is lost in Theorem 1, whose proof bounds the random error.",
    corrected="g2",
    reading_of="g2",
)
def g2_mean_error(stack: PersonalStack) -> rc.Sides:
    """E||g^{c=>i}||^2 <= 24 G_A^2 ||dx^c||^2 + 40 ||dtheta^c||^2 + 64 sigma^2 (1/n + 2 delta_env^i)
    + 2 ||E calE||^2, with the calE of Lemma G.1, an expectation over the samples, and x_*^c in the
    G_x of sigma.
    """
    return g.lemma_g2(stack, error="mean")


@PAPER.upper(
    "g2_sharper",
    ref="Lemma G.2, sharpened",
    tex=r"\mathbb{E}\|g^{c\Rightarrow i}\|^2\le16G_A^2\|\Delta x^c\|^2+16\|\Delta\theta^c\|^2"
    r"+4\sigma^2(n^{-1}+5\delta_{\mathrm{env}}^i)+2\mathbb{E}\|\mathcal{E}\|^2",
    on=ESTIMATED,
    derivation="Write the direction as D + S + calE with D = (1/n) sum rho (A dx^c - Phi dtheta) "
    "and S the rest at the solution; E||.||^2 <= 4 E||D||^2 + 4 E||S||^2 + 2 E||calE||^2. As E_0 "
    "rho^2 = 1 + chi^2, E((1/n) sum rho)^2 <= 1 + chi^2/n <= 1 + delta_env <= 2, so E||D||^2 <= "
    "4 (G_A^2 ||dx^c||^2 + ||dtheta||^2). E||S||^2 <= (sigma^2/n)(1 + chi^2) + ||E_i "
    "g^{c->i}||^2, and the last is at most (2 sigma delta_env)^2 because the mean under mu^0 is "
    "zero.",
    sharpens="g2",
)
def g2_sharper(stack: PersonalStack) -> rc.Sides:
    """E||g^{c=>i}||^2 <= 16 G_A^2 ||dx^c||^2 + 16 ||dtheta^c||^2 + 4 sigma^2 (1/n + 5 delta_env^i)
    + 2 E||calE||^2, with x_*^c in the G_x of sigma.
    """
    noise = 4 * stack.variance_proxy * (stack.rate + 5 * stack.delta_env_agent)
    bound = 16 * (stack.centre_error + stack.objective_error) + noise
    return stack.collective_second_moment, bound + 2 * stack.estimation_second_moment


@PAPER.upper(
    "g2_H1",
    ref="proof of Lemma G.2, (29)",
    uses=["g2_chi", "d3", "sec52_rho"],
    tex=r"H_1\le8G_A^2\|\Delta x^c\|^2+16\|\Delta\theta^c\|^2"
    r"+8\sigma^2(n^{-1}+\delta_{\mathrm{env}}^i)",
    on=KNOWN,
)
def g2_H1(stack: PersonalStack) -> rc.Sides:
    """H_1 = (1/n^2) sum_j E||rho^i(s^j) g^{c->j}||^2 <= 8 G_A^2 ||dx^c||^2 + 16 ||dtheta^c||^2 + 8
    sigma^2 (1/n + delta_env^i), with x_*^c in the G_x of sigma.
    """
    noise = 8 * stack.variance_proxy * (stack.rate + stack.delta_env_agent)
    return g.squares_of(stack), 8 * stack.centre_error + 16 * stack.objective_error + noise


@PAPER.upper(
    "g2_H1_sharper",
    ref="proof of Lemma G.2, (29), sharpened",
    tex=r"H_1\le2G_A^2\|\Delta x^c\|^2+4\|\Delta\theta^c\|^2"
    r"+4\sigma^2(n^{-1}+\delta_{\mathrm{env}}^i)",
    on=KNOWN,
    derivation="E_0 rho^2 = 1 + chi^2 exactly, so no factor 2 is needed; chi^2 <= n delta_env^i "
    "by Lemma D.3 and rho <= n; and 1/n + delta_env^i <= 1, as mu^i makes up 1/n of mu^0. Then "
    "H_1 <= (sigma + G_A ||dx^c|| + ||dtheta||)^2 (1/n + delta_env^i).",
    sharpens="g2_H1",
)
def g2_H1_sharper(stack: PersonalStack) -> rc.Sides:
    """H_1 = (1/n^2) sum_j E||rho^i(s^j) g^{c->j}||^2 <= 2 G_A^2 ||dx^c||^2 + 4 ||dtheta^c||^2 + 4
    sigma^2 (1/n + delta_env^i), with x_*^c in the G_x of sigma.
    """
    noise = 4 * stack.variance_proxy * (stack.rate + stack.delta_env_agent)
    return g.squares_of(stack), 2 * stack.centre_error + 4 * stack.objective_error + noise


@PAPER.upper(
    "g2_H2",
    ref="proof of Lemma G.2, (30)",
    uses=["d1e", "d1i"],
    tex=r"H_2\le\|\mathbb{E}g^{c\to i}\|^2\le4G_A^2\|\Delta x^c\|^2+4\|\Delta\theta^c\|^2"
    r"+32\sigma^2(\delta_{\mathrm{cen}}^i)^2",
    on=KNOWN,
)
def g2_H2(stack: PersonalStack) -> rc.Sides:
    """H_2 = (1/n^2) sum_{j != k} <E rho^i g^{c->j}, E rho^i g^{c->k}> <= ||E g^{c->i}||^2 <= 4
    G_A^2 ||dx^c||^2 + 4 ||dtheta^c||^2 + 32 sigma^2 (delta_cen^i)^2, with x_*^c in the G_x of
    sigma.
    """
    noise = 32 * stack.variance_proxy * stack.delta_cen**2
    bound = 4 * stack.centre_error + 4 * stack.objective_error + noise
    return (
        np.stack([_covariances(stack), _bias(stack)], axis=1),
        np.stack([_bias(stack), bound], axis=1),
    )


@PAPER.upper(
    "g2_H2_sharper",
    ref="proof of Lemma G.2, (30), sharpened",
    tex=r"\|\mathbb{E}g^{c\to i}\|^2\le4G_A^2\|\Delta x^c\|^2+4\|\Delta\theta^c\|^2"
    r"+8\sigma^2(\delta_{\mathrm{env}}^i)^2",
    on=KNOWN,
    derivation="At the solution E_i g = (E_i - E_0) g, since E_0 g = 0, and ||g|| <= sigma: at "
    "most 2 sigma delta_env^i. The bias knows of environments alone. ||a + b + c||^2 <= 4 a^2 + "
    "4 b^2 + 2 c^2.",
    sharpens="g2_H2",
)
def g2_H2_sharper(stack: PersonalStack) -> rc.Sides:
    """||E g^{c->i}||^2 <= 4 G_A^2 ||dx^c||^2 + 4 ||dtheta^c||^2 + 8 sigma^2 (delta_env^i)^2, with
    x_*^c in the G_x of sigma.
    """
    noise = 8 * stack.variance_proxy * stack.delta_env_agent**2
    return _bias(stack), 4 * (stack.centre_error + stack.objective_error) + noise


@PAPER.upper(
    "g2_chi",
    ref="proof of Lemma G.2",
    tex=r"H_1\le\tfrac{2H_3^2}{n}(1+\chi^2(\mu^i,\mu^0))",
    on=KNOWN,
)
def g2_chi(stack: PersonalStack, factor: int = 2) -> rc.Sides:
    """H_1 = (1/n^2) sum_j E||rho^i(s^j) g^{c->j}||^2 <= (2 H_3^2 / n)(1 + chi^2(mu^i, mu^0)), H_3
    the largest ||g^{c->j}(x^c)||.
    """
    largest = (stack.central**2).sum(axis=-1) * stack.visited
    bound = factor * largest.max(axis=-1)[:, None] * stack.rate * (1 + stack.chi2_agent)
    return g.squares_of(stack), bound


@PAPER.upper(
    "g2_chi_sharper",
    ref="proof of Lemma G.2, sharpened",
    tex=r"H_1\le\tfrac{H_3^2}{n}(1+\chi^2(\mu^i,\mu^0))",
    on=KNOWN,
    derivation="E_0 rho^2 = 1 + E_0 (rho - 1)^2, because E_0 (rho - 1) = 0. Attained where ||g|| "
    "is constant.",
    sharpens="g2_chi",
)
def g2_chi_sharper(stack: PersonalStack) -> rc.Sides:
    """H_1 = (1/n^2) sum_j E||rho^i(s^j) g^{c->j}||^2 <= (H_3^2 / n)(1 + chi^2(mu^i, mu^0)), H_3 the
    largest ||g^{c->j}(x^c)||.
    """
    return g2_chi(stack, factor=1)


@PAPER.upper(
    "g3",
    ref="Lemma G.3",
    uses=["d2_A", "d2_Phi"],
    family=HIDDEN,
    tex=r"\mathbb{E}\|g^i(x^i)-g^{c\to i}\|^2\le4G_A^2\|\Delta x^i\|^2+8G_A^2\|\Delta x^c\|^2"
    r"+8\|\Delta\theta^c\|^2+16\sigma^2\tilde\delta_{\mathrm{cen}}^i",
    on=NOISE,
    main=True,
    expect="violated",
    note=OF_PHI + "E||g^i - g^{c->i}||^2 = 0.9998, the bound is 0.0032.",
    corrected="g3_corrected",
)
def g3(stack: PersonalStack, effective: str = "printed") -> rc.Sides:
    """E||g^i(x^i) - g^{c->i}||^2 <= 4 G_A^2 ||dx^i||^2 + 8 G_A^2 ||dx^c||^2 + 8 ||dtheta^c||^2 + 16
    sigma^2 deltatilde^i, deltatilde^i = min{1, nu delta_cen^i}, with x_*^c in the G_x of sigma.
    """
    bound = 4 * stack.G_A[:, None] ** 2 * stack.own_error + 8 * stack.centre_error
    noise = 16 * stack.variance_proxy * stack.effective(effective)
    return stack.individual_second_moment, bound + 8 * stack.objective_error + noise


@PAPER.upper(
    "g3_corrected",
    ref="Lemma G.3, corrected",
    uses=["d2_A", "d2_Phi_corrected"],
    tex=r"\mathbb{E}\|g^i(x^i)-g^{c\to i}\|^2\le4G_A^2\|\Delta x^i\|^2+8G_A^2\|\Delta x^c\|^2"
    r"+8\|\Delta\theta^c\|^2+16\sigma^2\min\{1,\max\{\nu,\nu_\Phi\}\,\delta_{\mathrm{cen}}^i\}",
    on=KNOWN,
    derivation=WITH_PHI,
)
def g3_corrected(stack: PersonalStack) -> rc.Sides:
    """E||g^i(x^i) - g^{c->i}||^2 <= 4 G_A^2 ||dx^i||^2 + 8 G_A^2 ||dx^c||^2 + 8 ||dtheta^c||^2 + 16
    sigma^2 min{1, nu' delta_cen^i}, nu' the larger of nu and the same number of Phi, with x_*^c in
    the G_x of sigma.
    """
    return g3(stack, effective="safe")

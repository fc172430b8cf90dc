"""Appendix G of AffPCL, Corollary G.2: the progress of one step."""

from __future__ import annotations

import ratecheck as rc
from experiments.affpcl.claims._one_step import ESTIMATED, HIDDEN, KNOWN, NOISE, OF_PHI, WITH_PHI
from experiments.affpcl.paper import PAPER
from experiments.affpcl.theory import personalized as g
from experiments.affpcl.theory.one_step import PersonalStack


@PAPER.upper(
    "corG2_gtil",
    ref="proof of Corollary G.2",
    printed_as="proof step",
    uses=["g2", "g3"],
    family=HIDDEN,
    tex=r"\mathbb{E}\|\tilde g^i\|^2\le8G_A^2\|\Delta x^i\|^2+64G_A^2\|\Delta x^c\|^2"
    r"+96\|\Delta\theta^c\|^2+144\sigma^2(n^{-1}+2\tilde\delta_{\mathrm{cen}}^i)"
    r"+4\mathbb{E}\|\mathcal{E}\|^2",
    on=NOISE,
    expect="violated",
    note=OF_PHI + "E||gtilde^i||^2 = 0.9998, the bound is 0.062.",
    corrected="corG2_gtil_corrected",
)
def corG2_gtil(stack: PersonalStack, effective: str = "printed") -> rc.Sides:
    """E||gtilde^i||^2 <= 8 G_A^2 ||dx^i||^2 + 64 G_A^2 ||dx^c||^2 + 96 ||dtheta^c||^2 + 144 sigma^2
    (1/n + 2 deltatilde^i) + 4 E||calE||^2, deltatilde^i = min{1, nu delta_cen^i}, with x_*^c in the
    G_x of sigma.
    """
    noise = 144 * stack.variance_proxy * (stack.rate + 2 * stack.effective(effective))
    bound = 8 * stack.G_A[:, None] ** 2 * stack.own_error + 64 * stack.centre_error
    bound = bound + 96 * stack.objective_error + noise + 4 * stack.estimation_second_moment
    return stack.direction_second_moment, bound


@PAPER.upper(
    "corG2_gtil_corrected",
    ref="proof of Corollary G.2, corrected",
    uses=["g2", "g3_corrected"],
    tex=r"\mathbb{E}\|\tilde g^i\|^2\le8G_A^2\|\Delta x^i\|^2+64G_A^2\|\Delta x^c\|^2"
    r"+96\|\Delta\theta^c\|^2+144\sigma^2(n^{-1}+2\min\{1,\max\{\nu,\nu_\Phi\}\,"
    r"\delta_{\mathrm{cen}}^i\})+4\mathbb{E}\|\mathcal{E}\|^2",
    on=ESTIMATED,
    derivation=WITH_PHI,
)
def corG2_gtil_corrected(stack: PersonalStack) -> rc.Sides:
    """E||gtilde^i||^2 <= 8 G_A^2 ||dx^i||^2 + 64 G_A^2 ||dx^c||^2 + 96 ||dtheta^c||^2 + 144 sigma^2
    (1/n + 2 min{1, nu' delta_cen^i}) + 4 E||calE||^2, nu' the larger of nu and the same number of
    Phi, with x_*^c in the G_x of sigma.
    """
    return corG2_gtil(stack, effective="safe")


@PAPER.upper(
    "corG2_gtil_sharper",
    ref="proof of Corollary G.2, corrected and sharpened",
    tex=r"\mathbb{E}\|\tilde g^i\|^2\le4G_A^2\|\Delta x^i\|^2+64(G_A^2\|\Delta x^c\|^2"
    r"+\|\Delta\theta^c\|^2)+16\sigma^2(n^{-1}+9\tilde\delta^i)+2\mathbb{E}\|\mathcal{E}\|^2",
    on=ESTIMATED,
    uses=["d2_A", "d2_Phi_corrected", "d3"],
    derivation="gtilde = A dx^i + (z + w) + calE: z = v(s^i) + (1/n) sum rho g at the solutions, "
    "w = (1/n) sum rho u(s^j) - u(s^i) with u = A dx^c - Phi dtheta; E z = E w = 0. E||z||^2 is "
    "at most twice the variances of its halves, 2 (8 sigma^2 deltatilde) + 2 sigma^2 (1/n + "
    "delta_env), E||w||^2 <= 8 (G_A^2 ||dx^c||^2 + ||dtheta||^2), and E||gtilde||^2 <= 4 E||A "
    "dx^i||^2 + 8 E||z||^2 + 8 E||w||^2 + 2 E||calE||^2.",
    sharpens="corG2_gtil_corrected",
)
def corG2_gtil_sharper(stack: PersonalStack) -> rc.Sides:
    """E||gtilde^i||^2 <= 4 G_A^2 ||dx^i||^2 + 64 (G_A^2 ||dx^c||^2 + ||dtheta^c||^2) + 16 sigma^2
    (1/n + 9 deltatilde^i) + 2 E||calE||^2, deltatilde^i = min{1, nu' delta_cen^i}, nu' the larger
    of nu and the same number of Phi, with x_*^c in the G_x of sigma.
    """
    noise = 16 * stack.variance_proxy * (stack.rate + 9 * stack.effective("safe"))
    bound = 4 * stack.G_A[:, None] ** 2 * stack.own_error
    bound = bound + 64 * (stack.centre_error + stack.objective_error) + noise
    return stack.direction_second_moment, bound + 2 * stack.estimation_second_moment


@PAPER.upper(
    "corG2_first",
    ref="Corollary G.2, first inequality",
    uses=["corG1", "corG2_gtil"],
    family=HIDDEN,
    tex=r"\mathbb{E}\|\Delta x_{t+1}^i\|^2\le(1-\tfrac32\alpha\lambda^i)\|\Delta x^i\|^2"
    r"+64\alpha^2G_A^2\|\Delta x^c\|^2+96\alpha^2\|\Delta\theta^c\|^2"
    r"+4\alpha(\lambda^i)^{-1}\mathbb{E}\|\mathcal{E}\|^2"
    r"+144\alpha^2\sigma^2(n^{-1}+2\tilde\delta_{\mathrm{cen}}^i)",
    on=NOISE,
    expect="violated",
    note=OF_PHI
    + "At alpha = 1/40, E||dx_{t+1}||^2 = 6.2e-4 from dx = 0, the bound is 3.9e-5. (9) and Theorem "
    "1 of Appendix G.1 inherit this: no constant makes them true with nu of A alone. In this "
    "example delta_obj = 1, so that it says nothing on Theorem 1 of Section 5 (affpcl.thm1_main). "
    "Besides, the proof loses a factor: -2 alpha times Corollary G.1 gives (4 alpha / lambda) "
    "E||calE||^2, not 2 alpha / lambda, and its condition lambda / (32 G_A^2) then leaves no room; "
    "the statement's 40 does.",
    corrected="corG2_first_corrected",
)
def corG2_first(stack: PersonalStack, effective: str = "printed") -> rc.Sides:
    """For alpha <= lambda^i / (40 G_A^2) and deltatilde^i = min{1, nu delta_cen^i}, with x_*^c in
    the G_x of sigma, E||dx_{t+1}^i||^2 <= (1 - (3/2) alpha lambda^i) ||dx^i||^2 + 64 alpha^2 G_A^2
    ||dx^c||^2 + 96 alpha^2 ||dtheta^c||^2 + (4 alpha / lambda^i) E||calE||^2 + 144 alpha^2 sigma^2
    (1/n + 2 deltatilde^i). Both sides less the contraction, over alpha.
    """
    alpha = stack.step(40)
    noise = 144 * stack.variance_proxy * (stack.rate + 2 * stack.effective(effective))
    bound = alpha * (64 * stack.centre_error + 96 * stack.objective_error + noise)
    return (
        g.progress(stack, alpha),
        bound + 4 * stack.estimation_second_moment / stack.lambda_agent,
    )


@PAPER.upper(
    "corG2_first_corrected",
    ref="Corollary G.2, first inequality, corrected",
    uses=["corG1", "corG2_gtil_corrected"],
    tex=r"\mathbb{E}\|\Delta x_{t+1}^i\|^2\le(1-\tfrac32\alpha\lambda^i)\|\Delta x^i\|^2"
    r"+64\alpha^2G_A^2\|\Delta x^c\|^2+96\alpha^2\|\Delta\theta^c\|^2"
    r"+4\alpha(\lambda^i)^{-1}\mathbb{E}\|\mathcal{E}\|^2"
    r"+144\alpha^2\sigma^2(n^{-1}+2\min\{1,\max\{\nu,\nu_\Phi\}\,\delta_{\mathrm{cen}}^i\})",
    on=ESTIMATED,
    derivation=WITH_PHI + " With -2 <E calE, dx> <= c lambda ||dx||^2 + ||E calE||^2 / (c "
    "lambda), c = 3/10, and 8 alpha G_A^2 <= lambda / 5, ||dx^i||^2 keeps 2 - 3/10 - 1/5 = 3/2 "
    "and E||calE||^2 gets (10/3 + 4 alpha lambda) / lambda <= 4 / lambda.",
)
def corG2_first_corrected(stack: PersonalStack) -> rc.Sides:
    """For alpha <= lambda^i / (40 G_A^2) and nu' the larger of nu and the same number of Phi, with
    x_*^c in the G_x of sigma, E||dx_{t+1}^i||^2 <= (1 - (3/2) alpha lambda^i) ||dx^i||^2 + 64
    alpha^2 G_A^2 ||dx^c||^2 + 96 alpha^2 ||dtheta^c||^2 + (4 alpha / lambda^i) E||calE||^2 + 144
    alpha^2 sigma^2 (1/n + 2 min{1, nu' delta_cen^i}). Both sides less the contraction, over alpha.
    """
    return corG2_first(stack, effective="safe")


@PAPER.upper(
    "corG2_first_sharper",
    ref="Corollary G.2, first inequality, sharpened",
    tex=r"\mathbb{E}\|\Delta x_{t+1}^i\|^2\le(1-\tfrac32\alpha\lambda^i)\|\Delta x^i\|^2"
    r"+64\alpha^2(G_A^2\|\Delta x^c\|^2+\|\Delta\theta^c\|^2)"
    r"+4\alpha(\lambda^i)^{-1}\mathbb{E}\|\mathcal{E}\|^2+16\alpha^2\sigma^2(n^{-1}+9\tilde\delta^i)",
    on=ESTIMATED,
    uses=["corG2_gtil_sharper"],
    derivation="affpcl.corG2_gtil_sharper with c = 3/10: 4 alpha G_A^2 <= lambda / 5 and 10/3 + "
    "2 alpha lambda <= 4.",
    sharpens="corG2_first_corrected",
)
def corG2_first_sharper(stack: PersonalStack) -> rc.Sides:
    """For alpha <= lambda^i / (20 G_A^2) and deltatilde^i = min{1, nu' delta_cen^i}, nu' the larger
    of nu and the same number of Phi, with x_*^c in the G_x of sigma, E||dx_{t+1}^i||^2 <= (1 -
    (3/2) alpha lambda^i) ||dx^i||^2 + 64 alpha^2 (G_A^2 ||dx^c||^2 + ||dtheta^c||^2) + (4 alpha /
    lambda^i) E||calE||^2 + 16 alpha^2 sigma^2 (1/n + 9 deltatilde^i). Both sides less the
    contraction, over alpha.
    """
    alpha = stack.step(20)
    noise = 16 * stack.variance_proxy * (stack.rate + 9 * stack.effective("safe"))
    bound = alpha * (64 * (stack.centre_error + stack.objective_error) + noise)
    return (
        g.progress(stack, alpha),
        bound + 4 * stack.estimation_second_moment / stack.lambda_agent,
    )


@PAPER.upper(
    "corG2_known_ratio",
    ref="Corollary G.2, known density ratio",
    printed_as="ours",
    tex=r"\mathbb{E}\|\Delta x_{t+1}^i\|^2\le(1-\tfrac32\alpha\lambda^i)\|\Delta x^i\|^2"
    r"+32\alpha^2(G_A^2\|\Delta x^c\|^2+\|\Delta\theta^c\|^2)"
    r"+8\alpha^2\sigma^2(n^{-1}+9\tilde\delta^i)",
    on=KNOWN,
    uses=["corG2_gtil_sharper"],
    derivation="calE = 0, so E<gtilde, dx> >= lambda ||dx||^2, and E||gtilde||^2 <= 2 E||A "
    "dx^i||^2 + 4 E||z||^2 + 4 E||w||^2 in the terms of affpcl.corG2_gtil_sharper.",
)
def corG2_known_ratio(stack: PersonalStack) -> rc.Sides:
    """For alpha <= lambda^i / (4 G_A^2), a known ratio and deltatilde^i = min{1, nu' delta_cen^i},
    nu' the larger of nu and the same number of Phi, with x_*^c in the G_x of sigma,
    E||dx_{t+1}^i||^2 <= (1 - (3/2) alpha lambda^i) ||dx^i||^2 + 32 alpha^2 (G_A^2 ||dx^c||^2 +
    ||dtheta^c||^2) + 8 alpha^2 sigma^2 (1/n + 9 deltatilde^i). Both sides less the contraction,
    over alpha.

    As the ratio is known, there is no error ``deta`` of its estimate.
    """
    alpha = stack.step(4)
    noise = 8 * stack.variance_proxy * (stack.rate + 9 * stack.effective("safe"))
    return (
        g.progress(stack, alpha),
        alpha * (32 * (stack.centre_error + stack.objective_error) + noise),
    )


@PAPER.upper(
    "corG2_second",
    ref="Corollary G.2, second inequality",
    uses=["corG2_first", "corG2_E"],
    family=HIDDEN,
    tex=r"\mathbb{E}\|\Delta x_{t+1}^i\|^2\le(1-\tfrac32\alpha\lambda^i)\|\Delta x^i\|^2"
    r"+(64\alpha^2+16\alpha(\lambda^i)^{-1}G_\rho^2)G_A^2\|\Delta x^c\|^2"
    r"+(96\alpha^2+16\alpha(\lambda^i)^{-1}G_\rho^2)\|\Delta\theta^c\|^2"
    r"+4\alpha(\lambda^i)^{-1}\sigma^2\|\Delta\eta^i\|^2"
    r"+144\alpha^2\sigma^2(n^{-1}+2\tilde\delta_{\mathrm{cen}}^i)",
    on=NOISE,
    expect="violated",
    note=OF_PHI
    + "The numbers are those of the first inequality. The step from the first to the second "
    "inequality is not sound either: E||calE||^2 <= 2 sigma^2 ||deta||^2 + .. gives 8 alpha "
    "sigma^2 / lambda, and 4 alpha E||calE||^2 / lambda can be nearly 1.5 times what replaces it. "
    "The second inequality survives that by other slack.",
    corrected="corG2_second_corrected",
)
def corG2_second(stack: PersonalStack, effective: str = "printed") -> rc.Sides:
    """For alpha <= lambda^i / (40 G_A^2) and deltatilde^i = min{1, nu delta_cen^i}, with x_*^c in
    the G_x of sigma, E||dx_{t+1}^i||^2 <= (1 - (3/2) alpha lambda^i) ||dx^i||^2 + (64 alpha^2 + 16
    alpha G_rho^2 / lambda^i) G_A^2 ||dx^c||^2 + (96 alpha^2 + 16 alpha G_rho^2 / lambda^i)
    ||dtheta^c||^2 + (4 alpha / lambda^i) sigma^2 ||deta^i||^2 + 144 alpha^2 sigma^2 (1/n + 2
    deltatilde^i). Both sides less the contraction, over alpha.
    """
    alpha, slope = stack.step(40), stack.lambda_agent
    ratio = 16 * stack.G_rho**2 / slope
    noise = 144 * alpha * stack.variance_proxy * (stack.rate + 2 * stack.effective(effective))
    bound = (64 * alpha + ratio) * stack.centre_error + (96 * alpha + ratio) * stack.objective_error
    bound = bound + 4 * stack.variance_proxy * stack.weight_error / slope
    return g.progress(stack, alpha), bound + noise


@PAPER.upper(
    "corG2_second_corrected",
    ref="Corollary G.2, second inequality, corrected",
    uses=["corG2_first_corrected", "corG2_E_corrected", "corG2_gtil_sharper"],
    tex=r"\mathbb{E}\|\Delta x_{t+1}^i\|^2\le(1-\tfrac32\alpha\lambda^i)\|\Delta x^i\|^2"
    r"+(64\alpha^2+16\alpha(\lambda^i)^{-1}G_\rho^2)G_A^2\|\Delta x^c\|^2"
    r"+(96\alpha^2+16\alpha(\lambda^i)^{-1}G_\rho^2)\|\Delta\theta^c\|^2"
    r"+4\alpha(\lambda^i)^{-1}\sigma^2\|\Delta\eta^i\|^2"
    r"+144\alpha^2\sigma^2(n^{-1}+2\min\{1,\max\{\nu,\nu_\Phi\}\,\delta_{\mathrm{cen}}^i\})",
    on=ESTIMATED,
    derivation="Let R = sigma^2 ||deta||^2 + 4 G_rho^2 (G_A^2 ||dx^c||^2 + ||dtheta||^2). By "
    "Cauchy's inequality ||calE||^2 <= (1 + 1/4 + 1/4) R. In affpcl.corG2_gtil_sharper, 4 alpha "
    "G_A^2 <= lambda / 10 leaves c = 2/5, so the errors cost at most (5/2 + 2 alpha lambda)(3/2) "
    "R / lambda < 4 R / lambda.",
)
def corG2_second_corrected(stack: PersonalStack) -> rc.Sides:
    """For alpha <= lambda^i / (40 G_A^2), ||psi|| <= 1 and nu' the larger of nu and the same number
    of Phi, with x_*^c in the G_x of sigma, E||dx_{t+1}^i||^2 <= (1 - (3/2) alpha lambda^i)
    ||dx^i||^2 + (64 alpha^2 + 16 alpha G_rho^2 / lambda^i) G_A^2 ||dx^c||^2 + (96 alpha^2 + 16
    alpha G_rho^2 / lambda^i) ||dtheta^c||^2 + (4 alpha / lambda^i) sigma^2 ||deta^i||^2 + 144
    alpha^2 sigma^2 (1/n + 2 min{1, nu' delta_cen^i}). Both sides less the contraction, over alpha.
    """
    return corG2_second(stack, effective="safe")


@PAPER.upper(
    "corG2_E",
    ref="proof of Corollary G.2",
    printed_as="proof step",
    tex=r"\mathbb{E}\|\mathcal{E}\|^2\le2\sigma^2\|\Delta\eta^i\|^2"
    r"+4(G_A^2\|\Delta x^c\|^2+\|\Delta\theta^c\|^2)",
    on=ESTIMATED,
    expect="violated",
    note="The last line of the proof drops the factor G_rho^2 = max |rhohat - rho|^2, which the "
    "corollary itself has, and uses ||psi|| <= 1. One agent, one state, A = Phi = psi = 1, theta "
    "= 0 (so sigma = 0), dx^c = 1, deta = 10: E||calE||^2 = 100, the bound is 4. Assumption 1 "
    "bounds G_rho by a constant, which Theorem 1 then hides.",
    corrected="corG2_E_corrected",
)
def corG2_E(stack: PersonalStack) -> rc.Sides:
    """E||calE||^2 <= 2 sigma^2 ||deta^i||^2 + 4 (G_A^2 ||dx^c||^2 + ||dtheta^c||^2), with x_*^c in
    the G_x of sigma.
    """
    return g.corollary_g2_error(stack)


@PAPER.upper(
    "corG2_E_corrected",
    ref="proof of Corollary G.2, corrected",
    tex=r"\mathbb{E}\|\mathcal{E}\|^2\le2\sigma^2\|\Delta\eta^i\|^2"
    r"+4G_\rho^2(G_A^2\|\Delta x^c\|^2+\|\Delta\theta^c\|^2)",
    on=ESTIMATED,
    derivation="||calE|| <= mean_j |psi' deta| (sigma + G_A ||dx^c|| + ||dtheta||); |psi' deta| "
    "is at most ||deta|| and at most G_rho; (a + b + c)^2 <= 2 a^2 + 4 b^2 + 4 c^2.",
)
def corG2_E_corrected(stack: PersonalStack) -> rc.Sides:
    """E||calE||^2 <= 2 sigma^2 ||deta^i||^2 + 4 G_rho^2 (G_A^2 ||dx^c||^2 + ||dtheta^c||^2), for
    ||psi|| <= 1 and x_*^c in the G_x of sigma.
    """
    return g.corollary_g2_error(stack, with_G_rho=True)

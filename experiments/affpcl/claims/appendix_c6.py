"""Appendix C.6 of AffPCL: policy evaluation by temporal differences."""

from __future__ import annotations

import ratecheck as rc
from experiments.affpcl.claims._chains import chain_space
from experiments.affpcl.theory import bellman

# Chains with features of length at most one in their stationary law; see chain_space.
CHAINS = chain_space("n", sizes={"n": (1, 2)})
REWARDED = chain_space("n", {"R": rc.reals("n", "O", "O")}, sizes={"n": (1, 2)})
WEIGHTED = chain_space("n", {"theta": rc.reals("n", "d")}, sizes={"n": (1, 2)})

C6_BELLMAN = rc.Claim(
    id="affpcl.c6_bellman",
    source="AffPCL, Appendix C.6, equation (15)",
    text="The values phi^T x_*^i of A = phi (phi - gamma phi')^T, b = phi R are the projection, "
    "in the norm of pi^i on the span of the features, of their Bellman backup.",
    latex=r"\Phi x_*^i=\Pi_{\pi^i}(R^i+\gamma P^i\Phi x_*^i)",
    kind="identity",
    space=REWARDED,
    measure=bellman.projected_bellman,
)
C6_CONST = rc.Claim(
    id="affpcl.c6_const",
    source="AffPCL, Appendix C.6",
    text="||phi|| <= 1: G_A <= 1 + gamma <= 2, and sigma <= 2 max{(1 + gamma) G_x, max |R^i|}, "
    "where sigma = 2 max{G_A G_x, max_i sup_s ||b^i(s)||}.",
    latex=r"G_A\le1+\gamma\le2,\quad\sigma\le2\max\{(1+\gamma)G_x,\max_i\|R^i\|_\infty\}",
    kind="upper",
    space=REWARDED,
    measure=bellman.constants,
    note="G_b here bounds b^i(s), as in Section 1.2. Section 4's G_b bounds weights theta^i, "
    "which rewards do not bound; see affpcl.c6_const_weights.",
)
C6_CONST_WEIGHTS = rc.Claim(
    id="affpcl.c6_const_weights",
    source="AffPCL, Appendix C.6 with Section 4's G_b",
    text="R^i = phi^T theta^i, ||phi|| <= 1: sigma <= 2 max{(1 + gamma) G_x, max |R^i|}, where "
    "sigma = 2 max{G_A G_x, G_b} and G_b = max{max_i ||theta^i||, ||theta_*^c||}.",
    latex=r"2\max\{G_AG_x,\max_i\|\theta_*^i\|,\|\theta_*^c\|\}"
    r"\le2\max\{(1+\gamma)G_x,\max_i\|R^i\|_\infty\}",
    kind="upper",
    space=WEIGHTED,
    measure=lambda s: bellman.constants_of_weights(s, 1 + 0 * s.gamma),
    expect="violated",
    note="Theorem 1 uses Section 4's G_b, which bounds the weights of the objective; Appendix C.6 "
    "sets G_b >= max |R^i| as if it were Section 1.2's. Weights can exceed both rewards and "
    "solutions where features are short: with n = 1, gamma = 0.3, independent transitions to "
    "three states with chances 0.2, 0.2, 0.6, features (0.1, 0, 0), (0, 1, 0), (0.7, 0, 0.1) and "
    "theta = (0, 0, 1), sigma = 2 > 1.56. The rate of Appendix C.6 holds with G_b >= max{max_i "
    "||theta^i||, ||theta_*^c||}.",
    corrected="affpcl.c6_const_weights_corrected",
)
C6_CONST_WEIGHTS_CORRECTED = rc.Claim(
    id="affpcl.c6_const_weights_corrected",
    source="AffPCL, Appendix C.6 with Section 4's G_b, corrected",
    text="R^i = phi^T theta^i, ||phi|| <= 1: sigma <= 2 max{(1 + gamma) G_x, max |R^i| / "
    "sqrt(w)}, w = min_i lambda_min(E_{pi^i} phi phi^T).",
    latex=r"\sigma\le2\max\{(1+\gamma)G_x,\max_i\|R^i\|_\infty/\sqrt{\min_iw^i}\}",
    kind="upper",
    space=WEIGHTED,
    measure=lambda s: bellman.constants_of_weights(s, bellman.feature_floor(s)),
    derivation="w^i ||theta^i||^2 <= E (phi^T theta^i)^2 <= max |R^i|^2. phi^T theta_*^c is the "
    "projection of the rewards in the norm of mu^0, where lambda_min(E phi phi^T) >= min_i w^i, "
    "so the same bound holds for theta_*^c.",
)
C6_LAMBDA = rc.Claim(
    id="affpcl.c6_lambda",
    source="AffPCL, Appendix C.6 (Bhandari et al. 2018, Lemma 3)",
    text="lambda^i >= (1 - gamma) lambda_min(E_{pi^i} phi phi^T), pi^i stationary.",
    latex=r"\lambda^i\ge(1-\gamma)\lambda_{\min}(\mathbb{E}_{\pi^i}\phi\phi^\top)",
    kind="lower",
    space=CHAINS,
    measure=bellman.monotonicity,
)
C6_NU = rc.Claim(
    id="affpcl.c6_nu",
    source="AffPCL, Appendix C.6",
    text="A = phi (phi - gamma phi')^T, ||phi|| <= 1: nu^i <= (1 + gamma) / (1 - gamma).",
    latex=r"\nu\le\frac{1+\gamma}{1-\gamma}\le\frac2{1-\gamma}",
    kind="upper",
    space=CHAINS,
    measure=bellman.condition_stated,
    expect="violated",
    note="Three gaps. Appendix C.6 has the transpose of Example 6's matrix, and nu is not that of "
    "the transpose. Features are shorter than one, which Remark 2 excludes. And Example 6 itself "
    "fails (affpcl.ex6). With ||phi|| = 1: cycle 1 -> 2 -> 3 -> 1, gamma = 0.5, features (0, 1, "
    "-2), (1, 0, 0), (2, 0, 1), normalised: nu = 3.99 > 3. The rate of Appendix C.6 survives, "
    "with a better power of 1 - gamma: Lemma D.2 holds with one in the place of nu "
    "(affpcl.rem2_td).",
    corrected="affpcl.c6_nu_corrected",
)
C6_NU_CORRECTED = rc.Claim(
    id="affpcl.c6_nu_corrected",
    source="AffPCL, Appendix C.6, corrected",
    text="A = phi (phi - gamma phi')^T, ||phi|| <= 1: nu^i <= sqrt((1 + gamma) / lambda^i) <= "
    "sqrt((1 + gamma) / ((1 - gamma) w^i)).",
    latex=r"\nu^i\le\sqrt{\frac{1+\gamma}{\lambda^i}}\le\sqrt{\frac{1+\gamma}{(1-\gamma)w^i}}",
    kind="upper",
    space=CHAINS,
    measure=lambda s: bellman.condition(s, bellman.moment_factor(s)),
    derivation="||Dbar x||^2 <= E ||A x||^2 <= (1 + gamma) x^T Abar x <= (1 + gamma) ||x|| ||Abar "
    "x|| (Jensen; affpcl.c6_moment) and ||x|| <= ||Abar x|| / lambda.",
)
C6_MOMENT = rc.Claim(
    id="affpcl.c6_moment",
    source="AffPCL, Appendix C.6, new",
    text="A = phi (phi - gamma phi')^T, ||phi|| <= 1: E A^T A <= (1 + gamma) sym(Abar).",
    latex=r"\mathbb{E}[A^\top A]\preceq(1+\gamma)\,{\rm sym}\,\bar A",
    kind="upper",
    space=chain_space("n", {"x": rc.sphere("d")}, sizes={"n": (1, 2)}),
    measure=lambda s: bellman.moment_form(s, bellman.moment_factor(s)),
    derivation="With q = E (phi^T x)^2 = E (phi'^T x)^2 and c = E (phi^T x)(phi'^T x) >= -q, the "
    "left form is at most (1 + gamma^2) q - 2 gamma c, the right one is (1 + gamma)(q - gamma c), "
    "and the difference is gamma (1 - gamma)(q + c).",
)

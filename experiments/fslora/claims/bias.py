"""FSLoRA, Section 3.1: the loss under a sketch, and where f^S is smallest."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import ratecheck as rc
from experiments.fslora.claims._spaces import least_squares, ranks
from experiments.fslora.theory import bias as at

DEVICES = least_squares()


def _below(*, A: Any, k: Any, **others: Any) -> SimpleNamespace:
    return SimpleNamespace(A=A, k=ranks(k, A.shape[-2] - 1), **others)


CONVEX = rc.Space(
    fields={
        "B": rc.reals("m", "r", magnitude=(0.1, 10.0)),
        "A": rc.reals("r", "n", magnitude=(0.1, 10.0)),
        "o": rc.reals("m", "n", magnitude=(0.1, 10.0)),
        "k": rc.whole_numbers(low=1, high=3),
        "L": rc.positive(low=0.1, high=10.0),
        "share": rc.interval(low=0.01),
    },
    sizes={"m": (1, 2), "n": (1, 2), "r": (2, 4)},
    view=_below,
    batched=True,
    meaning={
        "o": "l is the sum over entries w of W of (a/2)(w - o)^2, a = L above o, mu below",
        "k": "k; more than r - 1 is r - 1",
        "share": "mu over L",
    },
)


def _spread(instance: Any) -> Any:
    """E||B(S - I)A||^2."""
    return at.product_variance(instance.B, instance.A, instance.k)


def _target(*, first: Any, share: Any, k: Any) -> SimpleNamespace:
    """Two singular values of a target, the smaller one above c times the larger one."""
    c = at.coupling(k, 4)
    return SimpleNamespace(first=first, second=first * (c + (1 - c) * share), k=k)


TARGETS = rc.Space(
    fields={
        "first": rc.positive(low=0.1, high=10.0),
        "share": rc.interval(),
        "k": rc.whole_numbers(low=1, high=4),
    },
    view=_target,
    batched=True,
    meaning={
        "first": "the larger singular value of W* - W0",
        "share": "where the smaller one lies between c and 1 times the larger one",
    },
)

LOSS_BIAS = rc.Claim(
    id="fslora.loss_bias",
    source="FSLoRA, Section 3.1: sketches as an unbiased estimate",
    text="E l(W0 + BSA) = l(W0 + BA), so that f^S is f.",
    latex=r"\mathbb E\,\ell(W_0+BSA)=\ell(W_0+BA)",
    kind="identity",
    space=DEVICES,
    measure=lambda s: at.loss_bias(s.devices),
    expect="violated",
    note="The paper says it of W0 + BSA, for which it is true; of the loss it would be needed to "
    "read Theorem 4.4, about grad f^S, as one about (1). By Jensen's inequality f^S >= f for every "
    "convex loss. r = 2, k = 1, W0 = 0, target 1, B_1 = A_1 = 1, all else zero: W is 2 or 0, f^S = "
    "1/2 and f = 0.",
    corrected="fslora.loss_bias_corrected",
    main=True,
)
LOSS_BIAS_CORRECTED = rc.Claim(
    id="fslora.loss_bias_corrected",
    source="FSLoRA, Section 3.1, corrected for least squares",
    text="f_i^S = f_i + (1/2) sum_jl Cov(S_jj, S_ll) (B'B)_jl (A M_i A')_jl.",
    latex=r"f_i^{\mathcal S}=f_i+\tfrac12\sum_{j,l}\operatorname{Cov}(S_{jj},S_{ll})"
    r"(B^\top B)_{jl}(AM_iA^\top)_{jl}",
    kind="identity",
    space=DEVICES,
    measure=lambda s: at.loss_bias_corrected(s.devices),
    derivation="S = I + D with E D = 0: the linear term of the loss in D has mean zero, the "
    "quadratic one is E||B D A x||^2 / 2.",
)
LOSS_BIAS_SMOOTH = rc.Claim(
    id="fslora.loss_bias_smooth",
    source="FSLoRA, Section 3.1, corrected for smooth losses",
    text="f^S - f <= (L/2) V with V = E||B(S - I)A||^2, for a loss of W that is L-smooth.",
    latex=r"f^{\mathcal S}-f\le\tfrac L2V,\quad V=\mathbb E\|B(S-I)A\|^2",
    kind="upper",
    space=CONVEX,
    measure=lambda s: at.loss_bias_smooth(s.B, s.A, s.k, s.o, s.L, s.share),
    derivation="l(W + E) - l(W) - <grad l(W), E> <= (L/2) ||E||^2 and E[B(S - I)A] = 0. Attained "
    "by quadratics.",
)
LOSS_BIAS_STRONG = rc.Claim(
    id="fslora.loss_bias_strong",
    source="FSLoRA, Section 3.1, corrected for strongly convex losses",
    text="f^S - f >= (mu/2) V for a loss of W that is mu-strongly convex: positive unless all BSA "
    "agree.",
    latex=r"f^{\mathcal S}-f\ge\tfrac\mu2V",
    kind="lower",
    space=replace(CONVEX, given={"the products BSA differ": lambda s: _spread(s) > 1e-6}),
    measure=lambda s: at.loss_bias_strong(s.B, s.A, s.k, s.o, s.L, s.share),
    derivation="l(W + E) - l(W) - <grad l(W), E> >= (mu/2) ||E||^2. Attained by quadratics.",
)
LOSS_BIAS_NUCLEAR = rc.Claim(
    id="fslora.loss_bias_nuclear",
    source="FSLoRA, Section 3.1: what the sketch penalises",
    text="f_i^S - f_i >= (c/2s) (||BA x'||_*^2 - ||BA x'||^2), c = (r/k - 1)/(r - 1), x' the "
    "inputs: what is left of the penalty after a choice of the factors of BA.",
    latex=r"f_i^{\mathcal S}-f_i\ge\frac c{2s}\big(\|BAx'\|_*^2-\|BAx'\|^2\big),\quad "
    r"c=\frac{r/k-1}{r-1}",
    kind="lower",
    space=least_squares(
        sizes={"N": (1, 1), "s": (2, 2), "m": (2, 2), "n": (2, 2), "r": (2, 3)},
        given={"BA x has rank two and k < r": lambda s: at.nuclear_bound(s.devices)[1] > 1e-6},
    ),
    measure=lambda s: at.nuclear_bound(s.devices),
    derivation="The penalty is (c/2s) (r sum_j ||B_j||^2 ||A_j x'||^2 - ||BA x'||^2), and r sum "
    "p_j^2 >= (sum p_j)^2 >= ||BA x'||_*^2 with p_j = ||B_j|| ||A_j x'||. Attained by balanced "
    "factors whose components have one length; a rotation of any factors makes them so if all "
    "devices have the same inputs. Zero exactly if all B_j A_j x' are alike, and then BA x' has "
    "rank one.",
)
MINIMUM = rc.Claim(
    id="fslora.minimum",
    source="FSLoRA, Section 3.1: the minimum of f^S",
    text="f_i^S(B, A) >= min over sigma >= 0 of (1/2s) (sum (sigma - t)^2 + c ((sum sigma)^2 - sum "
    "sigma^2)), t the singular values of the residuals; for k = 1 the error of the best product of "
    "rank one, whatever r is.",
    latex=r"f_i^{\mathcal S}\ge\frac1{2s}\min_{\sigma\ge0}\sum_j(\sigma_j-t_j)^2+c\Big("
    r"\big(\sum_j\sigma_j\big)^2-\sum_j\sigma_j^2\Big)",
    kind="lower",
    space=DEVICES,
    measure=lambda s: at.minimum(s.devices),
    note="With t = (1, 1) and r = 2, k = 1 the minimum of f^S is 1/2 while f has minimum 0: no "
    "training of f^S reaches f. Where W* - W0 has rank one, as for one input and one output, equal "
    "components attain f^S = f = 0: nothing shrinks there. Minimisers keep the singular vectors "
    "and shrink the values by a common threshold, sigma = (t - c sum sigma)_+ / (1 - c).",
    derivation="fslora.loss_bias_nuclear and von Neumann's <d, BA x'> >= -sum sigma t.",
)
MINIMUM_ATTAINED = rc.Claim(
    id="fslora.minimum_attained",
    source="FSLoRA, Section 3.1: minimisers of f^S",
    text="That minimum is attained: r = 4, M = I, factors balanced over four equal components.",
    latex=r"B=U\sqrt\Sigma\,R,\ A=R^\top\sqrt\Sigma\,V^\top,\ \|B_j\|=\|A_j\|",
    kind="identity",
    space=TARGETS,
    measure=lambda s: at.minimum_attained(s.first, s.second, s.k),
    derivation="fslora.minimum with equality in each step.",
)
STATIONARY = rc.Claim(
    id="fslora.stationary",
    source="FSLoRA, Section 4: a stationary point of (2) as a solution",
    text="At that minimiser grad f^S = 0 and ||grad f|| = sqrt(2 c^2 sigma_1 sigma_2 (sigma_1 + "
    "sigma_2)).",
    latex=r"\nabla f^{\mathcal S}=0,\quad\|\nabla f\|^2=2c^2\sigma_1\sigma_2(\sigma_1+\sigma_2)",
    kind="identity",
    space=TARGETS,
    measure=lambda s: at.stationary(s.first, s.second, s.k),
    note="grad f is not small where grad f^S is: t = (1, 1), k = 2 has c = 1/3, sigma = 3/4 and "
    "||grad f||^2 = 3/16 at a global minimum of f^S, and more where A and B differ in length. "
    "For k = 1 the minimisers have rank one and are saddles of f.",
    derivation="grad f = ((BA - W*)A', B'(BA - W*)), and t - sigma = c (sum sigma - sigma).",
)
GRADIENT_BIAS = rc.Claim(
    id="fslora.gradient_bias",
    source="FSLoRA, Section 4: what a small grad f^S says of grad f",
    text="||grad f_i^S - grad f_i|| <= (r/k_i - 1) (r/(r - 1)) ||M_i|| sqrt(||B||^2 a^4 + ||A||^2 "
    "b^4), a the longest row of A and b the longest column of B.",
    latex=r"\|\nabla f_i^{\mathcal S}-\nabla f_i\|\le\Big(\frac r{k_i}-1\Big)\frac r{r-1}\|M_i\|"
    r"\sqrt{\|B\|^2a^4+\|A\|^2b^4}",
    kind="upper",
    space=least_squares(sizes={"r": (2, 3), "N": (1, 1)}),
    measure=lambda s: at.gradient_bias(s.devices),
    derivation="The penalty's gradient is (B (Cov o AMA'), (Cov o B'B) A M) with Cov = c (r I - "
    "11'), and 0 <= r diag(K) - K <= r diag(K) for a positive semidefinite K of size r. Attained "
    "by A_j all alike and B_j that sum to zero.",
)
K_MONOTONE_LOSS = rc.Claim(
    id="fslora.k_monotone_loss",
    source="FSLoRA, Section 4, discussion: what k does to the objective",
    text="f_i^S of rank k + 1 is at most that of rank k, for every convex loss.",
    latex=r"f^{\mathcal S(r,k+1)}\le f^{\mathcal S(r,k)}",
    kind="upper",
    space=CONVEX,
    measure=lambda s: at.k_monotone_loss(s.B, s.A, s.k, s.o, s.L, s.share),
    derivation="A uniform subset of size k of I' averages to the sketch of I': E[S_k | I'] = "
    "S_{k+1}, and Jensen's inequality.",
)

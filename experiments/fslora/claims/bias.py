"""FSLoRA, Section 3.1: the loss under a sketch, and where f^S is smallest."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.fslora.claims._spaces import least_squares, ranks
from experiments.fslora.paper import PAPER
from experiments.fslora.theory import bias as at
from experiments.fslora.theory.sketching import Devices, sketches
from experiments.fslora.theory.steps import covariances
from linsys.linalg import Numbers, norm, operator_norm, squares, stretch, transpose

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


def _target(*, two: Any, gap: Any, k: Any) -> SimpleNamespace:
    """The two singular values of the target of a product with the singular values two + gap, two.

    :func:`experiments.fslora.theory.bias.least` goes the other way.
    """
    c, one = at.coupling(k, 4), two + gap
    return SimpleNamespace(first=one + c * two, second=two + c * one, k=k)


TARGETS = rc.Space(
    fields={
        "two": rc.interval(high=10.0),
        "gap": rc.interval(high=10.0),
        "k": rc.whole_numbers(low=1, high=4),
    },
    view=_target,
    batched=True,
    meaning={
        "two": "the smaller singular value of BA; for k = 1 BA has only one, which is gap + 2 two",
        "gap": "how far the larger one is above it",
    },
    constructed="minimisers of f^S with four components of one length, for inputs with M = I",
)


def penalties(devices: Devices) -> Numbers:
    """(1/2) sum_jl Cov(S_jj, S_ll) (B'B)_jl (A M_i A')_jl, shape (B', N)."""
    B, A = devices.B[:, None], devices.A[:, None]
    outer, inner = transpose(B) @ B, A @ devices.M @ transpose(A)
    return np.asarray((covariances(devices.k, devices.r) * outer * inner).sum(axis=(-2, -1)) / 2)


def _gap_and_variance(
    B: Numbers, A: Numbers, k: Numbers, o: Numbers, L: Numbers, share: Numbers
) -> rc.Sides:
    """f^S - f for :func:`kinked` losses, and :func:`product_variance`, both (B',)."""
    S, chance = sketches(k, A.shape[-2])
    sketched = (chance * kinked(B[:, None], S, A[:, None], o[:, None], L, share)).sum(axis=-1)
    plain = kinked(B[:, None], 1 + 0 * S[:, :1], A[:, None], o[:, None], L, share)[:, 0]
    return sketched - plain, at.product_variance(B, A, k)


def kinked(B: Numbers, S: Numbers, A: Numbers, o: Numbers, L: Numbers, share: Numbers) -> Numbers:
    """A mu-strongly convex, L-smooth loss at W = B S A, S (B', K, r): shape (B', K).

    It is the sum over the entries w of W of (a/2) (w - o)^2, a = L above o and mu = share L below.
    """
    apart = B @ (S[..., None] * A) - o
    slant = np.where(apart > 0, apart * apart, share[:, None, None, None] * apart * apart)
    return np.asarray(L[:, None] * slant.sum(axis=(-2, -1)) / 2)


_EVEN = np.array([[1, 1, 1, 1], [1, -1, 1, -1]])


def minimiser(first: Numbers, second: Numbers, k: Numbers) -> Devices:
    """A minimiser of f^S of rank 4 for one device with W0 - W* = -diag(first, second), M = I.

    The factors are balanced, and each of the four components has the same length. Of four inputs
    two are zero, so that the singular values of the residuals are rational, 2 first and 2 second.
    """
    one, two = at.least(first, second, at.coupling(k, 4))
    roots = np.sqrt(np.stack([one, two], axis=-1))
    B = roots[..., None] * _EVEN / 2
    x = np.array([[2, 0], [0, 2], [0, 0], [0, 0]]) + 0 * first[:, None, None]
    d = -x * np.stack([first, second], axis=-1)[:, None]
    return Devices(x=x[:, None], d=d[:, None], B=B, A=transpose(B), k=k[:, None])


def nuclear(P: Numbers) -> Numbers:
    """The sum of the singular values of each matrix (..., p, q)."""
    return np.asarray(np.trace(stretch(at.square(P)), axis1=-2, axis2=-1))


@PAPER.identity(
    "loss_bias",
    ref="Section 3.1: sketches as an unbiased estimate",
    tex=r"\mathbb E\,\ell(W_0+BSA)=\ell(W_0+BA)",
    on=DEVICES,
    expect="violated",
    note="The paper says it of W0 + BSA, for which it is true; of the loss it would be needed to "
    "read Theorem 4.4, about grad f^S, as one about (1). By Jensen's inequality f^S >= f for every "
    "convex loss. r = 2, k = 1, W0 = 0, target 1, B_1 = A_1 = 1, all else zero: W is 2 or 0, f^S = "
    "1/2 and f = 0.",
    corrected="loss_bias_corrected",
    main=True,
    printed_as="ours",
)
def loss_bias(devices: Devices) -> rc.Sides:
    """E l(W0 + BSA) = l(W0 + BA), so that f^S is f."""
    return devices.sketched_losses, devices.losses


@PAPER.identity(
    "loss_bias_corrected",
    ref="Section 3.1, corrected for least squares",
    tex=r"f_i^{\mathcal S}=f_i+\tfrac12\sum_{j,l}\operatorname{Cov}(S_{jj},S_{ll})"
    r"(B^\top B)_{jl}(AM_iA^\top)_{jl}",
    on=DEVICES,
    derivation="S = I + D with E D = 0: the linear term of the loss in D has mean zero, the "
    "quadratic one is E||B D A x||^2 / 2.",
)
def loss_bias_corrected(devices: Devices) -> rc.Sides:
    """f_i^S = f_i + (1/2) sum_jl Cov(S_jj, S_ll) (B'B)_jl (A M_i A')_jl, M_i = E xx' of device i's
    data.
    """
    return devices.sketched_losses, devices.losses + penalties(devices)


@PAPER.upper(
    "loss_bias_smooth",
    ref="Section 3.1, corrected for smooth losses",
    tex=r"f^{\mathcal S}-f\le\tfrac L2V,\quad V=\mathbb E\|B(S-I)A\|^2",
    on=CONVEX,
    printed_as="ours",
    derivation="l(W + E) - l(W) - <grad l(W), E> <= (L/2) ||E||^2 and E[B(S - I)A] = 0. Attained "
    "by quadratics.",
)
def loss_bias_smooth(
    B: Numbers, A: Numbers, k: Numbers, o: Numbers, L: Numbers, share: Numbers
) -> rc.Sides:
    """f^S - f <= (L/2) V with V = E||B(S - I)A||^2, for a loss of W that is L-smooth."""
    gap, V = _gap_and_variance(B, A, k, o, L, share)
    return gap, L * V / 2


@PAPER.lower(
    "loss_bias_strong",
    ref="Section 3.1, corrected for strongly convex losses",
    tex=r"f^{\mathcal S}-f\ge\tfrac\mu2V",
    on=replace(CONVEX, given={"the products BSA differ": lambda s: _spread(s) > 1e-6}),
    printed_as="ours",
    derivation="l(W + E) - l(W) - <grad l(W), E> >= (mu/2) ||E||^2. Attained by quadratics.",
)
def loss_bias_strong(
    B: Numbers, A: Numbers, k: Numbers, o: Numbers, L: Numbers, share: Numbers
) -> rc.Sides:
    """f^S - f >= (mu/2) V for a loss of W that is mu-strongly convex: positive unless all BSA
    agree.
    """
    gap, V = _gap_and_variance(B, A, k, o, L, share)
    return gap, share * L * V / 2


def _nuclear_sides(devices: Devices) -> rc.Sides:
    """f_i^S - f_i and what the choice of factors leaves of the penalty, shape (B', N)."""
    seen = (devices.B @ devices.A)[:, None] @ transpose(devices.x)
    bound = at.coupling(devices.k, devices.r) * (nuclear(seen) ** 2 - squares(seen))
    return devices.sketched_losses - devices.losses, bound / (2 * devices.x.shape[-2])


@PAPER.lower(
    "loss_bias_nuclear",
    ref="Section 3.1: what the sketch penalises",
    tex=r"f_i^{\mathcal S}-f_i\ge\frac c{2s}\big(\|BAx'\|_*^2-\|BAx'\|^2\big),\quad "
    r"c=\frac{r/k-1}{r-1}",
    on=least_squares(
        sizes={"N": (1, 1), "s": (2, 2), "m": (2, 2), "n": (2, 2), "r": (2, 3)},
        given={"BA x has rank two and k < r": lambda s: _nuclear_sides(s.devices)[1] > 1e-6},
    ),
    printed_as="ours",
    derivation="The penalty is (c/2s) (r sum_j ||B_j||^2 ||A_j x'||^2 - ||BA x'||^2), and r sum "
    "p_j^2 >= (sum p_j)^2 >= ||BA x'||_*^2 with p_j = ||B_j|| ||A_j x'||. Attained by balanced "
    "factors whose components have one length; a rotation of balanced factors gives them one, for "
    "all devices at once if all have the same inputs. For k < r zero exactly if all B_j A_j x' "
    "are alike, and then BA x' has at most rank one.",
)
def loss_bias_nuclear(devices: Devices) -> rc.Sides:
    """f_i^S - f_i >= (c/2s) (||BA x'||_*^2 - ||BA x'||^2), c = (r/k - 1)/(r - 1), x' the inputs:
    what is left of the penalty after a choice of the factors of BA.
    """
    return _nuclear_sides(devices)


@PAPER.lower(
    "minimum",
    ref="Section 3.1: the minimum of f^S",
    tex=r"f_i^{\mathcal S}\ge\frac1{2s}\min_{\sigma\ge0}\sum_j(\sigma_j-t_j)^2+c\Big("
    r"\big(\sum_j\sigma_j\big)^2-\sum_j\sigma_j^2\Big)",
    on=DEVICES,
    note="For M = I, r = 2, k = 1 and W* - W0 with the singular values (1, 1) the minimum of f^S "
    "is 1/2 while f has minimum 0: no training of f^S reaches f. Where W* - W0 has rank one, as "
    "for one input and one output, equal components attain f^S = f = 0: nothing shrinks there. "
    "For c < 1 and M = I minimisers keep the singular vectors and shrink the values by a common "
    "threshold, sigma = (t - c sum sigma)_+ / (1 - c).",
    printed_as="ours",
    uses=["loss_bias_nuclear"],
    derivation="fslora.loss_bias_nuclear and von Neumann's <d, BA x'> >= -sum sigma t.",
)
def minimum(devices: Devices) -> rc.Sides:
    """f_i^S(B, A) >= min over sigma >= 0 of (1/2s) (sum (sigma - t)^2 + c ((sum sigma)^2 - sum
    sigma^2)), t the singular values of the residuals of s samples, c = (r/k - 1)/(r - 1), 0 for
    r = 1; for k = 1 < r it is the error of their best approximation of rank one, whatever r is.

    The singular values of d (s, m) are t_1 >= t_2, and the bound is
    (t_1^2 + t_2^2 - t_1 sigma_1 - t_2 sigma_2) / 2s.
    """
    d = devices.d
    first = operator_norm(at.square(d))
    rest = squares(d) - first**2
    second = np.sqrt(np.maximum(rest, 0 * rest))
    one, two = at.least(first, second, at.coupling(devices.k, devices.r))
    bound = (squares(d) - first * one - second * two) / (2 * d.shape[-2])
    return devices.sketched_losses, bound


@PAPER.identity(
    "minimum_attained",
    ref="Section 3.1: minimisers of f^S",
    tex=r"B=U\sqrt\Sigma\,R,\ A=R^\top\sqrt\Sigma\,V^\top,\ \|B_j\|=\|A_j\|=\|B_1\|",
    on=TARGETS,
    printed_as="ours",
    uses=["minimum"],
    derivation="fslora.minimum with equality in each step.",
)
def minimum_attained(first: Numbers, second: Numbers, k: Numbers) -> rc.Sides:
    """The bound of fslora.minimum is attained: r = 4, M = I, factors balanced over four equal
    components.
    """
    return minimum(minimiser(first, second, k))


@PAPER.identity(
    "stationary",
    ref="Section 4: a stationary point of (2) as a solution",
    tex=r"\nabla f^{\mathcal S}=0,\quad\|\nabla f\|^2=2c^2\sigma_1\sigma_2(\sigma_1+\sigma_2)",
    on=TARGETS,
    note="grad f is not small where grad f^S is. With t the singular values of W* - W0, t = (1, "
    "1) and k = 2 have c = 1/3, sigma = 3/4 and ||grad f||^2 = 3/16 at a global minimum of f^S, "
    "and more where A and B differ in length. "
    "For k = 1, so c = 1, and t_1 > t_2 > 0 the minimisers have rank one and are saddles of f; for "
    "t_1 = t_2 there are others: t = (1, 1), B = [[1, 1, 0, 0], [0, 0, 1, 1]]/2 and A = B' have "
    "sigma = (1/2, 1/2) and ||grad f||^2 = 1/2.",
    printed_as="ours",
    derivation="grad f = ((BA - W*)A', B'(BA - W*)), and t - sigma = c (sum sigma - sigma).",
)
def stationary(first: Numbers, second: Numbers, k: Numbers) -> rc.Sides:
    """At the minimiser of f^S of fslora.minimum_attained, BA having the singular values sigma_1 and
    sigma_2, grad f^S = 0 and ||grad f|| = sqrt(2 c^2 sigma_1 sigma_2 (sigma_1 + sigma_2)), c =
    (r/k - 1)/(r - 1).

    The second pair says that grad f^S is zero there: grad f, and grad f - grad f^S.
    """
    devices = minimiser(first, second, k)
    c = at.coupling(k, 4)
    one, two = at.least(first, second, c)
    plain, sketched = devices.gradients[:, 0], devices.sketched_gradients[:, 0]
    size = norm(plain)[:, None]
    expected = np.sqrt(2 * c**2 * one * two * (one + two))[:, None]
    return (
        np.concatenate([size, plain], axis=1),
        np.concatenate([expected, plain - sketched], axis=1),
    )


@PAPER.upper(
    "gradient_bias",
    ref="Section 4: what a small grad f^S says of grad f",
    tex=r"\|\nabla f_i^{\mathcal S}-\nabla f_i\|\le\Big(\frac r{k_i}-1\Big)\frac r{r-1}\|M_i\|"
    r"\sqrt{\|B\|^2a^4+\|A\|^2b^4}",
    on=least_squares(sizes={"r": (2, 3), "N": (1, 1)}),
    printed_as="ours",
    derivation="The penalty's gradient is (B (Cov o AMA'), (Cov o B'B) A M) with Cov = c (r I - "
    "11'), and 0 <= r diag(K) - K <= r diag(K) for a positive semidefinite K of size r. Attained "
    "by A_j all alike and B_j of one length that sum to zero, for M a multiple of I.",
)
def gradient_bias(devices: Devices) -> rc.Sides:
    """For least squares, ||grad f_i^S - grad f_i|| <= (r/k_i - 1) (r/(r - 1)) ||M_i|| sqrt(||B||^2
    a^4 + ||A||^2 b^4), a and b the lengths of the longest row of A and of the longest column of B,
    ||M_i|| the operator norm of M_i = E xx' of device i's data.

    c is :func:`coupling`; a and b are the largest lengths of a row of A and of a column of B.
    """
    B, A = devices.B, devices.A
    a, b = norm(A).max(axis=-1), norm(transpose(B)).max(axis=-1)
    reach = np.sqrt(squares(B) * a**4 + squares(A) * b**4)[:, None]
    factor = at.coupling(devices.k, devices.r) * devices.r * operator_norm(devices.M)
    return norm(devices.sketched_gradients - devices.gradients), factor * reach


@PAPER.upper(
    "k_monotone_loss",
    ref="Section 4, discussion: what k does to the objective",
    tex=r"f^{\mathcal S(r,k+1)}\le f^{\mathcal S(r,k)}",
    on=CONVEX,
    printed_as="ours",
    derivation="A uniform subset of size k of I' averages to the sketch of I': E[S_k | I'] = "
    "S_{k+1}, and Jensen's inequality.",
)
def k_monotone_loss(
    B: Numbers, A: Numbers, k: Numbers, o: Numbers, L: Numbers, share: Numbers
) -> rc.Sides:
    """f_i^S of rank k + 1 is at most that of rank k, for every convex loss."""
    sides = []
    for rank in (k + 1, k):
        S, chance = sketches(rank, A.shape[-2])
        each = kinked(B[:, None], S, A[:, None], o[:, None], L, share)
        sides.append((chance * each).sum(axis=-1))
    return sides[0], sides[1]

"""P-ShareLoRA, Appendix B.1 and the first half of B.2: likelihoods, subspaces, rewards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.psharelora.paper import PAPER
from experiments.psharelora.theory import proof as at
from experiments.psharelora.theory.preference import slope
from experiments.psharelora.theory.proof import Shared
from experiments.psharelora.theory.subspace import frobenius, inner
from linsys.linalg import Numbers, logistic

_SIZE = (0.1, 10.0)
#: Delta Theta* by its singular value decomposition.
USERS: dict[str, rc.Field] = {
    "raw_U": rc.reals("d1", "d1", magnitude=_SIZE),
    "raw_V": rc.reals("N", "d2", "N", "d2", magnitude=_SIZE),
    "gaps": rc.positive("d1", low=0.01, high=10.0),
    "k": rc.whole_numbers(low=1, high=2),
}
MEANING = {
    "raw_U": "Cayley's rotation of it has the left singular vectors of Delta Theta*",
    "raw_V": "the same of the right ones",
    "gaps": "sigma_j - sigma_(j+1)",
    "k": "k, cut to min(d1, N d2)",
}
SIZES = {"N": (1, 2), "d1": (1, 2), "d2": (1, 2)}


def users(*, raw_U: Any, raw_V: Any, gaps: Any, k: Any, **others: Any) -> SimpleNamespace:
    """The users that the first four fields describe, and the other fields unchanged."""
    return SimpleNamespace(users=Shared(raw_U, raw_V, gaps, k), **others)


def _learned(*, raw_B: Any, W: Any, **others: Any) -> SimpleNamespace:
    """With Theta = B W of rank k for a basis B."""
    system = users(**others)
    system.Theta = (at.orthogonal(raw_B) * system.users.held[:, None])[:, None] @ W
    return system


LIKELIHOOD = rc.Space(
    fields={
        **USERS,
        "psi0": rc.reals("N", "n", "d1", "d2", magnitude=_SIZE),
        "psi1": rc.reals("N", "n", "d1", "d2", magnitude=_SIZE),
        "o": rc.whole_numbers("N", "n", low=0, high=1),
        "raw_B": rc.reals("d1", "d1", magnitude=_SIZE),
        "W": rc.reals("N", "d1", "d2", magnitude=_SIZE),
        "size": rc.positive(low=1e-6, high=10.0),
    },
    sizes={**SIZES, "n": (1, 3)},
    view=_learned,
    given={
        "explains the labels as well as Theta_diamond": lambda s: at.not_worse(
            s.users, s.psi0 - s.psi1, s.o, s.Theta
        )
    },
    batched=True,
    meaning={
        **MEANING,
        "psi0": "features of the first trajectory of a comparison",
        "psi1": "of the second one",
        "o": "labels",
        "raw_B": "Cayley's rotation of it has the learned basis",
        "W": "the learned W_i, the rows after the k-th one unused",
        "size": "log(N_G / delta)",
    },
)


@PAPER.upper(
    "B1_chain",
    ref="Appendix B.1, the display after 'Therefore, it follows that', and C.2",
    tex=r"\sum_{i,j}\log\frac{P_{r^\star_i}}{P_{r_i}}\le\log\frac{N_G}\delta"
    r"+2LL_1N_p\sqrt{N\Sigma_{tail}}",
    on=LIKELIHOOD,
    note="R(D), which the text does not define, is read as the set of all r that explain the "
    "labels as well as r_diamond. The bound then holds with probability one and without its first "
    "term, by Lemma 4 and that reading, so that Lemma 1, which is false for a class within one "
    "bracket, is not needed. For Theta_init = 0 Theta_diamond is feasible (psl.B1_chain_feasible); "
    "for other Theta_init see psl.S_sets_ball. Searched with linear rewards and Theta_init = 0.",
    uses=["lemma_1", "lemma_4"],
)
def B1_chain(
    users: at.Shared, psi0: Numbers, psi1: Numbers, o: Numbers, Theta: Numbers, size: Numbers
) -> rc.Sides:
    """sum_i sum_j log(P_r* / P_r) <= log(N_G / delta) + c N_p sqrt(N Sigma_tail), c = 2 L L1 and L
    = 1 for the sigmoid, for every r that explains the labels as well as r_diamond.
    """
    x = psi0 - psi1
    measured = at.likelihood(users.delta, x, o) - at.likelihood(Theta, x, o)
    bias = 2 * at.lipschitz(psi0, psi1) * x.shape[2] * np.sqrt(users.N * users.tail)
    return measured, np.asarray(size + bias)


@PAPER.upper(
    "B1_chain_feasible",
    ref="Appendices B.1 and C.2: Theta_diamond in S_ShareLoRA",
    tex=r"\|\Theta^\diamond_i\|_F\le\|\Delta\Theta^\star_i\|_F",
    on=rc.Space(fields=USERS, sizes=SIZES, view=users, batched=True, meaning=MEANING),
    derivation="Theta_diamond_i = U_k U_k' Delta Theta*_i, an orthogonal projection.",
    printed_as="ours",
)
def B1_chain_feasible(users: Any) -> rc.Sides:
    """||Theta_diamond_i||_F <= B if ||Delta Theta*_i||_F <= B."""
    return (frobenius(users.best), frobenius(users.delta))


@PAPER.upper(
    "eq_B2",
    ref="equation (B.2), its first inequality",
    tex=r"\frac1N\sum_iE|\Delta r_i-\Delta r_i^\star|^2\le\frac{\kappa^2}N\sum_iE\|P_i-P^\star_i"
    r"\|_1^2,\ \kappa=\frac1{2\min_{|x|\le2R}\Phi'(x)}",
    on=rc.Space(
        fields={
            "Theta": rc.reals("N", "d1", "d2", magnitude=(0.1, 3.0)),
            "truth": rc.reals("N", "d1", "d2", magnitude=(0.1, 3.0)),
            "psi0": rc.reals("n", "d1", "d2", magnitude=(0.1, 3.0)),
            "psi1": rc.reals("n", "d1", "d2", magnitude=(0.1, 3.0)),
            "weight": rc.simplex("n"),
        },
        sizes={**SIZES, "n": (1, 3)},
        batched=True,
        meaning={"weight": "the chance of each pair of trajectories"},
    ),
    note="The mean value theorem, comparison by comparison: it rests on no lemma. The second "
    "inequality takes Lemma 3, which needs log(N_br/delta) twice (psl.lemma_3_corrected), so that "
    "C3 doubles at most. kappa grows like exp(2 R)/2: the constants of Theorem 4.1 are exponential "
    "in L1 B.",
    uses=["lemma_3", "B1_chain"],
)
def eq_B2(
    Theta: Numbers, truth: Numbers, psi0: Numbers, psi1: Numbers, weight: Numbers
) -> rc.Sides:
    """(1/N) sum E|Delta r_i - Delta r*_i|^2 <= (kappa^2/N) sum E||P_i - P*_i||_1^2 with kappa =
    1/(2 min Phi') over [-2R, 2R].
    """
    rewards = [inner(M[:, :, None], (psi0 - psi1)[:, None]) for M in (Theta, truth)]
    longest = np.maximum(frobenius(Theta), frobenius(truth)).max(axis=1)
    kappa = 1 / (2 * slope(2 * at.lipschitz(psi0, psi1) * longest))
    apart = (weight[:, None] * (rewards[0] - rewards[1]) ** 2).sum(axis=2).mean(axis=1)
    high, low = np.maximum(*rewards), np.minimum(*rewards)
    # ||P - P*||_1 is 2 (Phi(high) - Phi(low)), here without cancellation where both are near one
    chances = -2 * np.expm1(low - high) * logistic(high) * logistic(-low)
    return apart, kappa**2 * (weight[:, None] * chances**2).sum(axis=2).mean(axis=1)


_FEATURES = "features of both trajectories; the larger length is L1"
BENT = rc.Space(
    fields={
        "hat": rc.reals("p", magnitude=_SIZE),
        "diamond": rc.reals("p", magnitude=_SIZE),
        "psi": rc.reals(2, "p"),
        "R": rc.positive(),
    },
    sizes={"p": (1, 3)},
    batched=True,
    meaning={
        "hat": "vec of Theta_hat_i",
        "diamond": "vec of Theta_diamond_i",
        "psi": _FEATURES,
        "R": "of the reward R tanh(<Theta, psi>/R)",
    },
)


def _projected(*, truth: Any, across: Any, **others: Any) -> SimpleNamespace:
    """``diamond``, which is Theta*_i without its part along ``across``.

    So (4.1) has it for d2 = 1 and k = d1 - 1, with other users whose matrices are across that one
    and larger, and one whose matrix is Theta*_i with the part along ``across`` turned round.
    """
    size = (across * across).sum(axis=-1)
    along = (truth * across).sum(axis=-1) / np.where(size > 0, size, 1 + 0 * size)
    diamond = truth - along[..., None] * across
    return SimpleNamespace(truth=truth, diamond=diamond, across=across, **others)


def _projection(s: Any) -> Any:
    """Up to rounding."""
    along = np.abs((s.diamond * (s.truth - s.diamond)).sum(axis=-1))
    return along * 10**9 <= 1 + (s.truth * s.truth).sum(axis=-1)


PROJECTED = rc.Space(
    fields={
        "hat": rc.reals("p", magnitude=_SIZE),
        "truth": rc.reals("p", magnitude=_SIZE),
        "across": rc.reals("p", magnitude=_SIZE),
        "psi": rc.reals(2, "p"),
    },
    sizes={"p": (2, 3)},
    view=_projected,
    assumes={"Theta_diamond_i is a projection of Theta*_i": _projection},
    given={"a column is left out": lambda s: 100 * (s.across**2).sum(axis=-1) >= 1},
    batched=True,
    meaning={
        "hat": "Theta_hat_i, d2 = 1",
        "truth": "Theta*_i",
        "across": "the column that B_diamond lacks, k = d1 - 1",
        "psi": _FEATURES,
    },
)


def _L1(s: Any) -> Any:
    return np.sqrt((s.psi**2).sum(axis=-1).max(axis=-1))


@PAPER.upper(
    "eq_B3",
    ref="equation (B.3)",
    tex=r"|\Delta\hat r-\Delta r^\star|^2\le2|\Delta\hat r-\Delta r^\diamond|^2"
    r"+4L_1\|\Theta^\star-\Theta^\diamond\|_F^2",
    on=PROJECTED,
    expect="violated",
    note="A Lipschitz bound of 2 L1 ||.|| is squared as if it were 2 L1 ||.||^2: units do not "
    "agree. k = d2 = 1 and two users, Theta*_1 = (2, 0)', Theta*_2 = (0, 1)', so that "
    "Theta_diamond_2 = 0; features (0, 10)' and (0, -10)', Theta_hat_2 = (0, -1)': 1600 against "
    "840. True with 8 L1^2, which C8 can take in; it then grows like L1^2.",
    corrected="eq_B3_corrected",
    printed_as="proof step",
    family=[
        {
            "hat": [0.0, -1.0],
            "truth": [0.0, 1.0],
            "across": [0.0, 1.0],
            "psi": [[0.0, s], [0.0, -s]],
        }
        for s in (2.0, 10.0, 50.0)
    ],
)
def eq_B3(instance: Any) -> rc.Sides:
    """|Delta r_hat - Delta r*|^2 <= 2 |Delta r_hat - Delta r_diamond|^2 + 4 L1 ||Theta* -
    Theta_diamond||_F^2 (L of the display is the Lipschitz constant of r).
    """
    return at.eq_B3(instance.hat, instance.truth, instance.diamond, instance.psi, 4 * _L1(instance))


@PAPER.upper(
    "eq_B3_corrected",
    ref="equation (B.3), corrected",
    on=eq_B3.space,
    tex=r"|\Delta\hat r-\Delta r^\star|^2\le2|\Delta\hat r-\Delta r^\diamond|^2"
    r"+8L_1^2\|\Theta^\star-\Theta^\diamond\|_F^2",
    note="Attained by psi1 = -psi0 and equal steps.",
    derivation="(a + b)^2 <= 2 a^2 + 2 b^2 and |b| <= 2 L1 ||Theta* - Theta_diamond||.",
)
def eq_B3_corrected(instance: Any) -> rc.Sides:
    """|Delta r_hat - Delta r*|^2 <= 2 |Delta r_hat - Delta r_diamond|^2 + 8 L1^2 ||Theta* -
    Theta_diamond||_F^2, L1 the Lipschitz constant of r.
    """
    return at.eq_B3(
        instance.hat, instance.truth, instance.diamond, instance.psi, 8 * _L1(instance) ** 2
    )


def _b4(s: Any, printed: bool) -> tuple[Any, Any]:
    left, along, size, L1, L2 = at.eq_B4(s.hat, s.diamond, s.psi, s.R)
    if printed:
        return left, along + 16 * L1 * size**2
    return left, along + 2 * np.minimum(L2 * size**2, 4 * L1 * size) ** 2


@PAPER.upper(
    "eq_B4",
    ref="equation (B.4)",
    tex=r"|\Delta r^\diamond-\Delta\hat r|^2\le2|(\nabla r_{\hat\theta}(\tau_0)-\nabla "
    r"r_{\hat\theta}(\tau_1))^\top\delta|^2+16L_1\|\delta\|^2",
    on=BENT,
    expect="violated",
    note="|x| <= 2 L1 ||d|| is squared to 2 L1 ||d||^2 twice. r = tanh(theta psi), psi = (100, "
    "-100), theta from -0.04 to 0.04: the sides are 16.0 and 10.2. With squares it is 32 L1^2, a "
    "bound that does not get better as d does, unlike that by L2 in psl.eq_B4_corrected.",
    corrected="eq_B4_corrected",
    printed_as="proof step",
    family=[
        {"hat": [-0.04], "diamond": [0.04], "psi": [[100.0], [-100.0]], "R": 1.0},
    ],
)
def eq_B4(instance: Any) -> rc.Sides:
    """|Delta r_diamond - Delta r_hat|^2 <= 2 |(grad r_hat(tau0) - grad r_hat(tau1))' d|^2 + 16 L1
    ||d||^2, d = theta_diamond - theta_hat.
    """
    return _b4(instance, True)


@PAPER.upper(
    "eq_B4_corrected",
    ref="equation (B.4), corrected",
    on=eq_B4.space,
    tex=r"|\Delta r^\diamond-\Delta\hat r|^2\le2|(\nabla r_{\hat\theta}(\tau_0)-\nabla "
    r"r_{\hat\theta}(\tau_1))^\top\delta|^2+2\min(L_2\|\delta\|^2,4L_1\|\delta\|)^2",
    note="No second term for linear rewards.",
    derivation="Taylor's remainder of each reward is at most L2 ||d||^2 / 2, and 2 L1 ||d||; there "
    "are two, and (a + b)^2 <= 2 a^2 + 2 b^2.",
)
def eq_B4_corrected(instance: Any) -> rc.Sides:
    """|Delta r_diamond - Delta r_hat|^2 <= 2 |(grad r_hat(tau0) - grad r_hat(tau1))' d|^2 + 2
    min(L2 ||d||^2, 4 L1 ||d||)^2, d = theta_diamond - theta_hat.
    """
    return _b4(instance, False)

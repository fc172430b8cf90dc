"""P-ShareLoRA, Appendix D.1, Algorithms 2 to 4: which way their steps go."""

from __future__ import annotations

import numpy as np

import ratecheck as rc
from experiments.psharelora.paper import PAPER
from experiments.psharelora.theory.preference import log_logistic
from experiments.psharelora.theory.subspace import inner
from linsys.linalg import Numbers, logistic, squares, transpose

_SIZE = (0.1, 3.0)
STEPS = rc.Space(
    fields={
        "A": rc.reals("d1", "k", magnitude=_SIZE),
        "B": rc.reals("k", "d2", magnitude=_SIZE),
        "x": rc.reals("d1", "d2", magnitude=_SIZE),
        "o": rc.whole_numbers(low=0, high=1),
        "share": rc.interval(low=0.01, high=1.0),
    },
    sizes={"d1": (1, 2), "d2": (1, 2), "k": (1, 2)},
    given={"the reward depends on A": lambda s: squares(_by_A(s.B, s.x)) >= 0.0001},
    batched=True,
    meaning={
        "x": "the difference of features",
        "o": "the label",
        "share": "the learning rate as a share of 8/||x B'||_F^2",
    },
    credible={"share": (0.01, 0.5)},
)


def _by_A(B: Numbers, x: Numbers) -> Numbers:
    """The gradient of <A B, x> by A."""
    return np.asarray(x @ transpose(B))


def _risen(
    A: Numbers, B: Numbers, x: Numbers, o: Numbers, share: Numbers, sign: int
) -> tuple[Numbers, Numbers]:
    """What f gains by A + sign eta grad f, and eta ||grad f||^2."""
    along = _by_A(B, x)
    rate = 8 * share / squares(along)
    before = inner(A @ B, x)
    rest = o - logistic(before)
    gradient = rest[:, None, None] * along
    after = inner((A + sign * rate[:, None, None] * gradient) @ B, x)

    def f(reward: Numbers) -> Numbers:
        return np.asarray(o * log_logistic(reward) + (1 - o) * log_logistic(-reward))

    return f(after) - f(before), rate * squares(gradient)


@PAPER.lower(
    "algorithm_2",
    ref="Algorithms 2 to 4, the updates of A and B",
    tex=r"f(A_t-\eta_t\nabla_{A}f,B_t)\ge f(A_t,B_t),\quad f=\log P_\Theta(o|\tau_0,\tau_1)",
    on=STEPS,
    expect="violated",
    printed_as="misprint",
    note="The per-sample function is the log-likelihood, which (3.3) maximises, and all three "
    "algorithms step against its gradient. One parameter, A = 0, B = x = 1, o = 1: f = log Phi(A) "
    "has slope 1/2, so that A becomes -eta/2 and f falls. A sign: either f is minus the "
    "log-likelihood or the steps have a plus. Who implements the display learns the reverse "
    "preferences.",
    corrected="algorithm_2_corrected",
    family=[{"A": [[0.0]], "B": [[1.0]], "x": [[1.0]], "o": 1.0, "share": 0.1}],
)
def algorithm_2(A: Numbers, B: Numbers, x: Numbers, o: Numbers, share: Numbers) -> rc.Sides:
    """A step A <- A - eta grad_A f with f = log P_Theta(o | tau0, tau1) does not lower f, which is
    to be maximised; here for linear rewards, Theta = A B and eta <= 8/||x B'||_F^2; alike for B.
    """
    gain, size = _risen(A, B, x, o, share, -1)
    return gain, 0 * size


@PAPER.lower(
    "algorithm_2_corrected",
    ref="Algorithms 2 to 4, corrected: the updates of A and B",
    tex=r"f(A_t+\eta\nabla_{A}f,B_t)-f(A_t,B_t)\ge\eta\Big(1-\frac{\eta}8\|xB^\top\|_F^2\Big)"
    r"\|\nabla_Af\|_F^2",
    on=STEPS,
    derivation="f as a function of A has second derivatives between -||x B'||_F^2/4 and 0, as Phi' "
    "<= 1/4. Approached by small steps.",
)
def algorithm_2_corrected(
    A: Numbers, B: Numbers, x: Numbers, o: Numbers, share: Numbers
) -> rc.Sides:
    """A step A <- A + eta grad_A f raises f by eta (1 - eta ||x B'||_F^2/8) ||grad_A f||_F^2 or
    more, for linear rewards; alike for B.
    """
    gain, size = _risen(A, B, x, o, share, 1)
    return gain, (1 - share) * size

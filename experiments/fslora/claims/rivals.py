"""FSLoRA, Sections 2.2 and 5: how others join modules, communication, averages of the tables."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.fslora.claims._spaces import ranks
from experiments.fslora.theory import rivals as at
from linsys.sketching import FSLoRA, LeastSquares


def _cut(*, A: Any, k: Any, **others: Any) -> SimpleNamespace:
    return SimpleNamespace(A=A, k=ranks(k, A.shape[-2]), **others)


_RANKS = {"k": rc.whole_numbers("N", low=1, high=3)}
_SIZES = {"N": (1, 3), "m": (1, 2), "n": (1, 2), "r": (1, 3)}
_MEANING = {"k": "ranks k_i; more than r is r"}
EACH = rc.Space(
    fields={"B": rc.reals("N", "m", "r"), "A": rc.reals("N", "r", "n"), **_RANKS},
    sizes=_SIZES,
    view=_cut,
    batched=True,
    meaning=_MEANING,
)
ALIKE = rc.Space(
    fields={"B": rc.reals("m", "r"), "A": rc.reals("r", "n"), **_RANKS},
    sizes=_SIZES,
    view=_cut,
    batched=True,
    meaning=_MEANING,
)

HETEROLORA = rc.Claim(
    id="fslora.heterolora",
    source="FSLoRA, Section 2.2, HeteroLoRA",
    text="The average of modules padded with zeros has in component j the sum over the devices "
    "with k_i >= j, divided by N.",
    latex=r"\frac1N\sum_i\operatorname{pad}(B_i,A_i)",
    kind="identity",
    space=EACH,
    measure=lambda s: at.heterolora(s.B, s.A, s.k),
)
HETEROLORA_IDLE = rc.Claim(
    id="fslora.heterolora_idle",
    source="FSLoRA, Section 2.2: what zero padding costs",
    text="Devices that do not move still shrink component j of BA, by the squared share of devices "
    "with k_i >= j in every round.",
    latex=r"\bar B\bar A=\sum_j\Big(\frac{\#\{i:k_i\ge j\}}N\Big)^2B_jA_j",
    kind="identity",
    space=ALIKE,
    measure=lambda s: at.heterolora_idle(s.B, s.A, s.k),
    derivation="Both factors of component j are averages of equal entries and zeros.",
)
HETEROLORA_PRODUCT = rc.Claim(
    id="fslora.heterolora_product",
    source="FSLoRA, Section 2.2: averages of factors as averages of updates",
    text="The product of the averages of B_i and of A_i is the average of the products B_i A_i.",
    latex=r"\bar B\bar A=\frac1N\sum_iB_iA_i",
    kind="identity",
    space=EACH,
    measure=lambda s: at.separate(s.B, s.A, s.k),
    expect="violated",
    note="Not stated in the paper; what FlexLoRA and FedStackLoRA avoid and HeteroLoRA does not. "
    "Two devices of rank one with B = 1, A = 1 and B = -1, A = -1: 0 against 1. FSLoRA (5) "
    "averages factors as well.",
    corrected="fslora.stack",
)
FLEXLORA = rc.Claim(
    id="fslora.flexlora",
    source="FSLoRA, Section 2.2, FlexLoRA",
    text="No product of rank one is nearer to P = (1/N) sum B_i A_i than its truncated singular "
    "value decomposition: ||P - ba'||^2 + sigma_1^2 >= ||P||^2.",
    latex=r"\|P-ba^\top\|_F^2+\sigma_1(P)^2\ge\|P\|_F^2",
    kind="lower",
    space=rc.Space(
        fields={**EACH.fields, "b": rc.reals("m"), "a": rc.reals("n")},
        sizes={**_SIZES, "m": (2, 3), "n": (2, 3)},
        view=_cut,
        batched=True,
        meaning={**_MEANING, "b": "any vector", "a": "any vector"},
    ),
    measure=lambda s: at.flexlora(s.B, s.A, s.k, s.b, s.a),
)
FLEXLORA_TRUNCATION = rc.Claim(
    id="fslora.flexlora_truncation",
    source="FSLoRA, Section 2.2, FlexLoRA: the error of its truncation",
    text="||P - P v v'||^2 + sigma_1^2 = ||P||^2, v the first right singular vector.",
    latex=r"\|P-Pvv^\top\|_F^2+\sigma_1(P)^2=\|P\|_F^2",
    kind="identity",
    space=rc.Space(
        fields=EACH.fields,
        sizes={**_SIZES, "m": (2, 2), "n": (2, 2)},
        view=_cut,
        batched=True,
        meaning=_MEANING,
    ),
    measure=lambda s: at.flexlora_truncation(s.B, s.A, s.k),
    derivation="Pythagoras: ||P||^2 = ||P - P v v'||^2 + ||P v||^2.",
)
STACK = rc.Claim(
    id="fslora.stack",
    source="FSLoRA, Section 2.2, FedStackLoRA",
    text="[B_1, .., B_N] [A_1; ..; A_N] / N = (1/N) sum B_i A_i.",
    latex=r"\frac1N[B_1,\dots,B_N]\begin{bmatrix}A_1\\\vdots\\A_N\end{bmatrix}=\frac1N\sum_iB_iA_i",
    kind="identity",
    space=EACH,
    measure=lambda s: at.stack(s.B, s.A, s.k),
)


def _uploads(instance: Any) -> tuple[Any, Any]:
    """Numbers that a round of FSLoRA sends up, per device, and k_i (m + n)."""
    m, n, r, H = (int(v) for v in (instance.m, instance.n, instance.r, instance.H))
    chosen = tuple(min(int(k), r) for k in instance.k)
    return np.array(_sent(m, n, r, H, chosen)), np.array([k * (m + n) for k in chosen])


@cache
def _sent(m: int, n: int, r: int, H: int, chosen: tuple[int, ...]) -> tuple[int, ...]:
    inputs, targets = (np.ones((1, n)),) * len(chosen), (np.ones((1, m)),) * len(chosen)
    system = LeastSquares(np.zeros((m, n)), inputs=inputs, targets=targets)
    algorithm = FSLoRA(gamma=0.01, H=H, ranks=chosen)
    _, report = algorithm.round(algorithm.init(np.ones((r, m + n)), system))
    return tuple(size // 8 for size in report.up)


COMM = rc.Claim(
    id="fslora.comm",
    source="FSLoRA, Algorithm 1, line 7",
    text="Device i uploads k_i (m + n) numbers in a round, however many local steps it made.",
    latex=r"k_i(m+n)",
    kind="count",
    space=rc.Space(
        fields={
            "m": rc.whole_numbers(low=1, high=3),
            "n": rc.whole_numbers(low=1, high=3),
            "r": rc.whole_numbers(low=1, high=3),
            "H": rc.whole_numbers(low=1, high=2),
            "k": rc.whole_numbers("N", low=1, high=3),
        },
        sizes={"N": (1, 2)},
        meaning={"k": "ranks k_i; more than r is r"},
    ),
    measure=_uploads,
    note="Without the sketch itself, which the server knows. With a new sketch in every local "
    "step, as the analysis has it, it is up to r (m + n).",
)

#: Accuracies of Tables 5.1 and 5.2 in tenths of a percent, and the averages printed last.
_TABLES = (
    ((875, 844, 753, 663, 690, 895, 853), 796),
    ((885, 812, 775, 630, 622, 928, 874), 789),
    ((872, 781, 774, 746, 544, 934, 871), 789),
    ((880, 873, 822, 764, 698, 935, 858), 833),
    ((692, 846, 684, 800, 699, 773, 687, 720), 738),
    ((699, 847, 669, 805, 723, 781, 704, 733), 745),
    ((675, 831, 658, 784, 692, 755, 671, 715), 723),
    ((738, 862, 685, 831, 787, 820, 758, 748), 779),
)


def _average(instance: Any) -> tuple[int, int]:
    """A row's mean in tenths, half rounded up, and the one printed."""
    row, printed = _TABLES[int(instance.row)]
    return (2 * sum(row) + len(row)) // (2 * len(row)), printed


TABLES = rc.Claim(
    id="fslora.tables",
    source="FSLoRA, Tables 5.1 and 5.2",
    text="The averages printed are those of the tasks' accuracies, rounded to one decimal.",
    latex=r"\text{Avg.}=\operatorname{round}\Big(\frac1K\sum_{j\le K}a_j\Big)",
    kind="count",
    space=rc.Space(
        fields={"row": rc.whole_numbers(low=0, high=len(_TABLES) - 1)},
        corners=[{"row": row} for row in range(len(_TABLES))],
        meaning={"row": "row of Table 5.1, from 0, then of Table 5.2"},
    ),
    measure=_average,
)

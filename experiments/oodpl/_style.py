"""How OOD-PL and its rivals are drawn: one look each, the same in all figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import ratecheck as rc

#: Solid lines are the paper's methods, dashed ones controls; dotted ones know the true reward.
METHODS = {
    "OOD-PL": rc.Look("#D55E00", "o"),
    "SFT": rc.Look("#777777", "s"),
    "DPO": rc.Look("#009E73", "^"),
    "PPO (TR)": rc.Look("#56B4E9", "P"),
    "PPO (TR+TE)": rc.Look("#0072B2", "D"),
    "HPL": rc.Look("#CC79A7", "X"),
    "HPL (TR)": rc.Look("#CC79A7", "x", "--"),
    "MLE + (10)": rc.Look("#E69F00", "v", "--"),
    "MLE, fitted beta": rc.Look("#C9B400", "*", "--"),
    "oracle": rc.Look("#000000", "", ":"),
    "oracle, beta/10": rc.Look("#000000", "", "-."),
}


#: The PL accuracy of the paper, for vertical axes.
ACCURACY = "share of pairs predicted\nright, $A_{PL}$"


def ours_on_top(series: Sequence[rc.Series]) -> list[rc.Series]:
    """The curves in an order in which those of OOD-PL are drawn over others; panels keep theirs."""
    panels = list(dict.fromkeys(one.panel for one in series))
    return sorted(series, key=lambda one: (panels.index(one.panel), one.name == "OOD-PL"))


def mean_curve(name: str, panel: str, x: Any, values: Any) -> rc.Series:
    """Means over instances with intervals, from (points, instances)."""
    intervals = [rc.mean_interval(np.asarray(one)) for one in values]
    return rc.Series(name, panel, x, *np.array([(v.value, v.lo, v.hi) for v in intervals]).T)

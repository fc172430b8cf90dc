"""OOD-PL, as its claims cite it."""

from __future__ import annotations

import ratecheck as rc

PAPER = rc.Paper(
    "ood",
    "OOD-PL",
    "Chen Jia: Generalizing Reward Modeling for Out-of-Distribution Preference Learning, "
    "arXiv:2402.14760",
)

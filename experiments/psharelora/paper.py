"""P-ShareLoRA, as its claims cite it."""

from __future__ import annotations

import ratecheck as rc

PAPER = rc.Paper(
    "psl",
    "P-ShareLoRA",
    "Renpu Liu, Peng Wang, Donghao Li, Cong Shen and Jing Yang: A Shared Low-Rank Adaptation "
    "Approach to Personalized RLHF, arXiv:2503.19201",
)

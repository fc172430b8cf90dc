"""FSLoRA, as its claims cite it."""

from __future__ import annotations

import ratecheck as rc

PAPER = rc.Paper(
    "fslora",
    "FSLoRA",
    "Wenzhi Fang, Dong-Jun Han, Liangqi Yuan, Seyyedali Hosseinalipour and Christopher G. "
    "Brinton: Federated Sketching LoRA: On-Device Collaborative Fine-Tuning of Large Language "
    "Models, arXiv:2501.19389",
)

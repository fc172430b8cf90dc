"""AffPCL, as its claims cite it."""

from __future__ import annotations

import ratecheck as rc

PAPER = rc.Paper(
    "affpcl",
    "AffPCL",
    "Chenyu Zhang and Navid Azizan: Personalized Collaborative Learning with Affinity-Based "
    "Variance Reduction",
)

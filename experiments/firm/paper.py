"""FIRM, as its claims cite it."""

from __future__ import annotations

import ratecheck as rc

PAPER = rc.Paper(
    "firm",
    "FIRM",
    "Fatemeh (Atena) Nourzad, Amirhossein Roknilamouki, Eylem Ekici, Jia (Kevin) Liu and "
    "Ness B. Shroff: FIRM: Federated In-client Regularized Multi-objective Alignment for Large "
    "Language Models",
)

"""FSLoRA, Section 2.2: what a server makes of modules with different ranks."""

from __future__ import annotations

from linsys.linalg import Numbers

Sides = tuple[Numbers, Numbers]

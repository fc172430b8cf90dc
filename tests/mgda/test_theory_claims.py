"""FIRM's deterministic catalogue: known verdicts on every seed, and no constant without teeth."""

from __future__ import annotations

"""Sizes at which a task of FSLoRA's figures takes milliseconds."""

from __future__ import annotations

from typing import Any

SIZES: dict[str, Any] = {
    "tasks": ("steep", "flat"),
    "devices": 4,
    "classes": 6,
    "features": 8,
    "samples": 12,
    "test": 200,
    "H": 2,
    "instances": 3,
    "tuning": 1,
}

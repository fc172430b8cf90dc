"""P-ShareLoRA's claims on model, columns, chances, theorems and rates: verdicts and teeth."""

from __future__ import annotations

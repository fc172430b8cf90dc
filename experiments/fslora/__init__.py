"""Figures, tables and rates of FSLoRA, on matrix systems."""

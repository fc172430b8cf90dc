"""Figures and rates of P-ShareLoRA, on users who compare trajectories."""

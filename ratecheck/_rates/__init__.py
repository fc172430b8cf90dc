"""Measured exponents and ratios, their intervals, and what they say of a stated one."""

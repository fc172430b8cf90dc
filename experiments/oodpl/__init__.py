"""Figures, tables and rates of OOD-PL, preference learning by meta-learned rewards."""

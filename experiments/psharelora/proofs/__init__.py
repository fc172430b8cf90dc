"""Statements of P-ShareLoRA about vectors of any dimension, to be proved for all at once."""

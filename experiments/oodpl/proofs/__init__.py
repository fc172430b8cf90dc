"""Statements of OOD-PL about vectors of any dimension, to be proved for all of them at once."""

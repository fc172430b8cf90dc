"""FIRM: synthetic counterparts of its figures, and the rates of its theory."""

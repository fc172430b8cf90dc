"""AffPCL: personalised collaborative linear stochastic approximation."""

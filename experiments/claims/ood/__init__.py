"""OOD-PL: rewards learned by bilevel optimisation over preferences, for policies of new domains."""

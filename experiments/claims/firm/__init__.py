"""FIRM: federated in-client regularised multi-objective alignment."""

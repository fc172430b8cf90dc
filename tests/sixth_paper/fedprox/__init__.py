"""FedProx: local steps that a proximal term holds near the global model."""

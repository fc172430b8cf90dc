"""FedProx on language models."""

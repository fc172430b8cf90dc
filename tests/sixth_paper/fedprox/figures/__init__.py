"""FedProx's figures."""

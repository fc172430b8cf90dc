"""FedProx's rates."""

"""What FedProx is said to do on strongly convex quadratics."""

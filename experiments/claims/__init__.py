"""What the papers state, as claims that the audit judges; one package per paper."""

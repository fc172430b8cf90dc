"""Running experiments: jobs, blocks, worker processes."""

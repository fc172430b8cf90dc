"""What several statements share, as functions of stacks of instances."""

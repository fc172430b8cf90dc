"""The two sides of each statement, as functions of stacks of instances."""

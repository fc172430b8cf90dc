"""A paper that exists in the tests only."""

"""Which papers, experiments and claims there are, installed or in a user's files."""

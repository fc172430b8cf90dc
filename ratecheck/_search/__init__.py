"""The search for the instance on which a claim is tightest."""

"""From a claim to its verdict: certificates, time limits, worker processes, records."""

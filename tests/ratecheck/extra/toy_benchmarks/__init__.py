"""Benchmarks that exist in the tests only."""

"""Stored results: Parquet shards, their keys, the revision of the code behind them."""

"""A grid of configurations of an experiment, computed piece by piece into one Parquet data set."""

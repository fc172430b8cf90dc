"""What is kept on the disk, and where: Parquet shards, their keys, the revision of the sources."""

from pathlib import Path

#: Where results are unless the user says otherwise.
RESULTS = Path("results")

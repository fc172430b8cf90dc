"""The rates of the paper, one file each."""

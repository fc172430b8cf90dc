"""What an experiment is: configuration, blocks, table, analysis and figure."""

"""The ``ratecheck`` command: its arguments, and what each subcommand does."""

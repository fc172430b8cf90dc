"""``python -m ratecheck`` is the ``ratecheck`` command."""

from ratecheck.cli import main

if __name__ == "__main__":
    main()

"""What every claim and every experiment has to pass, of our papers and of anybody's."""

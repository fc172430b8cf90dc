"""What a claim is: its statement, the instances it is about, and how they are drawn."""

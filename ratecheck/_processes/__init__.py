"""Other processes: how they are started, limited, interrupted, and what streams they write to."""

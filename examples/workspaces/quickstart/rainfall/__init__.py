"""Daily rainfall of one station: reading it and summing it up."""

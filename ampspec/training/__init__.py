"""How long a job trains, on how many ranks, and what it measures."""

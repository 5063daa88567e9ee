"""The evaluations of a run, and the best of them."""

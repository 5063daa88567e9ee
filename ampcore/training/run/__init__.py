"""A run from its first block to its last: set-up, order, recovery."""

"""What the ranks of a run agree on between blocks."""

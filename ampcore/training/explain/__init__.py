"""Repeats one step of a run, or measures the first one, to explain it."""

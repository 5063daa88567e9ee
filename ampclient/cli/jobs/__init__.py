"""The commands of `ampctl job`."""

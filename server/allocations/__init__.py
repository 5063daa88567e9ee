"""Allocations: a batch system such as Slurm gives a queued job its devices, all at once."""

"""Diagnostics of a machine, a model and a run: hardware, layers, overflows, loss scales."""

"""Searches for hyperparameters: samplers, early stopping (ASHA) and their checks."""

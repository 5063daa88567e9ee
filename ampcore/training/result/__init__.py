"""The result of a run: checks, the chosen weights, the saved models."""

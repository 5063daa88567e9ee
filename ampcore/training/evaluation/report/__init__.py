"""The report of an evaluation: what the trained model gets right and wrong, kept small."""

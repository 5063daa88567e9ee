"""The commands of `python -m ampcore`: one module each, and what they share."""

"""Builds the spec to submit from what a caller passes."""

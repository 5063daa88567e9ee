"""Comparison of jobs: their steps on one grid, and the differences of specs and results."""

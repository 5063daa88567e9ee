"""Comparison of jobs: their steps on a common grid, and the differences of specs and results."""

"""Comparisons of jobs, and assertions about them."""

"""Paired tests and intervals for differences of means."""

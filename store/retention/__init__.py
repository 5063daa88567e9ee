"""Retention rules of projects: stored, previewed and applied."""

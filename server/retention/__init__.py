"""Retention rules of projects: set, preview, remove."""

"""Formats values, tables and events for terminals and notebooks."""

"""Prints what the commands show."""

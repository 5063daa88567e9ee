"""Reads what a job recorded: steps, events, logs and evaluations."""

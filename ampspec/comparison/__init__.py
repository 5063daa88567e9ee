"""Assertions about results of jobs, and whether they hold."""

"""Turns the columns of a dataset into inputs and targets."""

"""Answers that are made while they are sent."""

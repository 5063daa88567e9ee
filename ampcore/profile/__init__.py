"""Profiles training steps: where their time goes, and how much of it is spent in 16 bit."""

"""Notifications: which types there are, and what a message of each type says."""

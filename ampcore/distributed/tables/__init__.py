"""Tables whose rows are on several ranks."""

"""A job: its view, the operations on it, and waiting for it."""

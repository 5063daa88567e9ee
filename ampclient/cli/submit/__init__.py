"""`ampctl job submit` and `validate`."""

"""What the next step depends on, and the checkpoints of it."""

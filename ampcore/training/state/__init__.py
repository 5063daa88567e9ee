"""What the next step depends on; a StepRunner owns it, and `run` saves and restores it."""

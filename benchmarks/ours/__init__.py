"""ampcore's own contestants: the trainer's loop, as a job would run it."""

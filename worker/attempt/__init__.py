"""One attempt at a job: its telemetry, its end, and what is recorded of it."""

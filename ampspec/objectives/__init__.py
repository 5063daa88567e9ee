"""The task of a job, its losses, metrics and optimizer."""

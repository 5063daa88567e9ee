"""The events and the log of a job, and its stream."""

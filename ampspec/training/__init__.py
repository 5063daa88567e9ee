"""The length of the training, its ranks and its telemetry."""

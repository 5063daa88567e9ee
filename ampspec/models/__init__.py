"""The model section of a job spec, one class for each kind, and its rules."""

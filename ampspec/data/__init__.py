"""The data section of a job spec: files, columns and preprocessing, and their rules."""

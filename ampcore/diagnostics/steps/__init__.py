"""The cause of a skipped or unusual step."""

"""What is known of a run before its first step."""

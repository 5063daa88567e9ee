"""What a job minimises and measures: its task, losses, metrics and optimizer."""

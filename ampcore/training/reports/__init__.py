"""What a run reports to its program: blocks, events, epochs."""

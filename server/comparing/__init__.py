"""Several jobs side by side: their steps on one grid, and what differs in specs and results."""

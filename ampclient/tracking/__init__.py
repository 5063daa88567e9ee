"""Track runs that are trained elsewhere: collect rows, and send them in the background."""

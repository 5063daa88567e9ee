"""Studies: create them, estimate their cost, queue their jobs, and answer them."""

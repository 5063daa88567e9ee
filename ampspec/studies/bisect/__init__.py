"""Which layers need more precision, by bisection."""

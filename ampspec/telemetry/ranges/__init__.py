"""The exponents of values and gradients, and what a number format would do to them."""

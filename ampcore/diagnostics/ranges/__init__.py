"""The ranges of layers' values and gradients, and what rounding them does."""

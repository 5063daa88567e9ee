"""One training step, and the compiled loop over many of them."""

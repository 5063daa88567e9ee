"""The kinds of layers, one module for each family."""

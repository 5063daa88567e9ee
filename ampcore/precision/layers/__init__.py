"""The dtypes of layers and of their products."""

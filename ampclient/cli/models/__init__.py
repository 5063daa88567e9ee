"""`ampctl model`: the model registry."""

"""A model, a loss and a dataset of a package, one per module.

`pyproject.toml` lists their entry points.
"""

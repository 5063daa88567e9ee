"""The model registry: versions made from jobs, aliases, promotions, model cards."""

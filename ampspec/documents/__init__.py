"""Documents that people write: reading YAML and JSON, their limits, and their problems."""

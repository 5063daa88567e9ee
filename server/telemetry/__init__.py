"""Steps of a job in every output format."""

"""The models of what belongs to one job."""

"""The workers, and their draining."""

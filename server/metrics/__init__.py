"""What `/metrics` tells of the service."""

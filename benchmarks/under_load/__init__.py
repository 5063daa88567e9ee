"""The service under load: real databases, Redis, API and worker processes, and fast clients."""

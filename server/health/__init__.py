"""Whether this server is alive and ready."""

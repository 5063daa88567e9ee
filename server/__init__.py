"""The HTTP API of ampcore, and the `ampserver` command."""

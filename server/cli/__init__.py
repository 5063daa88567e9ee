"""The `ampserver` command."""

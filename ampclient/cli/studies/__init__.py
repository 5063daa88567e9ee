"""The commands of `ampctl study`."""

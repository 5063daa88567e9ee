"""The commands of `ampctl dataset` and `ampctl file`."""

"""The largest batch that fits into memory, and the fastest one."""

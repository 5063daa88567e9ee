"""Blocks of per-step values, and their encodings and downsampling levels."""

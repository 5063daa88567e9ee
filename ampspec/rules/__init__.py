"""Rules across the sections of a spec."""

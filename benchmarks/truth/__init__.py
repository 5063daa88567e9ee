"""Planted faults with known answers, to see whether ampcore names what is wrong."""

"""Trainer processes: started, isolated, limited and read by the worker."""

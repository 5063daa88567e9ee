"""Admit requests to the threads for their kind: what is slow leaves the others free."""

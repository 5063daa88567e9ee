"""Import runs of other tools as tracked runs."""

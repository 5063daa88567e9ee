"""Lists of jobs: filters, orders and counts."""

"""A database with a million jobs: fill it, and measure what requests and rounds take."""

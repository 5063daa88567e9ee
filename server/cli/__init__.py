"""`ampserver`: what an operator types."""

"""`ampserver doctor`: what an operator would look at, and what mends what is wrong."""

"""Downloads of what a job needs, and uploads of what it makes."""

"""CSV and other delimited text files."""

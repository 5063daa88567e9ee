"""Tables of columns: Arrow, Parquet and Feather files."""

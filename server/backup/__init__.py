"""Back up the database and the storage of files into a folder, and restore them from it."""

"""Files in the storage: artifacts, datasets, files by SHA-256, and their removal."""

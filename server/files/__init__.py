"""Files that jobs name by their SHA-256: store uploads, and check the references of specs."""

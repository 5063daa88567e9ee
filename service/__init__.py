"""What server and worker share besides the database: settings, logging, storage, Redis names."""

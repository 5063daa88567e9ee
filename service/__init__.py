"""What server and worker share beside the database: settings, logging, names, storage."""

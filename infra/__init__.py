"""Shared by server and worker, besides the database: settings, logging, storage, Redis names."""

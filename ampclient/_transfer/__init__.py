"""Uploads and downloads of files, datasets, weights and code."""

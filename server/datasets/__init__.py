"""Datasets: receive uploads, create versions from them, delete versions, resolve references."""

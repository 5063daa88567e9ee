"""Prometheus metrics, served at `/metrics`."""

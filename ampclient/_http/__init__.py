"""Sends requests: transport, retries, responses, and methods in sync and async form."""

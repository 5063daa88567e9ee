"""The request and response models of the HTTP API, one file per resource.

Server and client share them. They need pydantic and nothing else: no database, no web framework,
no NumPy.
"""

"""uvicorn, the socket, and what a connection may do."""

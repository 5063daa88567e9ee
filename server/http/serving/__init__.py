"""uvicorn, the listening socket, and limits on connections."""

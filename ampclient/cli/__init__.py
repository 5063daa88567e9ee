"""`ampctl`: the command line of an ampcore server."""

from ampclient.cli.app import main

__all__ = ["main"]

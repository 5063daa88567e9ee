"""Serve the application with uvicorn, on a socket that was opened before anything heavy."""

import errno
import ipaddress
import logging
import logging.config
import socket
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

from server.memory import give_back
from server.settings import Settings

SHUTDOWN_S: Final = 5
"""How long requests under way may take to end when the server stops."""


class StartFailed(Exception):
    """The server cannot start; the message says in one sentence what to do."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any free one. Raises StartFailed."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            why = "is in use; choose another with --port, or --port 0 for any free one"
        else:
            why = f"cannot be used ({error.strerror or error})"
        raise StartFailed(f"Port {port} on {host} {why}.") from None


def url_of(listener: socket.socket) -> str:
    """The address at which this machine reaches the socket."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def warning_about(listener: socket.socket) -> str | None:
    """What to say of an address that other machines reach."""
    host = listener.getsockname()[0]
    if ipaddress.ip_address(host).is_loopback:
        return None
    return (
        f"WARNING: {host} is reachable from other machines, and tokens travel unencrypted. "
        "Put a proxy that speaks TLS in front."
    )


def serve(settings: Settings, listener: socket.socket, announce: Callable[[], None]) -> None:
    """Answer requests until SIGINT or SIGTERM; `announce` is called once the server answers.

    The signal is raised again at the end, for the handler that was there before.
    """
    import uvicorn

    from server.app import create_app

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            # A second signal would end the loop with the application's shutdown half done.
            if not self.should_exit:
                super().handle_exit(sig, frame)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            give_back()
            if self.started:
                announce()

    config = uvicorn.Config(
        create_app(settings),
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_S,
        ws="none",
    )
    Server(config).run(sockets=[listener])


def set_up_logging(log_file: Path | None = None) -> None:
    """Everything to the file, warnings to the terminal; without a file, everything there."""
    terminal = {"class": "logging.StreamHandler", "formatter": "line"}
    handlers: dict[str, dict[str, Any]] = {"terminal": terminal}
    if log_file is not None:
        terminal["level"] = "WARNING"
        handlers["file"] = {
            "class": "logging.FileHandler",
            "filename": str(log_file),
            "formatter": "line",
        }
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
            "handlers": handlers,
            "root": {"level": "INFO", "handlers": list(handlers)},
            "loggers": {"alembic": {"level": "WARNING"}},
        }
    )

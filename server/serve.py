"""Serve the application with uvicorn, on a socket that is opened before heavy imports."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import resource
import socket
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Final

from server.http.client_address import trusted_checker
from server.http.serving.connection_limits import ConnectionLimits, OpenConnections
from server.http.serving.memory import release_memory

if TYPE_CHECKING:
    from server.settings import Settings
    from store.database import Database

log = logging.getLogger(__name__)

SHUTDOWN_TIMEOUT_S: Final = 5
"""How long running requests may take when the server stops."""
KEEP_ALIVE_S: Final = 15
"""How long a connection may be idle between two requests: longer than polling intervals."""
KEEP_ALIVE_PROBES: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
SPARE_FILES: Final = 500
"""File descriptors for everything else: database, Redis, downloads, refused connections."""


class StartFailed(Exception):
    """The server cannot start; the message says why."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any free one. Raises StartFailed."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            why = "is in use; choose another with --port, or --port 0 for any free one"
        else:
            why = f"cannot be used ({error.strerror or error})"
        raise StartFailed(f"Port {port} on {host} {why}.") from None
    # Its connections inherit it: a vanished client is detected within two minutes.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        for option, value in KEEP_ALIVE_PROBES.items():
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return listener


def url_of(listener: socket.socket) -> str:
    """The URL at which this machine reaches the socket."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def exposure_warning(listener: socket.socket) -> str | None:
    """The warning about an address that other machines can reach, as a visible block."""
    host = listener.getsockname()[0]
    if ipaddress.ip_address(host).is_loopback:
        return None
    lines = [
        f"WARNING: {host} is reachable from other machines, without TLS.",
        "Anyone on the network path can read every token and every job.",
        "Use a TLS proxy in front of the server, or listen on 127.0.0.1.",
    ]
    width = max(map(len, lines))
    edge = "!" * (width + 6)
    return "\n".join([edge, *(f"!! {line:{width}} !!" for line in lines), edge])


def serve(settings: Settings, listener: socket.socket, announce: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM; `announce` is called once the server accepts requests.

    The signal is raised again at the end, for the previous handler.
    """
    import uvicorn

    from infra import traces
    from server.app import create_app
    from server.http.serving.buffered_reads import buffered
    from server.http.serving.connections import connection_class

    traces.start("ampcore-server")
    app = create_app(settings)

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            # A second signal would stop the loop in the middle of the application's shutdown.
            if not self.should_exit:
                super().handle_exit(sig, frame)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            release_memory()
            if self.started:
                announce()
                _warn_if_exposed(listener, settings)
                _warn_of_old_setting()
                await asyncio.to_thread(_warn_if_no_valid_token, app.state.services.database)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # Streams end now; otherwise each would delay the shutdown by SHUTDOWN_TIMEOUT_S.
            app.state.services.streams.shutting_down.set()
            await super().shutdown(sockets=sockets)

    connections = OpenConnections(_connection_limits(), trusted_checker(settings.trusted_proxies))
    config = uvicorn.Config(
        app,
        access_log=False,
        # uvicorn only calls it.
        http=buffered(connection_class(connections)),  # type: ignore[arg-type]
        log_config=None,
        loop="uvloop",
        proxy_headers=False,  # server.http.client_address reads them
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_S,
        timeout_keep_alive=KEEP_ALIVE_S,
        ws="none",
    )
    try:
        Server(config).run(sockets=[listener])
    finally:
        traces.stop()


def _warn_if_exposed(listener: socket.socket, settings: Settings) -> None:
    """Warn about an address that other machines can reach, unless there is a proxy before it."""
    if exposure_warning(listener) and not settings.has_remote_proxies:
        log.warning(
            "%s is reachable from other machines, without TLS: anyone on the network path can read "
            "every token. Listen on 127.0.0.1, or use a TLS proxy and AMPCORE_TRUSTED_PROXIES",
            listener.getsockname()[0],
        )


def _warn_of_old_setting() -> None:
    """Warn about FORWARDED_ALLOW_IPS, which earlier versions let uvicorn read."""
    if os.environ.get("FORWARDED_ALLOW_IPS"):
        log.warning(
            "FORWARDED_ALLOW_IPS is no longer used: list the proxies in AMPCORE_TRUSTED_PROXIES"
        )


def _warn_if_no_valid_token(database: Database) -> None:
    """Warn if there is no valid token: without one, the API cannot be used."""
    from sqlalchemy.exc import SQLAlchemyError

    from store.access import tokens

    try:
        with database.read() as session:
            if not tokens.any_valid(session):
                log.warning(
                    "there is no valid token yet; create the first one with "
                    "`ampserver token create NAME --role admin`"
                )
    except SQLAlchemyError as error:
        log.warning("the database is unavailable: %s", error)


def _connection_limits() -> ConnectionLimits:
    """The limits on connections, derived from the limit on open files."""
    limits = ConnectionLimits()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files_needed = limits.total + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < files_needed:
        soft = files_needed if hard == resource.RLIM_INFINITY else min(files_needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= files_needed:
        return limits
    fewer = max(1, soft - SPARE_FILES)
    return ConnectionLimits(fewer, max(1, fewer // 4), max(1, fewer // 8))

"""Serve the application with uvicorn, on a socket that was opened before anything heavy."""

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

from server.http.client_address import trusts
from server.serving.memory import give_back
from server.serving.open_connections import Bounds, OpenConnections
from server.settings import Settings

if TYPE_CHECKING:
    from store.database import Database

log = logging.getLogger(__name__)

SHUTDOWN_S: Final = 5
"""How long requests under way may take to end when the server stops."""
KEEP_ALIVE_S: Final = 15
"""How long a connection may be silent between two requests: longer than pollers pause."""
KEEP_ALIVE_PROBES: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
SPARE_FILES: Final = 500
"""Files and connections beside those: of the database, of Redis, of downloads, of the refused."""


class StartFailed(Exception):
    """The server cannot start; the message says in one sentence what to do."""


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
    # Of its connections too: a client that vanished without a word is noticed in two minutes.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        for option, value in KEEP_ALIVE_PROBES.items():
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return listener


def url_of(listener: socket.socket) -> str:
    """The address at which this machine reaches the socket."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def warning_about(listener: socket.socket) -> str | None:
    """What to say of an address that other machines reach; a block that nobody overlooks."""
    host = listener.getsockname()[0]
    if ipaddress.ip_address(host).is_loopback:
        return None
    lines = [
        f"WARNING: {host} is reachable from other machines, and without TLS.",
        "Whoever is on the way reads every token and every job.",
        "Put a proxy that speaks TLS in front, or listen on 127.0.0.1.",
    ]
    width = max(map(len, lines))
    edge = "!" * (width + 6)
    return "\n".join([edge, *(f"!! {line:{width}} !!" for line in lines), edge])


def serve(settings: Settings, listener: socket.socket, announce: Callable[[], None]) -> None:
    """Answer requests until SIGINT or SIGTERM; `announce` is called once the server answers.

    The signal is raised again at the end, for the handler that was there before.
    """
    import uvicorn

    from server.app import create_app
    from server.serving.connections import connection_class

    app = create_app(settings)

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
                _warn(listener)
                _warn_of_old_setting()
                await asyncio.to_thread(_say_if_nobody_has_a_token, app.state.services.database)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.state.services.streams.ending.set()  # or each would last for SHUTDOWN_S
            await super().shutdown(sockets=sockets)

    config = uvicorn.Config(
        app,
        access_log=False,
        http=connection_class(OpenConnections(_bounds(), trusts(settings.trusted_proxies))),
        log_config=None,
        loop="uvloop",
        proxy_headers=False,  # server.http.client_address reads them
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_S,
        timeout_keep_alive=KEEP_ALIVE_S,
        ws="none",
    )
    Server(config).run(sockets=[listener])


def _warn(listener: socket.socket) -> None:
    if warning_about(listener):
        host = listener.getsockname()[0]
        log.warning("%s is reachable from other machines, and without TLS", host)


def _warn_of_old_setting() -> None:
    """Earlier versions let uvicorn read this variable; with `*` clients chose their address."""
    if os.environ.get("FORWARDED_ALLOW_IPS"):
        log.warning(
            "FORWARDED_ALLOW_IPS is not read any more: name the proxies in AMPCORE_TRUSTED_PROXIES"
        )


def _say_if_nobody_has_a_token(database: Database) -> None:
    """Nothing is told without one, so a person must know where the first comes from."""
    from sqlalchemy.exc import SQLAlchemyError

    from store import tokens

    try:
        with database.read() as session:
            if not tokens.any_valid(session):
                log.warning(
                    "no token is valid here, so nobody can do anything; make the first one with "
                    "`ampserver token create NAME --role admin`"
                )
    except SQLAlchemyError as error:
        log.warning("the database does not answer yet: %s", error)


def _bounds() -> Bounds:
    """How many connections there may be, so that files can be opened beside them all."""
    bounds = Bounds()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = bounds.in_all + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return bounds
    fewer = max(1, soft - SPARE_FILES)
    return Bounds(fewer, max(1, fewer // 4), max(1, fewer // 8))

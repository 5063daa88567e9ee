"""What a shell offers on TAB: ids from the server, if it answers at once, and words of our own.

Typer writes the shells' part. Whatever goes wrong here offers nothing: a person who is typing
wants neither an error nor a wait.
"""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

import typer

from ampcore.spec import State

if TYPE_CHECKING:
    from ampclient.client import Client
    from ampclient.connection import Connection

T = TypeVar("T")
CONNECT_S: Final = 0.5
ANSWER_S: Final = 2.0
MOST: Final = 50
PORTS: Final = {"http": 80, "https": 443}
Offers = list[tuple[str, str]]
"""Words, each with what it stands for; zsh and fish show that."""
Complete = Callable[[typer.Context, str], Offers]


def job_ids(*states: State) -> Complete:
    """Offers the newest jobs, of these states if any are given."""

    def complete(context: typer.Context, incomplete: str) -> Offers:
        def ask(client: "Client") -> Offers:
            jobs = client.jobs.list(state=states, q=incomplete or None, limit=MOST)
            return [(job.id, f"{job.name}, {job.state}") for job in jobs]

        return _asked(context, ask) or []

    return complete


def worker_ids(context: typer.Context, incomplete: str) -> Offers:
    """Offers the workers that are online."""
    workers = _asked(context, lambda client: client.workers.list()) or []
    return [(worker.id, worker.hostname) for worker in workers if worker.state == "online"]


def policies(context: typer.Context, incomplete: str) -> Offers:
    """Offers the precision policies that a spec may name."""
    found = _asked(context, lambda client: client.policies()) or []
    return [(policy.name, f"computes in {policy.compute_dtype}") for policy in found]


def models(context: typer.Context, incomplete: str) -> Offers:
    """Offers the kinds of model that a spec may name."""
    return [(kind.kind, "") for kind in _asked(context, lambda client: client.models()) or []]


def states(context: typer.Context, incomplete: str) -> list[str]:
    """Offers the states that a job can be in."""
    return list(State)


def _asked(context: typer.Context, ask: "Callable[[Client], T]") -> T | None:
    """What the server answers that the line names so far; None where it gives no answer at once."""
    from ampclient.client import Client

    answers: list[T] = []

    def run(client: "Client") -> None:
        with suppress(Exception):
            answers.append(ask(client))

    with suppress(Exception):
        to = _connection(context)
        _reach(to.url)
        with Client(to.url, to.token) as client:
            # It is patient with its server; this thread ends with the process, done or not.
            thread = Thread(target=run, args=[client], daemon=True)
            thread.start()
            thread.join(ANSWER_S)
    return answers[0] if answers else None


def _connection(context: typer.Context) -> "Connection":
    from ampclient.connection import Connection, resolve

    given = context.find_root().params
    if file := given.get("connection"):
        return Connection.from_file(Path(file))
    return resolve(given.get("url"), None, os.environ)


def _reach(url: str) -> None:
    """Raise OSError at once for a server that is not there."""
    parts = urlsplit(url)
    place = (parts.hostname or "", parts.port or PORTS[parts.scheme])
    socket.create_connection(place, timeout=CONNECT_S).close()

"""`ampctl completion`, and the suggestions of shell completion, some of them from the server.

Typer writes the completion scripts. Errors and slow responses give no suggestions: completion must
not print errors or block while a person types.
"""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Final, TypeVar
from urllib.parse import urlsplit

import typer

from ampspec.jobs import State

if TYPE_CHECKING:
    from ampclient.client import Client
    from ampclient.connection import Connection

T = TypeVar("T")
CONNECT_S: Final = 0.5
ANSWER_S: Final = 2.0
MAX_SUGGESTIONS: Final = 50
PORTS: Final = {"http": 80, "https": 443}
Suggestions = list[tuple[str, str]]
"""Values, each with a description, which zsh and fish show."""
Complete = Callable[[typer.Context, str], Suggestions]


class Shell(StrEnum):
    """The supported shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", show_default=False)],
) -> None:
    """Print the shell completion script for ampctl.

    bash, in ~/.bashrc: eval "$(ampctl completion bash)".
    zsh, in ~/.zshrc after compinit: eval "$(ampctl completion zsh)".
    fish: ampctl completion fish > ~/.config/fish/completions/ampctl.fish
    """
    from typer.completion import shell_complete

    root = context.find_root().command
    shell_complete(root, {}, "ampctl", "_AMPCTL_COMPLETE", f"source_{shell}")


def job_ids(*states: State) -> Complete:
    """Suggests the newest jobs, only those in these states if any are given."""

    def complete(context: typer.Context, incomplete: str) -> Suggestions:
        def ask(client: "Client") -> Suggestions:
            jobs = client.jobs.list(
                state=states, q=incomplete or None, explanations=True, limit=MAX_SUGGESTIONS
            )
            return [(job.id, f"{job.name}, {job.state}") for job in jobs]

        return _ask_server(context, ask) or []

    return complete


def trashed_job_ids(context: typer.Context, incomplete: str) -> Suggestions:
    """Suggests the jobs in the trash."""

    def ask(client: "Client") -> Suggestions:
        jobs = client.jobs.list(trash=True, q=incomplete or None, limit=MAX_SUGGESTIONS)
        return [(job.id, f"{job.name}, {job.state}") for job in jobs]

    return _ask_server(context, ask) or []


def worker_ids(context: typer.Context, incomplete: str) -> Suggestions:
    """Suggests the workers that are online."""
    workers = _ask_server(context, lambda client: list(client.workers.list())) or []
    return [(worker.id, worker.hostname) for worker in workers if worker.state == "online"]


def policies(context: typer.Context, incomplete: str) -> Suggestions:
    """Suggests the precision policies of the server."""
    policies_of_server = _ask_server(context, lambda client: client.policies()) or []
    return [(policy.name, f"computes in {policy.compute_dtype}") for policy in policies_of_server]


def models(context: typer.Context, incomplete: str) -> Suggestions:
    """Suggests the kinds of model of the server."""
    return [
        (kind.kind, "") for kind in _ask_server(context, lambda client: client.model_kinds()) or []
    ]


def states(context: typer.Context, incomplete: str) -> list[str]:
    """Suggests the states of jobs."""
    return list(State)


def _ask_server(context: typer.Context, ask: "Callable[[Client], T]") -> T | None:
    """Ask the server selected by the command line so far; None if it does not respond quickly."""
    from ampclient.client import Client

    results: list[T] = []

    def run(client: "Client") -> None:
        with suppress(Exception):
            results.append(ask(client))

    with suppress(Exception):
        to = _connection(context)
        _check_reachable(to.url)
        with Client(to.url, to.token) as client:
            # The client retries for longer than ANSWER_S; a daemon thread ends with the process.
            thread = Thread(target=run, args=[client], daemon=True)
            thread.start()
            thread.join(ANSWER_S)
    return results[0] if results else None


def _connection(context: typer.Context) -> "Connection":
    from ampclient.connection import Connection, resolve

    options = context.find_root().params
    if file := options.get("connection"):
        return Connection.from_file(Path(file))
    return resolve(options.get("url"), None, os.environ)


def _check_reachable(url: str) -> None:
    """Raise OSError quickly if nothing listens at the address."""
    parts = urlsplit(url)
    address = (parts.hostname or "", parts.port or PORTS[parts.scheme])
    socket.create_connection(address, timeout=CONNECT_S).close()

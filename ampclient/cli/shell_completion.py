"""`ampctl completion`, and what a shell offers on TAB: ids from the server and our own words.

Typer writes the scripts of the shells. An error offers nothing: while a person types, neither an
error message nor a wait is of use.
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

from ampcore.spec import State

if TYPE_CHECKING:
    from ampclient.client import Client
    from ampclient.connection import Connection

T = TypeVar("T")
CONNECT_S: Final = 0.5
ANSWER_S: Final = 2.0
MAX_SUGGESTIONS: Final = 50
PORTS: Final = {"http": 80, "https": 443}
Suggestions = list[tuple[str, str]]
"""Words, each with what it stands for; zsh and fish show that."""
Complete = Callable[[typer.Context, str], Suggestions]


class Shell(StrEnum):
    """The shells that can."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", show_default=False)],
) -> None:
    """Print the shell completion script for ampctl.

    bash, in ~/.bashrc: eval "$(ampctl completion bash)".
    zsh, in ~/.zshrc behind compinit: eval "$(ampctl completion zsh)".
    fish: ampctl completion fish > ~/.config/fish/completions/ampctl.fish
    """
    from typer.completion import shell_complete

    root = context.find_root().command
    shell_complete(root, {}, "ampctl", "_AMPCTL_COMPLETE", f"source_{shell}")


def job_ids(*states: State) -> Complete:
    """Offers the newest jobs, of these states if any are given."""

    def complete(context: typer.Context, incomplete: str) -> Suggestions:
        def ask(client: "Client") -> Suggestions:
            jobs = client.jobs.list(state=states, q=incomplete or None, limit=MAX_SUGGESTIONS)
            return [(job.id, f"{job.name}, {job.state}") for job in jobs]

        return _ask_server(context, ask) or []

    return complete


def worker_ids(context: typer.Context, incomplete: str) -> Suggestions:
    """Offers the workers that are online."""
    workers = _ask_server(context, lambda client: client.workers.list()) or []
    return [(worker.id, worker.hostname) for worker in workers if worker.state == "online"]


def policies(context: typer.Context, incomplete: str) -> Suggestions:
    """Offers the precision policies that a spec may name."""
    found = _ask_server(context, lambda client: client.policies()) or []
    return [(policy.name, f"computes in {policy.compute_dtype}") for policy in found]


def models(context: typer.Context, incomplete: str) -> Suggestions:
    """Offers the kinds of model that a spec may name."""
    return [(kind.kind, "") for kind in _ask_server(context, lambda client: client.models()) or []]


def states(context: typer.Context, incomplete: str) -> list[str]:
    """Offers the states that a job can be in."""
    return list(State)


def _ask_server(context: typer.Context, ask: "Callable[[Client], T]") -> T | None:
    """What the server answers that the line names so far; None where it gives no answer at once."""
    from ampclient.client import Client

    answers: list[T] = []

    def run(client: "Client") -> None:
        with suppress(Exception):
            answers.append(ask(client))

    with suppress(Exception):
        to = _connection(context)
        _check_reachable(to.url)
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


def _check_reachable(url: str) -> None:
    """Raise OSError at once for a server that is not there."""
    parts = urlsplit(url)
    address = (parts.hostname or "", parts.port or PORTS[parts.scheme])
    socket.create_connection(address, timeout=CONNECT_S).close()

"""An error as one readable block on standard error."""

from collections.abc import Iterator

import typer

from ampclient import formats
from ampclient.connection import Connection
from ampclient.errors import AmpcoreError, ConnectionFailed, ServerError, UnexpectedAnswer


def print_error(error: AmpcoreError | OSError, used: Connection | None = None) -> None:
    """Say what went wrong, each mistake on a line of its own, and what may help.

    `used` is the connection on which it went wrong.
    """
    for line in error_lines(error, used):
        typer.echo(line, err=True)


def error_lines(
    error: AmpcoreError | OSError, used: Connection | None = None, *, about: str = ""
) -> list[str]:
    """The lines of the block; the first begins with `error:`, and what it is about."""
    subject = f"error: {formats.printable(about)}: " if about else "error: "
    if isinstance(error, OSError) and not isinstance(error, AmpcoreError):
        place = f"{error.filename}: " if error.filename else ""
        return [f"{subject}{place}{error.strerror or error}"]
    headline, *entries = str(error).splitlines() or [""]
    lines = [f"{subject}{formats.printable(headline)}{_origin(error)}"]
    lines += [f"  {formats.printable(entry)}" for entry in entries]
    lines += [f"  {hint}" for hint in _hints(error, used)]
    return lines


def _origin(error: AmpcoreError) -> str:
    if error.code == f"http_{error.status}":
        return ""  # nothing that the sentence does not say
    return f" ({error.code})" if error.status is None else f" ({error.code}, HTTP {error.status})"


def _hints(error: AmpcoreError, used: Connection | None) -> Iterator[str]:
    """What may help: how to go on, or what to tell whoever runs the server."""
    if isinstance(error, ConnectionFailed):
        yield from _ways_back(error, used)
    if isinstance(error, UnexpectedAnswer) and used:
        yield f"The address {used.url} comes from {used.url_from}."
    if error.status == 401:
        yield from _ways_in(used)
    if error.status == 403:
        yield "`ampctl whoami` tells what this token may do."
    failed = isinstance(error, ServerError | UnexpectedAnswer)
    if failed and error.request_id:
        yield f"The server's log knows this request as {formats.printable(error.request_id)}."


def _ways_back(error: ConnectionFailed, used: Connection | None) -> Iterator[str]:
    """To a server that is away."""
    if used:
        yield f"The address comes from {used.url_from}."
    if used is None or used.is_loopback:
        yield "Is the server running? `ampserver up` starts one on this machine."
    else:
        yield "Is the server running, and is this its address? `ampctl login URL` keeps another."
    if error.sent and error.idempotency_key:
        yield (
            "It may have queued the job all the same. The same command with "
            f"--idempotency-key {error.idempotency_key} finds it, and queues no second one."
        )


def _ways_in(used: Connection | None) -> Iterator[str]:
    """To a server that does not know the token."""
    if used is None:
        yield "Is AMPCORE_TOKEN, or the connection file, of this server?"
        return
    yield f"{used.url} was asked; the token comes from {used.token_from}."
    yield "An admin makes tokens with `ampctl token create NAME`; `ampctl login` keeps one."

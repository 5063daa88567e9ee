"""Prints an error with hints on standard error."""

from collections.abc import Iterator

import typer

from ampclient._display import formats
from ampclient.connection import Connection
from ampclient.errors import AmpcoreError, ConnectionFailed, ServerError, UnexpectedResponse


def print_error(error: AmpcoreError | OSError, used: Connection | None = None) -> None:
    """Print the error, each of its problems on a line of its own, and hints.

    `used` is the connection that failed.
    """
    for line in error_lines(error, used):
        typer.echo(line, err=True)


def error_lines(
    error: AmpcoreError | OSError, used: Connection | None = None, *, about: str = ""
) -> list[str]:
    """The lines to print; the first begins with `error:` and the subject `about`, if given."""
    subject = f"error: {formats.printable(about)}: " if about else "error: "
    if isinstance(error, OSError) and not isinstance(error, AmpcoreError):
        location = f"{error.filename}: " if error.filename else ""
        return [f"{subject}{location}{error.strerror or error}"]
    headline, *entries = str(error).splitlines() or [""]
    lines = [f"{subject}{formats.printable(headline)}{_origin(error)}"]
    lines += [f"  {formats.printable(entry)}" for entry in entries]
    lines += [f"  {hint}" for hint in _hints(error, used)]
    return lines


def _origin(error: AmpcoreError) -> str:
    if error.code == f"http_{error.status}":
        return ""  # the message contains the status already
    return f" ({error.code})" if error.status is None else f" ({error.code}, HTTP {error.status})"


def _hints(error: AmpcoreError, used: Connection | None) -> Iterator[str]:
    """Hints: what to try next, or the request id for the server's operator."""
    if isinstance(error, ConnectionFailed):
        yield from _connection_hints(error, used)
    if isinstance(error, UnexpectedResponse) and used:
        yield f"The address {used.url} comes from {used.url_from}."
    if error.status == 401:
        yield from _token_hints(used)
    if error.status == 403:
        yield "`ampctl whoami` shows what this token may do."
    failed = isinstance(error, ServerError | UnexpectedResponse)
    if failed and error.request_id:
        yield f"Request id, for the server's log: {formats.printable(error.request_id)}."


def _connection_hints(error: ConnectionFailed, used: Connection | None) -> Iterator[str]:
    """Hints for a server that cannot be reached."""
    if used:
        yield f"The address comes from {used.url_from}."
    if used is None or used.is_loopback:
        yield "Is the server running? `ampserver up` starts one on this machine."
    else:
        yield "Is the server running at this address? `ampctl login URL` changes it."
    if error.sent and error.idempotency_key:
        yield (
            "The job may have been queued. Run the same command with --idempotency-key "
            f"{error.idempotency_key}: it returns that job instead of queuing a second one."
        )


def _token_hints(used: Connection | None) -> Iterator[str]:
    """Hints for a token that the server rejects."""
    if used is None:
        yield "Does AMPCORE_TOKEN (or the connection file) belong to this server?"
        return
    yield f"Server: {used.url}; the token comes from {used.token_from}."
    yield "An admin creates tokens with `ampctl token create NAME`; `ampctl login` saves one."

"""An error as one readable block on standard error."""

from collections.abc import Iterator

import typer

from ampclient import formats
from ampclient.errors import AmpcoreError, ConnectionFailed, ServerError, UnexpectedAnswer


def print_error(error: AmpcoreError | OSError) -> None:
    """Say what went wrong, each mistake on a line of its own, and what may help."""
    for line in error_lines(error):
        typer.echo(line, err=True)


def error_lines(error: AmpcoreError | OSError) -> list[str]:
    """The lines of the block; the first begins with `error:`."""
    if isinstance(error, OSError) and not isinstance(error, AmpcoreError):
        place = f"{error.filename}: " if error.filename else ""
        return [f"error: {place}{error.strerror or error}"]
    headline, *entries = str(error).splitlines() or [""]
    lines = [f"error: {formats.printable(headline)}{_origin(error)}"]
    lines += [f"  {formats.printable(entry)}" for entry in entries]
    lines += [f"  {hint}" for hint in _hints(error)]
    return lines


def _origin(error: AmpcoreError) -> str:
    if error.code == f"http_{error.status}":
        return ""  # nothing that the sentence does not say
    return f" ({error.code})" if error.status is None else f" ({error.code}, HTTP {error.status})"


def _hints(error: AmpcoreError) -> Iterator[str]:
    """What may help: how to go on, or what to tell whoever runs the server."""
    if isinstance(error, ConnectionFailed):
        yield "Is the server running? `ampserver up` starts one on this machine."
        if error.sent and error.idempotency_key:
            yield (
                "It may have queued the job all the same. The same command with "
                f"--idempotency-key {error.idempotency_key} finds it, and queues no second one."
            )
    if error.status == 401:
        yield "Is AMPCORE_TOKEN, or the connection file, of this server?"
    if error.status == 403:
        yield "`ampctl whoami` tells what this token may do."
    failed = isinstance(error, ServerError | UnexpectedAnswer)
    if failed and error.request_id:
        yield f"The server's log knows this request as {formats.printable(error.request_id)}."

"""An error as one readable block on standard error."""

import typer

from ampclient import formats
from ampclient.errors import AmpcoreError, ConnectionFailed


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
    if hint := _hint(error):
        lines.append(f"  {hint}")
    return lines


def _origin(error: AmpcoreError) -> str:
    if error.code == f"http_{error.status}":
        return ""  # nothing that the sentence does not say
    return f" ({error.code})" if error.status is None else f" ({error.code}, HTTP {error.status})"


def _hint(error: AmpcoreError) -> str | None:
    if isinstance(error, ConnectionFailed):
        return "Is the server running? `ampserver up` starts one on this machine."
    if error.status == 401:
        return "Is AMPCORE_TOKEN, or the connection file, of this server?"
    return None

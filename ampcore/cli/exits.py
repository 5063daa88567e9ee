"""The exit codes of the commands, and how a command ends with one."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn, TextIO

import typer

from ampcore.distributed.environment import ADDRESS_IN_USE
from ampspec.errors import AddressInUse, TrainingError

FAILED: Final = 1
BAD_SPEC: Final = 2
INTERRUPTED: Final = 130


def exit_with(message: str, code: int, stream: TextIO | None = None) -> NoReturn:
    """Print a message, to standard error without a stream, and end the command."""
    typer.echo(message, file=stream or sys.stderr)
    raise typer.Exit(code)


@contextmanager
def exits_if_training_fails(stderr: TextIO) -> Iterator[None]:
    """End the command with the reason and the message of a TrainingError."""
    try:
        yield
    except TrainingError as error:
        # Another process took the port of this rank: the launcher tries other ports.
        code = ADDRESS_IN_USE if isinstance(error, AddressInUse) else FAILED
        exit_with(f"{error.reason}: {error}", code, stderr)

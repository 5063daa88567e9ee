"""Shared by the commands of `ampserver`: settings, error exit and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from server.settings import Settings


def read_settings() -> Settings:
    """The settings from the environment; an invalid one ends the command."""
    from infra.settings import SettingsInvalid
    from server.settings import Settings

    try:
        return Settings.from_environment()
    except SettingsInvalid as error:
        fail(error)


def fail(error: Exception | str) -> NoReturn:
    """Print an error message and end the command."""
    typer.echo(str(error), err=True)
    raise typer.Exit(1)


def table(*rows: tuple[object, ...]) -> str:
    """Format rows as aligned columns; None is a dash."""
    texts = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = (
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
        for row in texts
    )
    return "\n".join(line.rstrip() for line in lines)

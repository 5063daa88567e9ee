"""What the commands of `ampserver` share: the settings, and one clear sentence when they fail."""

from typing import NoReturn

import typer

from server.settings import Settings
from service.settings import SettingsInvalid


def read_settings() -> Settings:
    """The settings of the environment; a mistake in them ends the command."""
    try:
        return Settings.from_environment()
    except SettingsInvalid as error:
        fail(error)


def fail(error: Exception | str) -> NoReturn:
    """End the command with a sentence for the person at the terminal."""
    typer.echo(str(error), err=True)
    raise typer.Exit(1)


def table(*rows: tuple[object, ...]) -> str:
    """Rows as columns of text, under each other; None is a dash."""
    texts = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = (
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
        for row in texts
    )
    return "\n".join(line.rstrip() for line in lines)

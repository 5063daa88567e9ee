"""Shared by the commands of `ampserver`: settings, error exit and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperGroup

from ampspec.documents.text import table_lines

if TYPE_CHECKING:
    from server.settings import Settings


class CommandGroup(TyperGroup):
    """The commands, with messages about options without the prefix that Typer takes over."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command. Raises BadParameter."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


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
    headings, *cells = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    return "\n".join(table_lines(headings, cells, left_aligned=headings))

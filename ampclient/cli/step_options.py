"""The options by which the steps of a job are chosen."""

from typing import Annotated

import typer

Start = Annotated[int | None, typer.Option(min=0, help="First step.", show_default=False)]
End = Annotated[int | None, typer.Option(min=0, help="Step to stop before.", show_default=False)]
Columns = Annotated[
    str | None,
    typer.Option(metavar="A,B", help="Columns, such as loss,skipped.", show_default=False),
]
Attempt = Annotated[
    int | None,
    typer.Option("--attempt", min=1, metavar="N", help="Of this one alone.", show_default=False),
]
MaxPoints = Annotated[
    int | None,
    typer.Option(
        min=2,
        max=10_000,
        metavar="N",
        help="The whole range in at most N points, each with min, max, first, last and mean.",
        show_default=False,
    ),
]


def names_in(columns: str | None) -> list[str] | None:
    """The names that --columns gives; None stands for all."""
    if columns is None:
        return None
    names = [name.strip() for name in columns.split(",") if name.strip()]
    if not set(names) - {"step"}:
        raise typer.BadParameter("expected names such as loss,skipped", param_hint="--columns")
    return names

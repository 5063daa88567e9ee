"""Arguments and options that several commands of `ampctl model` share."""

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import typer

T = TypeVar("T")

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A model, without a version.", show_default=False)
]
Reference = Annotated[
    str,
    typer.Argument(
        metavar="NAME[:N | @ALIAS]",
        help="A version of a model; without number and alias the newest one.",
        show_default=False,
    ),
]
NameOrVersion = Annotated[
    str,
    typer.Argument(
        metavar="NAME[:N | @ALIAS]",
        help="A version of a model, or a model whose VERSION follows.",
        show_default=False,
    ),
]
Number = Annotated[
    int | None,
    typer.Argument(metavar="[VERSION]", help="The number of a version.", show_default=False),
]
IfVersion = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Only if this version has the alias; 0: only if none has it.",
        show_default=False,
        min=0,
    ),
]
Reason = Annotated[
    str | None, typer.Option(help="Why, for the history.", metavar="TEXT", show_default=False)
]


def names_version(text: str) -> bool:
    """Whether a reference names a version, and no model as a whole."""
    return bool(set("@:") & set(text))


def version_reference(text: str, number: int | None) -> str:
    """The reference of the version that `NAME:N`, `NAME@ALIAS` or `NAME N` names.

    Raises BadParameter unless exactly one of reference and number names it.
    """
    if names_version(text) == (number is not None):
        raise typer.BadParameter(
            f"expected one version, as in digits:3, digits@champion or digits 3; received "
            f"{text if number is None else f'{text} {number}'}",
            param_hint="VERSION",
        )
    return text if number is None else f"{text}:{number}"


def checked(work: Callable[[], T]) -> T:
    """The result of `work`. Raises BadParameter for a malformed reference."""
    try:
        return work()
    except ValueError as error:
        raise typer.BadParameter(f"{error}.") from None


def tag_changes(tags: Sequence[str]) -> dict[str, str | None]:
    """Tags as `KEY=VALUE`; `KEY=` removes one. Raises BadParameter."""
    changes: dict[str, str | None] = {}
    for text in tags:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise typer.BadParameter(
                f"expected KEY=VALUE, or KEY= to remove a tag; received {text!r}"
            )
        changes[key] = value or None
    return changes

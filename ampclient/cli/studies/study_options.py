"""Command-line options of studies, generated from the models of the API."""

from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from ampclient.cli.studies.search_space import parse_asha, parse_space
from ampspec.api.study_requests import (
    BisectOptions,
    CapacityOptions,
    PrecisionOptions,
    SearchOptions,
    StudyOptions,
)

MODELS: Final[Mapping[str, type[StudyOptions]]] = {
    "precision": PrecisionOptions,
    "capacity": CapacityOptions,
    "bisect": BisectOptions,
    "search": SearchOptions,
}


def _names(policies: str) -> list[str]:
    names = [name.strip() for name in policies.split(",") if name.strip()]
    if not names:
        raise typer.BadParameter("expected names such as mixed_bfloat16", param_hint="--policies")
    return names


WRITTEN: Final[Mapping[str, tuple[Any, str, str, Callable[[Any], Any]]]] = {
    "policies": (str, "A,B", "", _names),
    "space": (
        list[str],
        "PATH=VALUES",
        " data.batch_size=32,64 or optimizer.learning_rate=log_uniform:1e-4,0.1; or a YAML file "
        "with the whole space. May be repeated.",
        parse_space,
    ),
    "asha": (
        str,
        "MIN_STEPS[,FACTOR]",
        " Stop runs early: after MIN_STEPS steps, and FACTOR (3) times as many, and so on, only "
        "the best 1/FACTOR train on.",
        parse_asha,
    ),
}
"""Options that are lists or objects in the API: the type of what is written, and its parser."""


def parameters_of(kind: str) -> list[Parameter]:
    """The options of a kind of study as parameters of a command."""
    return [_parameter(name, field) for name, field in MODELS[kind].model_fields.items()]


def options_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The options for the API from the arguments of the command, without those left out."""
    return {
        name: WRITTEN[name][3](value) if name in WRITTEN else value
        for name, value in arguments.items()
        if value is not None
    }


def _parameter(name: str, field: FieldInfo) -> Parameter:
    written_type, metavar, note, _ = WRITTEN.get(name, (_plain(field.annotation), None, "", None))
    default = Parameter.empty if field.is_required() else field.default
    limits = {type(limit).__name__: limit for limit in field.metadata}
    option = typer.Option(
        help=_help(field.description or "") + note,
        metavar=metavar,
        min=limits["Ge"].ge if "Ge" in limits else None,
        max=limits["Le"].le if "Le" in limits else None,
        show_default=default is not None and default is not Parameter.empty,
    )
    optional = written_type | None if default is None else written_type
    annotation = Annotated[optional, option]  # type: ignore[valid-type]  # known at run time
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _plain(annotation: Any) -> Any:
    """The type of an option without None; a long list of words is text, which the server checks."""
    [plain] = (
        [part for part in get_args(annotation) if part is not type(None)]
        if (type(None) in get_args(annotation))
        else [annotation]
    )
    while get_origin(plain) is Annotated:
        plain = get_args(plain)[0]
    is_policy = get_origin(plain) is Literal and len(get_args(plain)) > 3
    return str if is_policy else plain


def _help(description: str) -> str:
    """The description of the API: an option that is left out is null there."""
    text = description.replace("null: ", "by default ")
    return f"B{text[1:]}" if text.startswith("by default") else text

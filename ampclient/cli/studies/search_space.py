"""`--space optimizer.learning_rate=log_uniform:1e-4,0.1`: the space of a search."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import typer

from ampclient.cli.submit.grid import split_values
from ampspec.documents.yaml_document import parse_yaml
from ampspec.jobs import SpecValidationError

RANGES: Final = ("uniform", "log_uniform", "int_uniform", "log_int_uniform")
EXPECTED: Final = (
    "expected PATH=VALUE,VALUE or PATH=RANGE:LOW,HIGH[,POINTS] with a range of "
    f"{', '.join(RANGES)}, or a YAML file"
)


def parse_space(texts: Sequence[str]) -> dict[str, Any]:
    """The space of the options. Raises typer.BadParameter."""
    space: dict[str, Any] = {}
    for written in texts:
        path, equals, text = written.partition("=")
        parameters = {path: _parameter(text, written)} if equals else _file(written)
        for key, parameter in parameters.items():
            if key in space:
                raise _error(f"{key} is given twice")
            space[key] = parameter
    return space


def parse_asha(text: str) -> dict[str, int]:
    """`100` or `100,3`: the steps of the first rung, and the reduction factor."""
    numbers = text.split(",")
    if len(numbers) > 2 or not all(number.strip().isdecimal() for number in numbers):
        expected = "expected MIN_STEPS or MIN_STEPS,FACTOR, such as 100,3"
        raise typer.BadParameter(f"{expected}; received {text}.", param_hint="--asha")
    return dict(zip(("min_steps", "reduction_factor"), map(int, numbers), strict=False))


def _parameter(text: str, whole: str) -> dict[str, Any]:
    kind, colon, bounds = text.partition(":")
    if colon and kind in RANGES:
        values = _values(bounds, whole)
        if len(values) not in (2, 3):
            raise _error(f"{EXPECTED}; received {whole}")
        points = {"points": values[2]} if len(values) == 3 else {}
        return {kind: values[:2], **points}
    return {"choice": _values(text, whole)}


def _values(text: str, whole: str) -> list[Any]:
    try:
        values = [parse_yaml(value) for value in split_values(text) if value.strip()]
    except SpecValidationError as error:
        raise _error(f"{whole}: {error.problems[0].received}") from None
    if not values:
        raise _error(f"{EXPECTED}; received {whole}")
    return values


def _file(name: str) -> dict[str, Any]:
    try:
        document = parse_yaml(Path(name).read_text(encoding="utf-8"))
    except OSError:
        raise _error(f"{EXPECTED}; received {name}") from None
    except SpecValidationError as error:
        raise _error(f"{name}: {error.problems[0].received}") from None
    if not isinstance(document, dict):
        raise _error(f"{name}: expected an object with parameters by path")
    return document


def _error(message: str) -> typer.BadParameter:
    return typer.BadParameter(f"{message}.", param_hint="--space")

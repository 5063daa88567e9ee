"""Reads a job spec from a JobSpec, a mapping, a file or text."""

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any

from ampclient.errors import InvalidSpec
from ampcore.spec import JobSpec, Problem, SpecValidationError
from ampcore.spec.assignments import with_assignments
from ampcore.spec.problems import Location, format_value, json_pointer
from ampcore.spec.yaml_document import MAX_DIGITS, parse_yaml

SpecSource = JobSpec | Mapping[str, Any] | str | PathLike[str]
Document = dict[str, Any]


def spec_document(source: SpecSource) -> Document:
    """The document to send; the server validates it.

    Raises OSError for an unreadable file, InvalidSpec if it is not an object of JSON values.
    """
    match source:
        case JobSpec():
            return source.to_json()
        case str() | PathLike():
            return parse_spec_file(Path(source).read_bytes())
        case _:
            return _json_object(source)


def parse_spec_file(data: bytes, assignments: Sequence[str] = ()) -> Document:
    """Parse a YAML or JSON file and apply each `path=value` to it.

    Raises InvalidSpec.
    """
    try:
        return _json_object(with_assignments(parse_yaml(data.decode("utf-8")), assignments))
    except UnicodeDecodeError:
        problem = Problem("", "not_yaml", "UTF-8 text", "other bytes")
        raise InvalidSpec.from_problems([problem]) from None
    except SpecValidationError as error:
        raise InvalidSpec.from_problems(error.problems) from None


def parse_assignments(assignments: Sequence[str]) -> Document:
    """The value of each `path=value`, by its path. Raises InvalidSpec."""
    parse_spec_file(b"{}", assignments)  # raises for all mistakes at once
    pairs = [assignment.partition("=") for assignment in assignments]
    return {path: parse_yaml(text) for path, _, text in pairs}


def _json_object(document: object) -> Document:
    """The document as plain JSON values. Raises InvalidSpec with every other value."""
    if not isinstance(document, Mapping):
        problem = Problem("", "wrong_type", "an object", format_value(document))
        raise InvalidSpec.from_problems([problem])
    problems: list[Problem] = []
    try:
        plain: Document = _json_value(document, (), problems)
    except RecursionError:
        problems.append(Problem("", "wrong_type", "an object", "an object nested too deeply"))
    if problems:
        raise InvalidSpec.from_problems(problems)
    return plain


def _json_value(value: object, location: Location, problems: list[Problem]) -> Any:
    """The value as plain JSON: NumPy numbers become Python's; other types add a problem."""
    match value:
        case int() if abs(value) >= 10**MAX_DIGITS:
            expected = f"a number of at most {MAX_DIGITS} digits"
            problems.append(
                Problem(json_pointer(location), "wrong_type", expected, "a longer number")
            )
            return None
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {
                str(key): _json_value(v, (*location, str(key)), problems)
                for key, v in value.items()
            }
        case list() | tuple():
            return [_json_value(item, (*location, i), problems) for i, item in enumerate(value)]
        case Integral():
            return int(value)
        case Real():
            return float(value)
    problems.append(
        Problem(json_pointer(location), "wrong_type", "a JSON value", format_value(value))
    )
    return None

"""A job spec from whatever a person holds it in: a JobSpec, a mapping, a file, a text."""

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any

from ampclient.errors import InvalidSpec
from ampcore.spec import JobSpec, Problem, SpecInvalid
from ampcore.spec.assignments import with_assignments
from ampcore.spec.document import MAX_DIGITS, read_document
from ampcore.spec.problems import Location, pointer, shown

SpecSource = JobSpec | Mapping[str, Any] | str | PathLike[str]
Document = dict[str, Any]


def document_of(source: SpecSource) -> Document:
    """The document to send; the server judges it.

    Raises OSError for an unreadable file, InvalidSpec for what is no object of JSON values.
    """
    match source:
        case JobSpec():
            return source.to_json()
        case str() | PathLike():
            return document_in(Path(source).read_bytes())
        case _:
            return _object(source)


def document_in(data: bytes, assignments: Sequence[str] = ()) -> Document:
    """The document in the bytes of a YAML or JSON file, with each `path=value` set in it.

    Raises InvalidSpec.
    """
    try:
        return _object(with_assignments(read_document(data.decode("utf-8")), assignments))
    except UnicodeDecodeError:
        problem = Problem("", "not_yaml", "a text in UTF-8", "other bytes")
        raise InvalidSpec.from_problems([problem]) from None
    except SpecInvalid as error:
        raise InvalidSpec.from_problems(error.problems) from None


def assigned_in(assignments: Sequence[str]) -> Document:
    """The value of each `path=value`, by its path. Raises InvalidSpec."""
    document_in(b"{}", assignments)  # tells every mistake at once
    pairs = [assignment.partition("=") for assignment in assignments]
    return {path: read_document(text) for path, _, text in pairs}


def _object(document: object) -> Document:
    """The document in plain JSON values. Raises InvalidSpec with everything that is none."""
    if not isinstance(document, Mapping):
        problem = Problem("", "wrong_type", "an object", shown(document))
        raise InvalidSpec.from_problems([problem])
    problems: list[Problem] = []
    try:
        plain: Document = _plain(document, (), problems)
    except RecursionError:
        problems.append(Problem("", "wrong_type", "an object", "one nested too deeply"))
    if problems:
        raise InvalidSpec.from_problems(problems)
    return plain


def _plain(value: object, place: Location, problems: list[Problem]) -> Any:
    """The value as JSON has it: NumPy's numbers become Python's; what cannot be is a problem."""
    match value:
        case int() if abs(value) >= 10**MAX_DIGITS:
            expected = f"a number of at most {MAX_DIGITS} digits"
            problems.append(Problem(pointer(place), "wrong_type", expected, "one of more"))
            return None
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {str(key): _plain(v, (*place, str(key)), problems) for key, v in value.items()}
        case list() | tuple():
            return [_plain(item, (*place, i), problems) for i, item in enumerate(value)]
        case Integral():
            return int(value)
        case Real():
            return float(value)
    problems.append(Problem(pointer(place), "wrong_type", "a JSON value", shown(value)))
    return None

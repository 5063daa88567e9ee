"""A job spec from whatever a person holds it in: a JobSpec, a mapping, a file, a text."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from ampclient.errors import InvalidSpec
from ampcore.spec import JobSpec, Problem, SpecInvalid
from ampcore.spec.assignments import with_assignments
from ampcore.spec.document import read_document

SpecSource = JobSpec | Mapping[str, Any] | str | PathLike[str]


def document_of(source: SpecSource) -> Any:
    """The document to send; the server judges it. Raises OSError, or InvalidSpec if unreadable."""
    match source:
        case JobSpec():
            return source.to_json()
        case Mapping():
            return dict(source)
        case _:
            return document_in(Path(source).read_bytes())


def document_in(data: bytes, assignments: Sequence[str] = ()) -> Any:
    """The document in the bytes of a YAML or JSON file, with each `path=value` set in it.

    Raises InvalidSpec.
    """
    try:
        return with_assignments(read_document(data.decode("utf-8")), assignments)
    except UnicodeDecodeError:
        problem = Problem("", "not_yaml", "a text in UTF-8", "other bytes")
        raise InvalidSpec.from_problems([problem]) from None
    except SpecInvalid as error:
        raise InvalidSpec.from_problems(error.problems) from None

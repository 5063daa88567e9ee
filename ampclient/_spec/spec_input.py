"""Reads a job spec from a JobSpec, a mapping, a file, text, or sections with a Keras model."""

import sys
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, cast

from ampclient._http.options import RequestOptions
from ampclient.errors import InvalidSpec
from ampspec.documents.assignments import with_assignments
from ampspec.documents.problems import Location, format_value, json_pointer
from ampspec.documents.yaml_document import MAX_DIGITS, parse_yaml
from ampspec.jobs import Problem, SpecValidationError

if TYPE_CHECKING:
    from ampspec.jobs import JobSpec

SpecSource = Union["JobSpec", Mapping[str, Any], str, PathLike[str]]
Document = dict[str, Any]
Section = Mapping[str, Any]


class SpecSections(RequestOptions, total=False):
    """The sections of a spec as keyword arguments, and the options of the request."""

    model: Any
    """The section, or a functional or sequential keras.Model, which is converted."""
    data: Section
    task: Section
    init: Section
    precision: Section
    loss_scale: Section
    optimizer: Section
    optimizers: Section
    train: Section
    guard: Section
    runtime: Section
    labels: Mapping[str, str]


class SpecOptions(SpecSections, total=False):
    """The same with the name of a job."""

    name: str


def split_options(
    source: SpecSource | None, options: SpecSections
) -> tuple[Document, RequestOptions]:
    """The document of a spec with the sections among the options, and the other options.

    Raises as `spec_document` does.
    """
    names = SpecOptions.__annotations__.keys() - RequestOptions.__annotations__.keys()
    sections = {name: value for name, value in options.items() if name in names}
    request_options = cast(
        RequestOptions, {name: value for name, value in options.items() if name not in names}
    )
    if source is None:
        return _json_object(sections or None), request_options
    document = spec_document(source)
    return (document | _json_object(sections) if sections else document), request_options


def convert_model(
    source: SpecSource | None, options: SpecSections
) -> tuple[SpecSource | None, SpecSections, bytes | None]:
    """The same with a Keras model replaced by its section, and its weights as safetensors.

    Without a Keras model the weights are None. Raises InvalidSpec.
    """
    if _is_keras_model(model := options.get("model")):
        section, weights = _converted(model)
        return source, {**options, "model": section}, weights
    if isinstance(source, Mapping) and _is_keras_model(model := source.get("model")):
        section, weights = _converted(model)
        return {**source, "model": section}, options, weights
    return source, options, None


def spec_document(source: SpecSource) -> Document:
    """The document to send; the server validates it.

    Raises OSError for an unreadable file, InvalidSpec if it is not an object of JSON values.
    """
    match source:
        case str() | PathLike():
            return parse_spec_file(Path(source).read_bytes())
        case Mapping():
            return _json_object(source)
    from ampspec.jobs import JobSpec

    return source.to_json() if isinstance(source, JobSpec) else _json_object(source)


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
    if _is_keras_model(model := document.get("model")):
        document = {**document, "model": _converted(model)[0]}
    problems: list[Problem] = []
    try:
        plain: Document = _json_value(document, (), problems)
    except RecursionError:
        problems.append(Problem("", "wrong_type", "an object", "an object nested too deeply"))
    if problems:
        raise InvalidSpec.from_problems(problems)
    return plain


def _is_keras_model(value: object) -> bool:
    """Whether this is a keras.Model; Keras is imported already, if it is one."""
    keras = sys.modules.get("keras")
    return keras is not None and isinstance(value, keras.Model)


def _converted(model: object) -> tuple[Document, bytes]:
    """The section for a Keras model, without a softmax at its end, and its weights.

    Raises InvalidSpec.
    """
    from ampcore.conversion import OTHER_WAYS, NotConvertible, layers_spec_from_keras

    try:
        return layers_spec_from_keras(model, logits=True)
    except NotConvertible as error:
        received = error.reason if error.layer is None else f"{error.layer!r}: {error.reason}"
        expected = f"a Keras model of layers that a spec can describe; for any other {OTHER_WAYS}"
        problem = Problem("/model", "not_convertible", expected, received)
        raise InvalidSpec.from_problems([problem]) from error


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

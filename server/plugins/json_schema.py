"""Find the mistakes in a value of a client by the JSON schema of a package.

The schema comes from a worker and the value from a client: neither may keep the server busy, or
make it fetch another document.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import SchemaError, UnknownType
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

from ampspec.documents.problems import (
    MAX_PROBLEMS,
    MISSING,
    closest_match,
    format_value,
    json_pointer,
)
from ampspec.documents.regex_cost import MAX_MATCH_STEPS, match_cost
from ampspec.documents.text import join_names
from ampspec.jobs import Problem

MAX_VALUES: Final = 2_000
MAX_DEPTH: Final = 12
"""Of a value that is checked here: some keywords take quadratic time, or more for each level."""

TYPES: Final = {
    "array": "an array",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a text",
}
LIMITS: Final[dict[str, Callable[[Any], str]]] = {
    "minimum": "a number greater than or equal to {}".format,
    "maximum": "a number less than or equal to {}".format,
    "exclusiveMinimum": "a number greater than {}".format,
    "exclusiveMaximum": "a number less than {}".format,
    "multipleOf": "a multiple of {}".format,
    "minLength": "at least {} characters".format,
    "maxLength": "at most {} characters".format,
    "minItems": "at least {} items".format,
    "maxItems": "at most {} items".format,
    "minProperties": "at least {} fields".format,
    "maxProperties": "at most {} fields".format,
    "pattern": "a text that matches {}".format,
    "uniqueItems": lambda _: "items that are all different",
}
"""By keyword, what is expected."""


class NotChecked(Exception):
    """The value cannot be checked here, because of the schema or of the size of the value."""


def schema_problems(schema: Mapping[str, Any], value: Any, pointer: str) -> list[Problem]:
    """The mistakes in a value by a JSON schema (draft 2020-12), at most MAX_PROBLEMS.

    Args:
        schema: The schema.
        value: The value, as parsed from JSON.
        pointer: The JSON pointer of the value in its document.

    Raises:
        NotChecked: The schema is not valid, names other documents, or has a regular expression
            that Python does not have or may match for long; or the value is too large.
    """
    if _count(value, MAX_DEPTH) > MAX_VALUES:
        raise NotChecked(f"it has more than {MAX_VALUES} values or {MAX_DEPTH} levels")
    try:
        validator = _validator(json.dumps(schema))
        errors = islice(validator.iter_errors(value), MAX_PROBLEMS)
        problems = dict.fromkeys(
            problem for error in errors for problem in _problems(error, pointer)
        )
    except (SchemaError, UnknownType, Unresolvable, RecursionError, re.error) as error:
        raise NotChecked(f"{type(error).__name__} in its schema") from error
    return list(problems)[:MAX_PROBLEMS]


def _count(value: Any, levels: int) -> int:
    """The number of values in a value; over MAX_VALUES if it has more levels."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, list):
        return 1
    if levels == 0 or len(value) > MAX_VALUES:
        return MAX_VALUES + 1
    return 1 + sum(_count(part, levels - 1) for part in value)


def _fast_pattern(
    _validator: Any, pattern: str, value: Any, _schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(value, str):
        return
    if match_cost(pattern, len(value)) > MAX_MATCH_STEPS:
        raise NotChecked(f"{pattern!r} may take long to match")
    if not re.search(pattern, value):
        yield ValidationError("")


_Validator: Final = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator, {"pattern": _fast_pattern}
)


@lru_cache(maxsize=64)
def _validator(schema: str) -> Any:
    if '"patternProperties": ' in schema:  # two keywords search these patterns
        raise NotChecked("its schema has names by regular expressions")
    document = json.loads(schema)
    Draft202012Validator.check_schema(document)
    return _Validator(document, registry=Registry())  # an empty registry fetches nothing


def _problems(error: Any, pointer: str) -> Iterator[Problem]:
    """The problems of an error of jsonschema; a union has those of its closest alternative."""
    at = pointer + json_pointer(error.absolute_path)
    keyword, constraint, received = error.validator, error.validator_value, error.instance
    match keyword:
        case "required":
            for name in constraint:
                if name not in received:
                    yield Problem(at + json_pointer([name]), MISSING, "a value", "nothing")
        case "additionalProperties" if constraint is False:
            field_names = sorted(error.schema.get("properties", {}))
            expected = f"one of the fields {', '.join(field_names)}" if field_names else "no fields"
            for name in received:
                if name not in field_names:
                    yield _problem(
                        at + json_pointer([name]), "unknown_field", expected, name, field_names
                    )
        case "type":
            if not {"enum", "const"} & error.schema.keys():  # these say more
                yield _problem(at, "wrong_type", _type_names([constraint]), received)
        case "enum" | "const":
            values = constraint if keyword == "enum" else [constraint]
            expected = join_names(map(format_value, values), 20)
            yield _problem(at, "unknown_value", expected, received, map(str, values))
        case "anyOf" | "oneOf" if error.context:
            yield from _closest(error, pointer)
        case _ if keyword in LIMITS:
            yield _problem(at, "invalid_value", LIMITS[keyword](constraint), received)
        case _:
            yield _problem(at, "invalid_value", f"a value that satisfies {keyword!r}", received)


def _closest(error: Any, pointer: str) -> Iterator[Problem]:
    """The problems of the alternative that the value was probably meant for."""
    alternatives: dict[int, list[Any]] = {}
    for inner in error.context:
        alternatives.setdefault(inner.relative_schema_path[0], []).append(inner)
    tag = error.schema.get("discriminator", {}).get("propertyName")
    fitting = [errors for errors in alternatives.values() if not _is_other(errors, tag)]
    if fitting:
        for inner in min(fitting, key=len):
            yield from _problems(inner, pointer)
        return
    at, received = pointer + json_pointer(error.absolute_path), error.instance
    if tag is not None and isinstance(received, dict):
        tags = list(error.schema["discriminator"].get("mapping", {}))
        here = at + json_pointer([tag])
        if tag in received:
            yield _problem(here, "unknown_kind", f"one of {', '.join(tags)}", received[tag], tags)
        else:
            yield Problem(here, MISSING, "a value", "nothing")
        return
    types = [
        inner.validator_value
        for errors in alternatives.values()
        for inner in errors
        if inner.validator == "type"
    ]
    yield _problem(at, "wrong_type", _type_names(types) or "another value", received)


def _is_other(errors: Iterable[Any], tag: str | None) -> bool:
    """Whether an alternative is for values of another type, or of another tag."""
    return any(
        (inner.validator == "type" and not inner.relative_path)
        or (tag is not None and list(inner.relative_path) == [tag])
        or (
            inner.validator == "required"
            and tag in inner.validator_value
            and tag not in inner.instance
        )
        for inner in errors
    )


def _type_names(types: Iterable[Any]) -> str:
    names = [name for kind in types for name in ([kind] if isinstance(kind, str) else kind)]
    return join_names(dict.fromkeys(TYPES.get(name, name) for name in names), 20)


def _problem(
    pointer: str, code: str, expected: str, received: Any, candidates: Iterable[str] = ()
) -> Problem:
    suggestion = closest_match(received, candidates)
    return Problem(pointer, code, expected, format_value(received), suggestion)

"""`precision.policy=float32`: change single fields of a spec's document, as on a command line."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ampspec.documents.problems import MAX_RECEIVED, Problem, SpecValidationError, json_pointer
from ampspec.documents.yaml_document import parse_yaml

MAX_DEPTH: Final = 32
"""Maximum number of keys in a path; no spec is nested this deeply."""


def with_assignments(document: Any, assignments: Sequence[str]) -> Any:
    """The document with each `path=value` set, in order; missing objects are created.

    Values are YAML: `train.epochs=5` is a number, `model.filters=[16, 32]` a list. Numbers in
    a path are indices of a list, from 0. Raises SpecValidationError with every bad assignment.
    """
    problems = []
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        keys = path.split(".")
        if not equals or not all(keys) or len(keys) > MAX_DEPTH:
            expected = "path=value, such as precision.policy=float32"
            problems.append(Problem("", "bad_assignment", expected, assignment))
            continue
        try:
            document = _replaced(document, keys, parse_yaml(text))
        except SpecValidationError as error:
            problems += _problems_at(error, keys)
        except (TypeError, IndexError, ValueError):
            location = json_pointer(keys)
            problems.append(
                Problem(location, "bad_assignment", "a path that exists in the spec", assignment)
            )
    if problems:
        raise SpecValidationError(problems)
    return document


def with_values(document: Any, values: Mapping[str, Any]) -> Any:
    """Set values by dotted path, like `with_assignments` without parsing: {"train.epochs": 5}."""
    problems = []
    for path, value in values.items():
        try:
            document = _replaced(document, _keys(path), value)
        except (TypeError, IndexError, ValueError):  # ValueError: a number of very many digits
            expected = "a path in the spec, such as precision.policy"
            received = path[:MAX_RECEIVED]
            location = json_pointer(["set", received])
            problems.append(Problem(location, "bad_assignment", expected, received))
    if problems:
        raise SpecValidationError(problems)
    return document


def _keys(path: str) -> list[str]:
    keys = path.split(".", MAX_DEPTH)
    if len(keys) > MAX_DEPTH:
        raise IndexError(len(keys))
    return keys


def _problems_at(error: SpecValidationError, keys: list[str]) -> Iterator[Problem]:
    for problem in error.problems:
        yield Problem(json_pointer(keys), problem.code, "a YAML value", problem.received)


def _replaced(node: Any, keys: Sequence[str], value: Any) -> Any:
    """A copy of `node` with `value` under `keys`."""
    if not keys:
        return value
    key, *inner_keys = keys
    if not key:
        raise TypeError(key)
    if node is None:
        return {key: _replaced(None, inner_keys, value)}
    if isinstance(node, dict):
        return {**node, key: _replaced(node.get(key), inner_keys, value)}
    if isinstance(node, list) and key.isdecimal():
        index = int(key)
        return [*node[:index], _replaced(node[index], inner_keys, value), *node[index + 1 :]]
    raise TypeError(key)

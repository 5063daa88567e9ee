"""`precision.policy=float32`: change single fields of a spec's document, as on a command line."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ampcore.spec.document import read_document
from ampcore.spec.problems import MAX_RECEIVED, Problem, SpecInvalid, pointer

DEEPEST: Final = 32
"""Keys in a path; no spec is nested so deeply."""


def with_assignments(document: Any, assignments: Sequence[str]) -> Any:
    """The document with each `path=value` set, in order; missing objects on the way are made.

    Values are YAML: `train.epochs=5` is a number, `model.filters=[16, 32]` a list. Numbers in
    a path count the items of a list from 0. Raises SpecInvalid with every bad assignment.
    """
    problems = []
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        keys = path.split(".")
        if not equals or not all(keys) or len(keys) > DEEPEST:
            expected = "path=value, as in precision.policy=float32"
            problems.append(Problem("", "bad_assignment", expected, assignment))
            continue
        try:
            document = _with(document, keys, read_document(text))
        except SpecInvalid as error:
            problems += _placed(error, keys)
        except (TypeError, IndexError, ValueError):
            place = pointer(keys)
            problems.append(Problem(place, "bad_assignment", "a place in the spec", assignment))
    if problems:
        raise SpecInvalid(problems)
    return document


def with_values(document: Any, values: Mapping[str, Any]) -> Any:
    """As `with_assignments`, with the value of each path as it is: {"train.epochs": 5}."""
    problems = []
    for path, value in values.items():
        try:
            document = _with(document, _keys(path), value)
        except (TypeError, IndexError, ValueError):  # ValueError: a number of very many digits
            expected = "the path of a place in the spec, as in precision.policy"
            received = path[:MAX_RECEIVED]
            place = pointer(["set", received])
            problems.append(Problem(place, "bad_assignment", expected, received))
    if problems:
        raise SpecInvalid(problems)
    return document


def _keys(path: str) -> list[str]:
    keys = path.split(".", DEEPEST)
    if len(keys) > DEEPEST:
        raise IndexError(len(keys))
    return keys


def _placed(error: SpecInvalid, keys: list[str]) -> Iterator[Problem]:
    for problem in error.problems:
        yield Problem(pointer(keys), problem.code, "a YAML value", problem.received)


def _with(place: Any, keys: Sequence[str], value: Any) -> Any:
    """A copy of `place` in which the value under `keys` is another one."""
    if not keys:
        return value
    key, *rest = keys
    if not key:
        raise TypeError(key)
    if place is None:
        return {key: _with(None, rest, value)}
    if isinstance(place, dict):
        return {**place, key: _with(place.get(key), rest, value)}
    if isinstance(place, list) and key.isdecimal():
        index = int(key)
        return [*place[:index], _with(place[index], rest, value), *place[index + 1 :]]
    raise TypeError(key)

"""`precision.policy=float32`: change single fields of a spec's document, as on a command line."""

from collections.abc import Iterator, Sequence
from typing import Any

from ampcore.spec.document import read_document
from ampcore.spec.problems import Problem, SpecInvalid, pointer


def with_assignments(document: Any, assignments: Sequence[str]) -> Any:
    """The document with each `path=value` set, in order; missing objects on the way are made.

    Values are YAML: `train.epochs=5` is a number, `model.filters=[16, 32]` a list. Numbers in
    a path count the items of a list from 0. Raises SpecInvalid with every bad assignment.
    """
    problems = []
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        keys = path.split(".")
        if not equals or not all(keys):
            expected = "path=value, as in precision.policy=float32"
            problems.append(Problem("", "bad_assignment", expected, assignment))
            continue
        try:
            document = _with(document, keys, read_document(text))
        except SpecInvalid as error:
            problems += _placed(error, keys)
        except (TypeError, IndexError):
            place = pointer(keys)
            problems.append(Problem(place, "bad_assignment", "a place in the spec", assignment))
    if problems:
        raise SpecInvalid(problems)
    return document


def _placed(error: SpecInvalid, keys: list[str]) -> Iterator[Problem]:
    for problem in error.problems:
        yield Problem(pointer(keys), problem.code, "a YAML value", problem.received)


def _with(place: Any, keys: Sequence[str], value: Any) -> Any:
    """A copy of `place` in which the value under `keys` is another one."""
    if not keys:
        return value
    key, *rest = keys
    if place is None:
        return {key: _with(None, rest, value)}
    if isinstance(place, dict):
        return {**place, key: _with(place.get(key), rest, value)}
    if isinstance(place, list) and key.isdecimal():
        index = int(key)
        return [*place[:index], _with(place[index], rest, value), *place[index + 1 :]]
    raise TypeError(key)

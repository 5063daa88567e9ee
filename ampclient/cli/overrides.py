"""`--set precision.policy=float32`: change one field of a spec from the command line."""

from collections.abc import Sequence
from typing import Any

import typer

from ampcore.spec import SpecInvalid
from ampcore.spec.document import read_document


def apply_overrides(document: Any, assignments: Sequence[str]) -> Any:
    """The document with each `path=value` set, in order; missing objects on the way are made.

    Values are YAML: `train.epochs=5` is a number, `model.filters=[16, 32]` a list. Numbers in
    a path count the items of a list from 0. Raises typer.BadParameter.
    """
    for assignment in assignments:
        path, equals, value = assignment.partition("=")
        keys = path.split(".")
        if not equals or not all(keys):
            raise _refusal(assignment, "expected path=value, as in precision.policy=float32")
        try:
            document = _with(document, keys, read_document(value))
        except SpecInvalid:
            raise _refusal(assignment, f"expected a YAML value; received {value!r}") from None
        except (TypeError, IndexError):
            raise _refusal(assignment, f"the spec has no place {path!r}") from None
    return document


def _with(place: Any, keys: Sequence[str], value: Any) -> Any:
    """A copy of `place` in which the value under `keys` is another one."""
    if not keys:
        return value
    key, *rest = keys
    match place:
        case None:
            return {key: _with(None, rest, value)}
        case dict():
            return {**place, key: _with(place.get(key), rest, value)}
        case list() if key.isdecimal() and int(key) < len(place):
            index = int(key)
            return [*place[:index], _with(place[index], rest, value), *place[index + 1 :]]
    raise TypeError(f"expected an object or a list at {key!r}, received {place!r}")


def _refusal(assignment: str, reason: str) -> typer.BadParameter:
    return typer.BadParameter(f"{assignment!r}: {reason}", param_hint="--set")

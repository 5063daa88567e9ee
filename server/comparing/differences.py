"""In which places documents differ, and what each of them has there."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ampcore.spec.problems import pointer

Place = tuple[str, ...]


def differences(documents: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Any]]]:
    """The JSON pointers of the places where not all have the same, and the values of each.

    None where a document has no such place; a list is one value, whatever it holds.
    """
    leaves = [dict(_leaves(document)) for document in documents]
    places = dict.fromkeys(place for each in leaves for place in each)
    told = {place: [each.get(place) for each in leaves] for place in places}
    return [
        (pointer(place), values)
        for place, values in told.items()
        if any(value != values[0] for value in values)
    ]


def _leaves(document: Mapping[str, Any], place: Place = ()) -> Iterator[tuple[Place, Any]]:
    for name, value in document.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*place, name))
        else:
            yield (*place, name), value

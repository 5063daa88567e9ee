"""A part of an answer as a frozen value; fields of a newer server are left out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

Reader = Callable[[Any], Any]


def number(value: Any) -> float:
    """A number as the API writes it: NaN and the infinities are strings; null is unknown, NaN."""
    return float("nan") if value is None else float(value)


def count(value: Any) -> int:
    """A count; null is none yet."""
    return 0 if value is None else int(value)


def total(value: Any) -> float:
    """A sum; null is nothing yet."""
    return 0.0 if value is None else float(value)


def restored(value: Any) -> Any:
    """`value` with the names of the non-finite numbers in it turned back into numbers."""
    match value:
        case "NaN" | "Infinity" | "-Infinity":
            return float(value)
        case dict():
            return {key: restored(item) for key, item in value.items()}
        case list():
            return [restored(item) for item in value]
    return value


def optional(reader: Reader) -> Reader:
    """The same reader, with null read as None."""
    return lambda value: None if value is None else reader(value)


@dataclass(frozen=True, kw_only=True)
class View:
    """A part of an answer: typed fields, and the JSON document that they were read from."""

    document: Mapping[str, Any] = field(repr=False, compare=False)

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """How to read those fields that are not plain JSON values."""
        return {}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read the document; KeyError, TypeError or ValueError when it is not what it should be."""
        readers = cls.readers()
        names = [f.name for f in fields(cls) if f.init and f.name in document]
        values = {name: readers.get(name, _same)(document[name]) for name in names}
        return cls(document=document, **values)

    def to_json(self) -> dict[str, Any]:
        """The document as the server sent it: valid JSON, non-finite numbers as strings."""
        return dict(self.document)


def _same(value: Any) -> Any:
    return value

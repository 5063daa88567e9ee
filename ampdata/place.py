"""Place: a position in a file, for messages."""

from typing import NamedTuple

from ampspec.errors import InvalidData


class Place(NamedTuple):
    """A file, and a row, column or record in it."""

    name: str
    field: str | None = None

    def invalid(self, expected: str, received: str) -> InvalidData:
        """The error for this place."""
        return InvalidData(self.name, self.field, expected=expected, received=received)

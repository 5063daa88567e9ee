"""Lists that a notebook shows as tables: lazy paginated ones, and complete ones."""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final, Generic, Self, TypeVar

from ampclient import notebook_html

T = TypeVar("T")
MAX_ROWS_SHOWN: Final = 20
"""How many items of a lazy list a notebook shows."""


class PagedIterator(Iterator[T], Generic[T]):
    """An iterator that requests each page when it is needed.

    A notebook shows its next items without consuming them.
    """

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self._seen: deque[T] = deque()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        return self._seen.popleft() if self._seen else next(self._items)

    def _repr_html_(self) -> str:
        self._seen.extend(islice(self._items, max(0, MAX_ROWS_SHOWN + 1 - len(self._seen))))
        more = "… and more" if len(self._seen) > MAX_ROWS_SHOWN else ""
        return notebook_html.items_table(list(islice(self._seen, MAX_ROWS_SHOWN)), more)


class TableList(list[T]):
    """A list that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return notebook_html.items_table(self)

"""Lists: lazy ones, which request each page when it is needed, and complete ones."""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, overload

from ampclient._display import notebook_html

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
MAX_ROWS_SHOWN: Final = 20
"""How many items of a lazy list a notebook shows."""


class PagedIterator(Iterator[T], Generic[T]):
    """An iterator that requests each page when it is needed.

    `bool`, `len` and an index request the pages that they need, and consume nothing: they are about
    the items that are still to come. A notebook shows the next items as a table. The error of a
    request is raised again whenever a later item is needed.
    """

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self._fetched: deque[T] = deque()
        self._error: Exception | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        self._fetch(1)
        if not self._fetched:
            raise StopIteration
        return self._fetched.popleft()

    def __bool__(self) -> bool:
        self._fetch(1)
        return bool(self._fetched)

    def __len__(self) -> int:
        self._fetch(None)
        return len(self._fetched)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            self._fetch(None)
            return list(self._fetched)[index]
        self._fetch(index + 1 if index >= 0 else None)
        return self._fetched[index]

    def close(self) -> None:
        """Request no further pages."""
        self._items, self._error = iter(()), None

    def _fetch(self, count: int | None) -> None:
        """Request pages until this many items are here; None: all."""
        missing = None if count is None else max(0, count - len(self._fetched))
        if missing == 0:
            return
        if self._error is not None:
            raise self._error
        try:
            self._fetched.extend(islice(self._items, missing))
        except BaseException as error:
            # The generator has ended. Without the error the list would look complete: `list()`
            # ignores a TypeError of `__len__`.
            self._error = _repeatable(error)
            raise

    def _repr_html_(self) -> str:
        self._fetch(MAX_ROWS_SHOWN + 1)
        more = "… and more" if len(self._fetched) > MAX_ROWS_SHOWN else ""
        return notebook_html.items_table(list(islice(self._fetched, MAX_ROWS_SHOWN)), more)


class PagedList(PagedIterator[T]):
    """The same for a list that is short: iterating keeps its items, and may be repeated.

    Its first page is requested at once. It is shown, added and pickled as a list.
    """

    def __init__(self, items: Iterator[T]) -> None:
        super().__init__(items)
        self._fetch(1)

    def __iter__(self) -> Iterator[T]:  # type: ignore[override]  # each iteration has its own place
        index = 0
        while True:
            self._fetch(index + 1)
            if index == len(self._fetched):
                return
            yield self._fetched[index]
            index += 1

    def __eq__(self, value: object) -> bool:
        """Whether both have the same items."""
        if not isinstance(value, list | PagedList):
            return NotImplemented
        return list(self) == list(value)

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __repr__(self) -> str:
        return repr(list(self))

    def __add__(self, items: "list[T] | PagedList[T]") -> list[T]:
        if not isinstance(items, list | PagedList):
            return NotImplemented
        return [*self, *items]

    def __radd__(self, items: list[T]) -> list[T]:
        return [*items, *self] if isinstance(items, list) else NotImplemented

    def __reduce__(self) -> tuple[type[list[T]], tuple[list[T]]]:
        return list, (list(self),)


class AsyncPagedIterator(AsyncIterator[T], Coroutine[Any, Any, "TableList[T]"], Generic[T]):
    """The same for `async for`; awaited, it is the list of all its items.

    It may be awaited again, and is a coroutine for `asyncio.create_task`.
    """

    def __init__(self, items: AsyncGenerator[T, None]) -> None:
        self._items = items
        self._error: Exception | None = None
        self._collected: TableList[T] | None = None
        self._coroutine: Coroutine[Any, Any, TableList[T]] | None = None
        self._collecting: asyncio.Lock | None = None

    async def __anext__(self) -> T:
        if self._error is not None:
            raise self._error
        try:
            return await anext(self._items)
        except StopAsyncIteration:
            raise
        except BaseException as error:
            self._error = _repeatable(error)
            raise

    def __await__(self) -> Generator[Any, Any, "TableList[T]"]:
        return self._collect().__await__()

    def send(self, value: Any) -> Any:
        """Continue as a coroutine."""
        return self._started().send(value)

    def throw(self, *error: Any) -> Any:
        """Continue as a coroutine, with an error."""
        return self._started().throw(*error)

    def close(self) -> None:
        """End as a coroutine."""
        self._started().close()

    async def aclose(self) -> None:
        """Request no further pages."""
        await self._items.aclose()

    def _started(self) -> Coroutine[Any, Any, "TableList[T]"]:
        if self._coroutine is None:
            self._coroutine = self._collect()
        return self._coroutine

    async def _collect(self) -> "TableList[T]":
        from asyncio import Lock  # only when needed: clients that do not wait start without it

        self._collecting = self._collecting or Lock()
        async with self._collecting:
            if self._collected is None:
                self._collected = TableList([item async for item in self])
            return self._collected


def _repeatable(error: BaseException) -> Exception:
    """The error to raise when the rest of an incomplete list is needed."""
    if isinstance(error, Exception):
        return error
    return RuntimeError("reading the list was interrupted; request it again")


class TableList(list[T]):
    """A list that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return notebook_html.items_table(self)

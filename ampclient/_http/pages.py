"""Reads the pages of a list, one after another."""

from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from typing import Protocol, TypeVar

from ampclient._endpoints.request import JsonRequest
from ampclient._http.options import RequestOptions, checked_options
from ampclient._http.transport import Transport

T = TypeVar("T")
Item_co = TypeVar("Item_co", covariant=True)


class Page(Protocol[Item_co]):
    """One page of a list, and the cursor of the next page."""

    @property
    def items(self) -> Sequence[Item_co]:
        """The items of this page."""

    @property
    def next_cursor(self) -> str | None:
        """None: this is the last page."""


def read_pages(
    transport: Transport,
    page_request: Callable[[int, str | None], JsonRequest[Page[T]]],
    options: RequestOptions,
    *,
    page_size: int,
    limit: int | None,
    key: Callable[[T], Hashable] | None = None,
) -> AsyncGenerator[T, None]:
    """The items of all pages, at most `limit`.

    Args:
        transport: Sends the requests.
        page_request: The request of a page, from its size and its cursor.
        options: Those of every request.
        page_size: Maximum number of items per page.
        limit: Maximum number of items; None: all.
        key: Tells items apart, where one that changed is listed again; each is returned once.

    Raises:
        TypeError: At once, for an option that does not exist.
    """
    options = checked_options(options)
    return _read_pages(transport, page_request, options, page_size=page_size, limit=limit, key=key)


async def _read_pages(
    transport: Transport,
    page_request: Callable[[int, str | None], JsonRequest[Page[T]]],
    options: RequestOptions,
    *,
    page_size: int,
    limit: int | None,
    key: Callable[[T], Hashable] | None,
) -> AsyncGenerator[T, None]:
    size = page_size if limit is None else max(1, min(limit, page_size))
    seen: set[Hashable] = set()
    cursor, count = None, 0
    while limit is None or count < limit:
        page = await transport.send(page_request(size, cursor), **options)
        for item in page.items:
            if key is not None:
                if key(item) in seen:
                    continue
                seen.add(key(item))
            if count == limit:
                return
            count += 1
            yield item
        cursor = page.next_cursor
        if cursor is None:
            return

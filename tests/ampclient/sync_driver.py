"""Drives the async client from sync code, so that one test covers both clients."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any

from ampclient import AsyncJob
from ampclient._http.operations import Operations
from ampclient._http.paging import AsyncPagedIterator


class SyncDriver:
    """Wraps an object of the async client; its coroutines run to their end on the loop."""

    def __init__(self, target: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._target = target
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return drive(getattr(self._target, name), self._loop)

    def __eq__(self, other: object) -> bool:
        return bool(self._target == unwrap(other))

    def __hash__(self) -> int:
        return hash(self._target)

    def __repr__(self) -> str:
        return repr(self._target)


def unwrap(value: Any) -> Any:
    """The wrapped object of a SyncDriver, also inside lists."""
    if isinstance(value, SyncDriver):
        return value._target
    return [unwrap(item) for item in value] if isinstance(value, list | tuple) else value


def drive(value: Any, loop: asyncio.AbstractEventLoop) -> Any:
    """Run coroutines in the value on the loop, and wrap async objects."""
    match value:
        case AsyncGenerator() | AsyncPagedIterator():
            return _iterated(value, loop)
        case Coroutine():
            return drive(loop.run_until_complete(value), loop)
        case AsyncJob() | Operations():
            return SyncDriver(value, loop)
        case list():
            return [drive(item, loop) for item in value]
        case Callable():
            return lambda *args, **kwargs: drive(
                value(*map(unwrap, args), **_callbacks(kwargs, loop)), loop
            )
    return value


def _callbacks(kwargs: dict[str, Any], loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
    """Wrap the arguments of a test's callback functions, too."""
    return {
        name: (lambda *args, call=value: call(*(drive(arg, loop) for arg in args)))
        if callable(value)
        else unwrap(value)
        for name, value in kwargs.items()
    }


def _iterated(
    items: AsyncGenerator[Any, None] | AsyncPagedIterator[Any], loop: asyncio.AbstractEventLoop
) -> Iterator[Any]:
    try:
        while True:
            try:
                item = loop.run_until_complete(anext(items))
            except StopAsyncIteration:
                return
            yield drive(item, loop)
    finally:
        loop.run_until_complete(items.aclose())

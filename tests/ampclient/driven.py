"""An asynchronous client driven from plain code, so that one test speaks to both faces."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any

from ampclient import AsyncJob
from ampclient.faces import Async


class Driven:
    """An object of the asynchronous face; what it awaits is run here, to its end."""

    def __init__(self, target: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._target = target
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return driven(getattr(self._target, name), self._loop)

    def __eq__(self, other: object) -> bool:
        return bool(self._target == plain(other))

    def __hash__(self) -> int:
        return hash(self._target)

    def __repr__(self) -> str:
        return repr(self._target)


def plain(value: Any) -> Any:
    """What is behind a driven one."""
    if isinstance(value, Driven):
        return value._target
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def driven(value: Any, loop: asyncio.AbstractEventLoop) -> Any:
    """The value, with everything that must be awaited run by the loop."""
    match value:
        case AsyncGenerator():
            return _iterated(value, loop)
        case Coroutine():
            return driven(loop.run_until_complete(value), loop)
        case AsyncJob() | Async():
            return Driven(value, loop)
        case list():
            return [driven(item, loop) for item in value]
        case Callable():
            return lambda *args, **named: driven(
                value(*map(plain, args), **_callbacks(named, loop)), loop
            )
    return value


def _callbacks(named: dict[str, Any], loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
    """What a test's own functions are called with is driven, too."""
    return {
        name: (lambda *args, call=value: call(*(driven(arg, loop) for arg in args)))
        if callable(value)
        else plain(value)
        for name, value in named.items()
    }


def _iterated(items: AsyncGenerator[Any, None], loop: asyncio.AbstractEventLoop) -> Iterator[Any]:
    try:
        while True:
            try:
                item = loop.run_until_complete(anext(items))
            except StopAsyncIteration:
                return
            yield driven(item, loop)
    finally:
        loop.run_until_complete(items.aclose())

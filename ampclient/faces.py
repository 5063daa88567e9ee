"""Two faces of one method: it is written once, as a coroutine, and called from plain or async code.

Such a coroutine waits for nothing but its wire. Over a blocking one it never pauses, so that plain
code can run it to its end in one go, without an event loop.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from functools import update_wrapper
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from ampclient.listing import Listing

P = ParamSpec("P")
T = TypeVar("T")


class Sync:
    """Its operations answer with what they found; its series are iterated with `for`."""


class Async:
    """Its operations are awaited; its series are iterated with `async for`."""


def finished(awaitable: Awaitable[T]) -> T:
    """The outcome of what never pauses."""
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration as end:
        outcome: T = end.value
        return outcome
    # Raised where it paused, and from there through all that must be closed.
    steps.throw(RuntimeError("expected a wire that blocks, received one that needs a loop"))
    raise AssertionError("it went on after an error")


def iterated(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """The items of what never pauses, each when it is asked for."""
    try:
        while True:
            try:
                item = finished(anext(items))
            except StopAsyncIteration:
                return
            yield item
    finally:
        finished(items.aclose())


class _Both:
    """A method in its two faces, told apart by the class through which it is called."""

    def __init__(self, method: Callable[..., Any], plain: Callable[..., Any]) -> None:
        self._method = method
        self._plain = update_wrapper(plain, method)
        self.__doc__ = method.__doc__

    def bound(self, instance: object, owner: type) -> Any:
        """The face that `owner` shows, as a method of `instance`."""
        method = self._plain if issubclass(owner, Sync) else self._method
        return method if instance is None else MethodType(method, instance)


class operation(_Both, Generic[P, T]):  # noqa: N801 - a decorator, as property is
    """A coroutine that plain code calls as a function."""

    def __init__(self, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        def plain(*args: Any, **named: Any) -> T:
            return finished(method(*args, **named))

        super().__init__(method, plain)

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Sync, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, instance: Async, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, instance: object, owner: type) -> Any:
        return self.bound(instance, owner)


class series(_Both, Generic[P, T]):  # noqa: N801 - a decorator, as property is
    """An asynchronous generator that plain code iterates with `for`."""

    def __init__(self, method: Callable[Concatenate[Any, P], AsyncGenerator[T, None]]) -> None:
        def plain(*args: Any, **named: Any) -> Iterator[T]:
            return iterated(method(*args, **named))

        super().__init__(method, plain)

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Sync, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, instance: Async, owner: type) -> Callable[P, AsyncGenerator[T, None]]: ...
    def __get__(self, instance: object, owner: type) -> Any:
        return self.bound(instance, owner)


class listing(_Both, Generic[P, T]):  # noqa: N801 - a decorator, as property is
    """A series that is found page by page, of which a notebook shows the beginning."""

    def __init__(self, method: Callable[Concatenate[Any, P], AsyncGenerator[T, None]]) -> None:
        def plain(*args: Any, **named: Any) -> Listing[T]:
            return Listing(iterated(method(*args, **named)))

        super().__init__(method, plain)

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Sync, owner: type) -> Callable[P, Listing[T]]: ...
    @overload
    def __get__(self, instance: Async, owner: type) -> Callable[P, AsyncGenerator[T, None]]: ...
    def __get__(self, instance: object, owner: type) -> Any:
        return self.bound(instance, owner)

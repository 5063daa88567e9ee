"""One implementation of each method for sync and async clients: it is written as a coroutine.

Such a coroutine awaits only its HTTP backend. With a blocking backend it never suspends, so sync
code can run it to completion in one step, without an event loop.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from functools import update_wrapper
from inspect import Parameter, Signature, signature
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, get_args, get_type_hints, overload

from ampclient._raw_response import RawResponse, record_responses
from ampclient._request_options import RequestOptions
from ampclient.paging import PagedIterator

P = ParamSpec("P")
T = TypeVar("T")


class Sync:
    """Operations return results; iterators are used with `for`."""


class Async:
    """Operations are awaited; iterators are used with `async for`."""


class SyncRaw:
    """Operations return a RawResponse; iterators are not available."""


class AsyncRaw:
    """Operations are awaited and return a RawResponse; iterators are not available."""


def run_sync(awaitable: Awaitable[T]) -> T:
    """The result of an awaitable that never suspends."""
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration as end:
        outcome: T = end.value
        return outcome
    # Raised where it suspended, so that its `finally` blocks run.
    steps.throw(RuntimeError("the sync client awaited something that needs an event loop"))
    raise AssertionError("the coroutine continued after an error")


def iterate_sync(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """The items of an async generator that never suspends, lazily."""
    try:
        while True:
            try:
                item = run_sync(anext(items))
            except StopAsyncIteration:
                return
            yield item
    finally:
        run_sync(items.aclose())


class _DualMethod:
    """A method with a sync and an async variant; the class it is called through selects one."""

    def __init__(self, method: Callable[..., Any], sync_method: Callable[..., Any]) -> None:
        self._method = method
        self._sync_method = update_wrapper(sync_method, method)
        self.__doc__ = method.__doc__
        expanded = _expanded_signature(method)
        for one in (method, sync_method):
            one.__signature__ = expanded  # type: ignore[attr-defined]

    def _bind(self, instance: object, owner: type) -> Any:
        """The variant for `owner`, as a method of `instance`."""
        if issubclass(owner, SyncRaw | AsyncRaw):
            raise AttributeError(
                f"{self._method.__name__} returns items of several responses and has no raw one: "
                "call it without with_raw_response"
            )
        return _bound(self._sync_method if issubclass(owner, Sync) else self._method, instance)


def _bound(method: Callable[..., Any], instance: object) -> Callable[..., Any]:
    return method if instance is None else MethodType(method, instance)


def _expanded_signature(method: Callable[..., Any]) -> Signature:
    """The signature with the options as the keyword arguments they are, for help() and TAB."""
    own = signature(method)
    parameters = [p for p in own.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
    for options in own.parameters.values():
        if options.kind is Parameter.VAR_KEYWORD:
            [typed] = get_args(options.annotation) or [RequestOptions]
            parameters += [
                Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=type_)
                for name, type_ in get_type_hints(typed).items()
            ]
    return own.replace(parameters=parameters)


class operation(_DualMethod, Generic[P, T]):  # noqa: N801 - a decorator, as property is
    """A coroutine method that sync clients call as a plain function."""

    def __init__(self, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        def sync_method(*args: Any, **named: Any) -> T:
            return run_sync(method(*args, **named))

        async def raw_method(*args: Any, **named: Any) -> RawResponse[T]:
            with record_responses() as responses:
                result = await method(*args, **named)
            return RawResponse(responses[-1], result)

        def sync_raw_method(*args: Any, **named: Any) -> RawResponse[T]:
            return run_sync(raw_method(*args, **named))

        super().__init__(method, sync_method)
        self._raw_methods: dict[type, Callable[..., Any]] = {
            SyncRaw: update_wrapper(sync_raw_method, sync_method),
            AsyncRaw: update_wrapper(raw_method, sync_method),
        }

    def _bind(self, instance: object, owner: type) -> Any:
        for mode, method in self._raw_methods.items():
            if issubclass(owner, mode):
                return _bound(method, instance)
        return super()._bind(instance, owner)

    @overload
    def __get__(self, instance: SyncRaw, owner: type) -> Callable[P, RawResponse[T]]: ...
    @overload
    def __get__(
        self, instance: AsyncRaw, owner: type
    ) -> Callable[P, Coroutine[Any, Any, RawResponse[T]]]: ...
    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Sync, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, instance: Async, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, instance: object, owner: type) -> Any:
        return self._bind(instance, owner)


class iterator(_DualMethod, Generic[P, T]):  # noqa: N801 - a decorator, as property is
    """An async generator method that sync clients iterate with `for`."""

    def __init__(self, method: Callable[Concatenate[Any, P], AsyncGenerator[T, None]]) -> None:
        def sync_method(*args: Any, **named: Any) -> Iterator[T]:
            return iterate_sync(method(*args, **named))

        super().__init__(method, sync_method)

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Sync, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, instance: Async, owner: type) -> Callable[P, AsyncGenerator[T, None]]: ...
    def __get__(self, instance: object, owner: type) -> Any:
        return self._bind(instance, owner)


class paginated(_DualMethod, Generic[P, T]):  # noqa: N801 - a decorator, as property is
    """An iterator over a paginated list; a notebook shows its first items as a table."""

    def __init__(self, method: Callable[Concatenate[Any, P], AsyncGenerator[T, None]]) -> None:
        def sync_method(*args: Any, **named: Any) -> PagedIterator[T]:
            return PagedIterator(iterate_sync(method(*args, **named)))

        super().__init__(method, sync_method)

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Sync, owner: type) -> Callable[P, PagedIterator[T]]: ...
    @overload
    def __get__(self, instance: Async, owner: type) -> Callable[P, AsyncGenerator[T, None]]: ...
    def __get__(self, instance: object, owner: type) -> Any:
        return self._bind(instance, owner)

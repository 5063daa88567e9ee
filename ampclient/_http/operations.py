"""One implementation of each method for sync and async clients: it is written as a coroutine.

Such a coroutine awaits only its HTTP backend. With a blocking backend it never suspends, so sync
code can run it to completion in one step, without an event loop. The mode of an object says how its
methods are called: `Jobs[Sync, Job]` and `Jobs[Async, AsyncJob]` are the same class.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping
from functools import update_wrapper
from inspect import Parameter, Signature, signature
from types import MethodType
from typing import (
    Any,
    ClassVar,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    get_args,
    get_type_hints,
    overload,
)

from ampclient._http.options import RequestOptions
from ampclient._http.paging import AsyncPagedIterator, PagedIterator, PagedList
from ampclient._http.raw_response import RawResponse, record_responses
from ampclient._http.transport import Transport

P = ParamSpec("P")
T = TypeVar("T")


class Mode:
    """How the operations of an object are called."""

    is_async: ClassVar[bool] = False


class Sync(Mode):
    """Operations return results; iterators are used with `for`."""


class Async(Mode):
    """Operations are awaited; iterators are used with `async for`."""

    is_async = True


class SyncRaw(Mode):
    """Operations return a RawResponse; lists are complete, with the response of their last page."""


class AsyncRaw(Mode):
    """As SyncRaw; operations are awaited."""

    is_async = True


M = TypeVar("M", bound=Mode)


class Operations(Generic[M]):
    """An object with operations: its transport sends their requests."""

    _mode: type[Mode] = Sync
    _transport: Transport

    def __init__(self, transport: Transport, mode: type[M]) -> None:
        self._transport = transport
        self._mode = mode


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


class _ModalMethod:
    """A method with a variant for each mode; the object that it is called on selects one."""

    def __init__(
        self, method: Callable[..., Any], variants: Mapping[type[Mode], Callable[..., Any]]
    ) -> None:
        self._name = method.__name__
        self._variants = variants
        self.__doc__ = method.__doc__
        expanded = _expanded_signature(method)
        for variant in variants.values():
            if variant is not method:
                update_wrapper(variant, method)
            variant.__signature__ = expanded  # type: ignore[attr-defined]

    def _bind(self, instance: Any, owner: Any) -> Any:
        """The variant of the object's mode as its method, or that of the class as a function."""
        mode = getattr(owner if instance is None else instance, "_mode", Sync)
        if mode not in self._variants:
            raise TypeError(
                f"{self._name} returns items of several responses and has no raw one: call it "
                "without with_raw_response"
            )
        variant = self._variants[mode]
        return variant if instance is None else MethodType(variant, instance)


def _expanded_signature(method: Callable[..., Any]) -> Signature:
    """The signature with the options as the keyword arguments they are, for help() and TAB."""
    written = signature(method)
    parameters = [p for p in written.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
    for options in written.parameters.values():
        if options.kind is Parameter.VAR_KEYWORD:
            [typed] = get_args(options.annotation) or [RequestOptions]
            parameters += [
                Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=type_)
                for name, type_ in get_type_hints(typed).items()
            ]
    return written.replace(parameters=parameters)


def _with_response(
    method: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, RawResponse[T]]]:
    """The coroutine with the response of its last request."""

    async def raw_method(*args: P.args, **kwargs: P.kwargs) -> RawResponse[T]:
        with record_responses() as responses:
            result = await method(*args, **kwargs)
        if not responses:
            raise TypeError(
                f"{method.__name__} has sent no request, so there is no raw response: call it "
                "without with_raw_response"
            )
        return RawResponse(responses[-1], result)

    return raw_method


def _blocking(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    return lambda *args, **kwargs: run_sync(method(*args, **kwargs))


class operation(_ModalMethod, Generic[P, T]):  # noqa: N801 - a decorator, as property is
    """A coroutine method that sync clients call as a plain function."""

    def __init__(self, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        raw_method = _with_response(method)
        super().__init__(
            method,
            {
                Sync: _blocking(method),
                Async: method,
                SyncRaw: _blocking(raw_method),
                AsyncRaw: raw_method,
            },
        )

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Operations[Sync], owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, instance: Operations[Async], owner: type
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(
        self, instance: Operations[SyncRaw], owner: type
    ) -> Callable[P, RawResponse[T]]: ...
    @overload
    def __get__(
        self, instance: Operations[AsyncRaw], owner: type
    ) -> Callable[P, Coroutine[Any, Any, RawResponse[T]]]: ...
    def __get__(self, instance: object, owner: type) -> Any:
        return self._bind(instance, owner)


class iterator(_ModalMethod, Generic[P, T]):  # noqa: N801 - a decorator, as property is
    """An async generator method that sync clients iterate with `for`."""

    def __init__(self, method: Callable[Concatenate[Any, P], AsyncGenerator[T, None]]) -> None:
        def sync_method(*args: Any, **kwargs: Any) -> Iterator[T]:
            return iterate_sync(method(*args, **kwargs))

        super().__init__(method, {Sync: sync_method, Async: method})

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Operations[Sync], owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(
        self, instance: Operations[Async], owner: type
    ) -> Callable[P, AsyncGenerator[T, None]]: ...
    def __get__(self, instance: object, owner: type) -> Any:
        return self._bind(instance, owner)


class paginated(_ModalMethod, Generic[P, T]):  # noqa: N801 - a decorator, as property is
    """A list whose pages are requested when they are needed: see PagedIterator."""

    _sync_list: ClassVar[type[PagedIterator[Any]]] = PagedIterator

    def __init__(self, method: Callable[Concatenate[Any, P], AsyncGenerator[T, None]]) -> None:
        def sync_method(*args: Any, **kwargs: Any) -> PagedIterator[T]:
            return self._sync_list(iterate_sync(method(*args, **kwargs)))

        def async_method(*args: Any, **kwargs: Any) -> AsyncPagedIterator[T]:
            return AsyncPagedIterator(method(*args, **kwargs))

        async def complete(*args: Any, **kwargs: Any) -> list[T]:
            return [item async for item in method(*args, **kwargs)]

        raw_method = _with_response(complete)
        super().__init__(
            method,
            {
                Sync: sync_method,
                Async: async_method,
                SyncRaw: _blocking(raw_method),
                AsyncRaw: raw_method,
            },
        )

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Operations[Sync], owner: type) -> Callable[P, PagedIterator[T]]: ...
    @overload
    def __get__(
        self, instance: Operations[Async], owner: type
    ) -> Callable[P, AsyncPagedIterator[T]]: ...
    @overload
    def __get__(
        self, instance: Operations[SyncRaw], owner: type
    ) -> Callable[P, RawResponse[list[T]]]: ...
    @overload
    def __get__(
        self, instance: Operations[AsyncRaw], owner: type
    ) -> Callable[P, Coroutine[Any, Any, RawResponse[list[T]]]]: ...
    def __get__(self, instance: object, owner: type) -> Any:
        return self._bind(instance, owner)


class short_list(paginated[P, T]):  # noqa: N801 - a decorator, as property is
    """A list that sync code may iterate several times: see PagedList."""

    _sync_list = PagedList

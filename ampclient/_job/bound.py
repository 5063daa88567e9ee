"""What `Job` and `AsyncJob` are made of: a view of a job, and the transport for its operations."""

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ampclient import _endpoints as endpoints
from ampclient._http.operations import M, Mode, Operations
from ampclient._http.retry import POLLING_RETRY_TIMEOUT_S
from ampclient._http.transport import Transport
from ampclient._job.view import JobView

if TYPE_CHECKING:
    # A job has the fields of its view: type checkers see them here, `__getattr__` finds them.
    class JobFields(JobView):
        """The fields, without the constructors, which know no transport."""

        from_json: ClassVar[None]  # type: ignore[assignment]
        model_construct: ClassVar[None]  # type: ignore[assignment]
        model_validate: ClassVar[None]  # type: ignore[assignment]
        model_validate_json: ClassVar[None]  # type: ignore[assignment]
        model_validate_strings: ClassVar[None]  # type: ignore[assignment]
else:
    JobFields = object


class BoundJob(Operations[M], JobFields):
    """A view of a job, whose fields it has, bound to a transport."""

    _html_head_ = JobView._html_head_

    @classmethod
    def bind(cls, view: JobView, transport: Transport, mode: type[Mode] | None = None) -> Self:
        """A job with this view; by default in the mode of its class."""
        job = object.__new__(cls)
        job.__dict__.update(_view=view, _transport=transport, _mode=mode or cls._mode)
        return job

    @property
    def _bound_view(self) -> JobView:
        view: JobView = self.__dict__["_view"]
        return view

    def __getattr__(self, name: str) -> Any:
        # `_view` is missing while a job is copied.
        if name.startswith("_") or "_view" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return getattr(self._bound_view, name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a job is an immutable view: {name} cannot be set")

    def __dir__(self) -> list[str]:
        public = (name for name in dir(self._bound_view) if not name.startswith("_"))
        return sorted({*super().__dir__(), *public})

    def __iter__(self) -> Generator[tuple[str, Any], None, None]:
        """The fields and their values, for `dict(job)`."""
        return iter(self._bound_view)

    def to_json(self) -> dict[str, Any]:
        """The job as in the response; see `ApiModel.to_json`."""
        return self._bound_view.to_json()

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """The same job with other values of some fields; the server is not asked."""
        return self._with_view(self._bound_view.model_copy(update=update, deep=deep))

    def __eq__(self, value: object) -> bool:
        """Whether this is a job of the same kind with the same fields."""
        return isinstance(value, type(self)) and self._bound_view == value._bound_view

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return repr(self._bound_view).replace(JobView.__name__, type(self).__name__, 1)

    def _html_row_(self) -> Sequence[object]:
        return self._bound_view._html_row_()

    def _repr_html_(self) -> str:
        return self._bound_view._repr_html_()

    def _with_view(self, view: JobView) -> Self:
        """The same job as another response has it."""
        return self.bind(view, self._transport, self._mode)

    async def _has_ended(self) -> bool:
        """Whether the job has ended; the server is asked only if this view has not ended."""
        if self.state.is_terminal:
            return True
        request = endpoints.get_job(self.id)
        view = await self._transport.send(request, retry_timeout_s=POLLING_RETRY_TIMEOUT_S)
        return view.state.is_terminal

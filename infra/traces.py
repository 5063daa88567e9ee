"""Traces: spans that OpenTelemetry sends to a collector, if the environment names one.

The variables are those of OpenTelemetry (docs/reference/settings.md). Without an endpoint nothing
is imported, and each function here returns at once. A collector that cannot be reached costs spans,
and nothing else: the queue of spans is bounded, a thread of its own sends them, and the end of a
process waits for at most `STOP_S`.

Sources: OpenTelemetry, specifications of the SDK's environment variables and of OTLP exporters;
W3C, Trace Context.
"""

import logging
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import ampspec

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.trace import Span, SpanContext, Tracer

log = logging.getLogger(__name__)

Kind = Literal["internal", "producer", "consumer"]
Attributes = Mapping[str, str | int | float | bool]

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL: Final = "http/protobuf"
STOP_S: Final = 3.0
"""How long the end of a process waits for the spans that are not sent yet."""
MAX_ATTRIBUTE_LENGTH: Final = 200
REPEAT_AFTER_S: Final = 300.0
"""A message of the exporter, such as that of a collector that is away, is logged so often."""
EXPORT_LOGGERS: Final = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.sdk._shared_internal",
)
REDACTED_ATTRIBUTES: Final = ("url.query",)
"""Set by FastAPI; people put secrets and names there."""

_TRACEPARENT: Final = re.compile(r"00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
SAMPLED: Final = 1
"""The flag of a trace context whose spans are recorded."""


@dataclass(frozen=True)
class _Tracing:
    provider: "TracerProvider"
    tracer: "Tracer"


_tracing: _Tracing | None = None


def start(service_name: str) -> None:
    """Send the spans of this process from now on, if the environment names an endpoint.

    Args:
        service_name: The name of the service, unless OTEL_SERVICE_NAME is set.
    """
    global _tracing  # noqa: PLW0603 - one for the process, as the loggers are
    if _tracing is not None or not _is_requested():
        return
    try:
        _tracing = _open(service_name)
    except ImportError:
        log.warning(
            "no traces are sent: %s is set, but they need pip install 'ampcore[traces]'",
            " or ".join(ENDPOINTS),
        )
        return
    log.info("traces are sent by OpenTelemetry")


def stop() -> None:
    """Send what is queued, for at most `STOP_S`; then no spans are recorded any more."""
    global _tracing
    tracing, _tracing = _tracing, None
    if tracing is None:
        return
    # A daemon: the process ends without it if the collector does not respond.
    ending = threading.Thread(target=tracing.provider.shutdown, name="traces-end", daemon=True)
    ending.start()
    ending.join(STOP_S)
    if ending.is_alive():
        log.warning("the last spans were not sent within %g s", STOP_S)


def provider() -> "TracerProvider | None":
    """The provider of the tracers of this process; None while no spans are sent."""
    return None if _tracing is None else _tracing.provider


def current_context() -> str | None:
    """The current span as a `traceparent`, to be kept with what it has caused; None without one."""
    if _tracing is None:
        return None
    from opentelemetry import trace

    return _traceparent(trace.get_current_span())


def trace_id(context: str | None) -> str | None:
    """The id of the trace of a `traceparent`; None without one, or if no spans are recorded."""
    match = _TRACEPARENT.fullmatch(context or "")
    return match[1] if match and int(match[0][-2:], 16) & SAMPLED else None


@contextmanager
def span(name: str, context: str | None, attributes: Attributes | None = None) -> Iterator[None]:
    """Record what happens inside as a span; an exception marks it as failed.

    Args:
        name: One of few: no ids.
        context: The parent, as a `traceparent`; None: nothing is recorded.
        attributes: No secrets, and nothing that users write.
    """
    if _tracing is None or context is None:
        yield
        return
    recorded = begin(name, context=context, attributes=attributes)
    try:
        yield
    except BaseException as error:
        recorded.end(error=type(error).__name__)
        raise
    recorded.end()


class RecordedSpan:
    """A span that has begun; ends once."""

    context: str | None = None
    """It as a `traceparent`, for its children; None while no spans are sent."""

    def end(self, attributes: Attributes | None = None, error: str | None = None) -> None:
        """End it now.

        Args:
            attributes: What is known only now.
            error: The kind of the error that it ended with.
        """


class _OpenTelemetrySpan(RecordedSpan):
    def __init__(self, recorded: "Span") -> None:
        self._span = recorded
        self.context = _traceparent(recorded)

    def end(self, attributes: Attributes | None = None, error: str | None = None) -> None:
        from opentelemetry.trace import StatusCode

        self._span.set_attributes(dict(attributes or {}))
        if error is not None:
            self._span.set_attribute("error.type", error)
            self._span.set_status(StatusCode.ERROR)
        self._span.end()


NOT_RECORDED: Final = RecordedSpan()


def begin(
    name: str,
    *,
    context: str | None = None,
    kind: Kind = "internal",
    began_ns: int | None = None,
    linked: Sequence[str] = (),
    attributes: Attributes | None = None,
) -> RecordedSpan:
    """Begin a span.

    Args:
        name: One of few: no ids.
        context: The parent, as a `traceparent`; None: the span begins a trace.
        kind: What it is for a queue.
        began_ns: When it began, as `time.time_ns`; None: now.
        linked: Other spans that it follows from, as `traceparent`s.
        attributes: No secrets, and nothing that users write.
    """
    if _tracing is None:
        return NOT_RECORDED
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, SpanKind

    recorded = _tracing.tracer.start_span(
        name,
        context=_parsed(context) if context is not None else Context(),
        kind=SpanKind[kind.upper()],
        links=[Link(_span_context(cause)) for cause in linked],
        start_time=began_ns,
        attributes=dict(attributes or {}),
    )
    return _OpenTelemetrySpan(recorded)


def record(
    name: str,
    began_ns: int,
    *,
    context: str | None,
    kind: Kind = "internal",
    attributes: Attributes | None = None,
    error: str | None = None,
) -> None:
    """Record a span that ends now; nothing without a parent. The arguments are those of `begin`."""
    if _tracing is None or context is None:
        return
    began = begin(name, context=context, kind=kind, began_ns=began_ns, attributes=attributes)
    began.end(error=error)


def clock_ns() -> int:
    """Now, for `began_ns`; 0 while no spans are sent."""
    return 0 if _tracing is None else time.time_ns()


def _is_requested() -> bool:
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = os.environ.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    endpoint = _first_set(ENDPOINTS)
    if endpoint is None or exporter == "none":
        return False
    if exporter != "otlp":
        return _refuse("OTEL_TRACES_EXPORTER", "otlp or none", exporter)
    name, protocol = _first_set(PROTOCOLS) or ("", PROTOCOL)
    if protocol != PROTOCOL:
        return _refuse(name, PROTOCOL, protocol)
    name, address = endpoint
    if not re.match(r"https?://[^/\s]", address):
        return _refuse(name, "an address such as http://collector:4318", "something else")
    return True


def _refuse(name: str, expected: str, received: str) -> bool:
    # The variables may be set for all programs of a machine: they stop none of the service.
    log.warning("no traces are sent: %s: expected %s, received %.80s", name, expected, received)
    return False


def _first_set(names: tuple[str, ...]) -> tuple[str, str] | None:
    """The first of these variables that is set, and its value."""
    values = ((name, os.environ.get(name, "").strip()) for name in names)
    return next(((name, value) for name, value in values if value), None)


def _open(service_name: str) -> _Tracing:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import SpanKind

    class Redaction(SpanProcessor):
        def on_start(self, span: "Span", parent_context: "Context | None" = None) -> None:
            recorded: ReadableSpan = span  # type: ignore[assignment]
            if recorded.kind is not SpanKind.SERVER:
                return  # of this service, which sets none of them; reading attributes copies them
            for name in REDACTED_ATTRIBUTES:
                if name in (recorded.attributes or {}):
                    span.set_attribute(name, "REDACTED")

    name = os.environ.get("OTEL_SERVICE_NAME", "").strip() or service_name
    resource = Resource.create({"service.name": name, "service.version": ampspec.__version__})
    limit = os.environ.get("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "").strip()
    limits = SpanLimits() if limit else SpanLimits(max_span_attribute_length=MAX_ATTRIBUTE_LENGTH)
    for logger in EXPORT_LOGGERS:
        logging.getLogger(logger).addFilter(_RarelyRepeated())
    opened = TracerProvider(resource=resource, span_limits=limits, shutdown_on_exit=False)
    opened.add_span_processor(Redaction())
    opened.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return _Tracing(opened, opened.get_tracer("ampcore", ampspec.__version__))


class _RarelyRepeated(logging.Filter):
    """Drops what the same place has logged shortly before."""

    def __init__(self) -> None:
        super().__init__()
        self._logged_at: dict[tuple[str, int], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        place, now = (record.pathname, record.lineno), time.monotonic()
        if now - self._logged_at.get(place, -REPEAT_AFTER_S) < REPEAT_AFTER_S:
            return False
        self._logged_at[place] = now
        return True


def _parsed(context: str) -> "Context":
    """A context without anything of this thread, whose current span may be of another job."""
    from opentelemetry import trace
    from opentelemetry.context import Context

    return trace.set_span_in_context(trace.NonRecordingSpan(_span_context(context)), Context())


def _span_context(context: str) -> "SpanContext":
    """Of a `traceparent` that this service has written; the propagator is slower."""
    from opentelemetry.trace import SpanContext, TraceFlags

    _, trace_id, span_id, flags = context.split("-")
    return SpanContext(int(trace_id, 16), int(span_id, 16), True, TraceFlags(int(flags, 16)))


def _traceparent(recorded: "Span") -> str | None:
    context = recorded.get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

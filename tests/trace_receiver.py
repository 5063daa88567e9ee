"""A collector of OpenTelemetry on 127.0.0.1: it decodes the spans that arrive by OTLP."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.webhook_receiver import Receiver, answer_with, webhook_receiver

NO_PARENT = ""


@dataclass(frozen=True)
class ReceivedSpan:
    """A span with its ids as hexadecimal text."""

    name: str
    service: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: str
    began_ns: int
    ended_ns: int
    has_failed: bool
    links: tuple[str, ...]
    """The ids of the spans that it links to."""
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class TraceReceiver:
    """The collector."""

    http: Receiver

    @property
    def endpoint(self) -> str:
        """What OTEL_EXPORTER_OTLP_ENDPOINT is set to."""
        return f"http://127.0.0.1:{self.http.port}"

    @property
    def spans(self) -> list[ReceivedSpan]:
        """All spans that have arrived, by their begin."""
        spans = [span for request in list(self.http.received) for span in _spans(request.body)]
        return sorted(spans, key=lambda span: span.began_ns)

    def named(self, name: str) -> list[ReceivedSpan]:
        """The spans of a name."""
        return [span for span in self.spans if span.name == name]


@contextmanager
def trace_receiver() -> Iterator[TraceReceiver]:
    """Run a collector."""
    with webhook_receiver() as http:
        http.answer = answer_with(200, b"", Content_Type="application/x-protobuf")
        yield TraceReceiver(http)


def _spans(body: bytes) -> Iterator[ReceivedSpan]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = _values(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    name=span.name,
                    service=service,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    kind=SpanMessage.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
                    began_ns=span.start_time_unix_nano,
                    ended_ns=span.end_time_unix_nano,
                    has_failed=span.status.code == Status.STATUS_CODE_ERROR,
                    links=tuple(link.span_id.hex() for link in span.links),
                    attributes=_values(span.attributes),
                )


def _values(attributes: Any) -> dict[str, Any]:
    return {
        entry.key: getattr(entry.value, entry.value.WhichOneof("value")) for entry in attributes
    }

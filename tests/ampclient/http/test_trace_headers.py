"""Requests continue the trace of the user's program."""

import subprocess
import sys

import httpx
from opentelemetry import baggage, context, trace

from ampclient import Client

TRACE_ID, SPAN_ID = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
WITHOUT_OPENTELEMETRY = """
import sys
from ampclient._http.trace_headers import trace_headers

assert trace_headers() == {}
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""


def headers_of_a_request() -> httpx.Headers:
    """The headers of a request that a client sends."""
    requests: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, json={"items": [], "next_cursor": None})

    http_client = httpx.Client(transport=httpx.MockTransport(respond))
    with Client("http://127.0.0.1:1", "amp_token", http_client=http_client) as client:
        list(client.jobs.list())
    return requests[0].headers


def test_a_request_inside_a_span_has_its_traceparent_and_no_baggage() -> None:
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    span = trace.NonRecordingSpan(trace.SpanContext(TRACE_ID, SPAN_ID, False, flags))
    token = context.attach(baggage.set_baggage("user", "ada", trace.set_span_in_context(span)))
    try:
        headers = headers_of_a_request()
    finally:
        context.detach(token)
    assert headers["traceparent"] == f"00-{TRACE_ID:032x}-{SPAN_ID:016x}-01"
    assert "baggage" not in headers


def test_a_request_outside_of_spans_has_no_trace() -> None:
    assert "traceparent" not in headers_of_a_request()


def test_opentelemetry_is_not_imported_for_it() -> None:
    command = [sys.executable, "-c", WITHOUT_OPENTELEMETRY]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

"""Headers that continue the trace of the user's program, if it has OpenTelemetry."""

import sys


def trace_headers() -> dict[str, str]:
    """`traceparent` and `tracestate` of the current span; empty without one.

    OpenTelemetry is not imported: a program that has a span has imported it. Its baggage is not
    sent, which may hold anything.
    """
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers

"""When spans are sent, what they may hold, and how a process ends without a collector."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from infra import traces
from tests.processes import free_port
from tests.tables import every_row
from tests.trace_receiver import trace_receiver
from tests.waiting import wait_until

CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NOT_SAMPLED = CONTEXT[:-1] + "0"
WITHOUT_IMPORT = """
import sys
from infra import traces

traces.start("ampcore-server")
with traces.span("validate job", None):
    traces.record("write job", traces.clock_ns(), context=None)
assert traces.begin("compile").context is traces.current_context() is None
traces.stop()
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    yield
    traces.stop()


def start(**variables: str) -> None:
    """Start with these variables of OpenTelemetry, and no others."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("OTEL")}
    with patch.dict(os.environ, others | variables, clear=True):
        traces.start("ampcore-worker")


def test_without_an_endpoint_nothing_is_imported_or_recorded() -> None:
    environment = {name: value for name, value in os.environ.items() if "OTEL" not in name}
    command = [sys.executable, "-c", WITHOUT_IMPORT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@every_row(
    ("variables", "message"),
    [
        ({}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "  "}, ""),
        ({"OTEL_SDK_DISABLED": "true"}, ""),
        ({"OTEL_TRACES_EXPORTER": "none"}, ""),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER: expected otlp or none"),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL: expected http/protobuf, received grpc",
        ),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "user:secret@collector"},
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: expected an address such as",
        ),
    ],
)
def test_settings_that_send_no_traces_say_so_unless_they_are_meant(
    variables: dict[str, str], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"} if variables else {}
    start(**endpoint | variables)
    assert traces.provider() is None
    assert (message in caplog.text) if message else not caplog.text
    assert "secret" not in caplog.text


def test_without_the_packages_of_the_extra_the_process_says_so_and_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with patch.dict(sys.modules, {"opentelemetry.sdk.trace": None}):
        start(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1")
    assert traces.provider() is None
    assert "pip install 'ampcore[traces]'" in caplog.text


@every_row(
    ("context", "trace_id"),
    [
        (CONTEXT, "0af7651916cd43dd8448eb211c80319c"),
        (NOT_SAMPLED, None),
        (None, None),
        ("00-0af7651916cd43dd8448eb211c80319c", None),
        (f"{CONTEXT}\n", None),
    ],
)
def test_a_trace_has_an_id_to_show_if_its_spans_are_recorded(
    context: str | None, trace_id: str | None
) -> None:
    assert traces.trace_id(context) == trace_id


def test_a_span_of_a_caller_that_records_none_is_not_sent() -> None:
    with trace_receiver() as collector:
        start(OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint, OTEL_SERVICE_NAME="training")
        traces.begin("save", context=NOT_SAMPLED).end()
        traces.begin("compile", context=CONTEXT, attributes={"ampcore.job.id": "x" * 300}).end()
        traces.stop()
        [span] = collector.spans
    assert (span.name, span.service) == ("compile", "training")
    assert (span.trace_id, span.parent_id) == tuple(CONTEXT.split("-")[1:3])
    assert span.attributes == {"ampcore.job.id": "x" * traces.MAX_ATTRIBUTE_LENGTH}


def test_an_error_inside_marks_the_span_with_its_kind_and_no_message() -> None:
    with trace_receiver() as collector:
        start(OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint)
        with pytest.raises(ValueError, match="password"), traces.span("validate job", CONTEXT):
            raise ValueError("password")
        traces.stop()
        [span] = collector.spans
        assert span.has_failed
        assert span.attributes == {"error.type": "ValueError"}
        assert b"password" not in b"".join(request.body for request in collector.http.received)


def test_a_collector_that_hangs_delays_the_end_by_a_fixed_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(traces, "STOP_S", 0.05)
    with trace_receiver() as collector:
        collector.http.answer = lambda _: collector.http.close.wait()  # until the end of the test
        start(OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint)
        traces.begin("compile", context=CONTEXT).end()
        traces.stop()
        assert "the last spans were not sent within 0.05 s" in caplog.text
        assert not collector.http.close.is_set()


def test_a_collector_that_is_away_is_reported_once_and_the_queue_is_bounded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    limits = {"OTEL_BSP_MAX_QUEUE_SIZE": "8", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "2"}
    timeouts = {"OTEL_EXPORTER_OTLP_TIMEOUT": "1", "OTEL_BSP_SCHEDULE_DELAY": "10"}
    start(OTEL_EXPORTER_OTLP_ENDPOINT=address, **limits, **timeouts)
    began_ns = time.time_ns()
    for _ in range(200):
        traces.record("save", began_ns, context=CONTEXT)

    def complaints() -> list[str]:
        return [record.getMessage() for record in caplog.records if "127.0.0.1" in record.message]

    wait_until(complaints, "the exporter has given up a batch")
    traces.stop()
    assert len(complaints()) == 1

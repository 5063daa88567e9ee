"""One trace from the request that submits a job to its first step, at a collector of the test."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ampclient.cli.output.job_output import print_job
from ampspec.jobs import State
from tests.e2e.conftest import Stack
from tests.processes import free_port
from tests.trace_receiver import NO_PARENT, ReceivedSpan, TraceReceiver, trace_receiver
from tests.waiting import DEADLINE_S, wait_until

pytestmark = pytest.mark.xdist_group("traces")

SECRET = "correct-horse-battery"
SPEC: dict[str, Any] = {
    "name": SECRET,
    "labels": {"team": SECRET},
    "model": {"kind": "mlp", "hidden": [8]},
    "data": {"kind": "digits", "batch_size": 64},
    "train": {"epochs": 2, "checkpoint_every_s": 1e-3},
    "runtime": {"engine": "graph"},
}
SOON = {"OTEL_BSP_SCHEDULE_DELAY": "50"}
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
"""The example of the W3C's recommendation."""
STARTUP = ("claim job", "download files", "start trainer", "prepare model and data", "compile")


@pytest.fixture(scope="module")
def collector() -> Iterator[TraceReceiver]:
    with trace_receiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def traced_stack(
    collector: TraceReceiver,
    tmp_path_factory: pytest.TempPathFactory,
    start: Callable[..., Stack],
) -> Iterator[Stack]:
    data = tmp_path_factory.mktemp("traced") / "data"
    stack = start(data, OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint, **SOON)
    yield stack
    assert stack.stop() == 0


@pytest.fixture(scope="module")
def traced_job(traced_stack: Stack) -> Any:
    client = traced_stack.client.with_options(default_headers={"traceparent": CALLER})
    return client.jobs.submit(SPEC).wait(timeout_s=DEADLINE_S)


@pytest.fixture(scope="module")
def spans(traced_job: Any, collector: TraceReceiver) -> dict[str, ReceivedSpan]:
    """The first span of each name of the job's trace, once its attempt has ended."""
    assert traced_job.state == State.SUCCEEDED, traced_job.message
    wait_until(lambda: collector.named("process default"), "the attempt's span has arrived")
    trace = [span for span in collector.spans if span.trace_id == CALLER.split("-")[1]]
    return {span.name: span for span in reversed(trace)}


def test_one_trace_has_the_request_and_each_part_until_the_first_step(
    spans: dict[str, ReceivedSpan],
) -> None:
    request, attempt = spans["POST /api/v1/jobs"], spans["process default"]
    assert request.parent_id == CALLER.split("-")[2]
    of_request = ("validate job", "write job", "send default", "wait in queue", "process default")
    assert {spans[name].parent_id for name in of_request} == {request.span_id}
    parts = [spans[name] for name in (*STARTUP, "first step", "save", "upload files")]
    assert {part.parent_id for part in parts} == {attempt.span_id}
    starts = [part.began_ns for part in parts]
    assert starts == sorted(starts)
    assert all(part.began_ns <= part.ended_ns <= attempt.ended_ns for part in parts)


def test_spans_are_of_the_kinds_that_the_messaging_conventions_name(
    spans: dict[str, ReceivedSpan],
) -> None:
    assert spans["POST /api/v1/jobs"].kind == "server"
    assert spans["send default"].kind == "producer"
    assert spans["process default"].kind == "consumer"
    assert spans["send default"].attributes["messaging.operation.type"] == "send"
    assert spans["process default"].attributes["messaging.operation.type"] == "process"
    services = {span.service for span in spans.values()}
    assert services == {"ampcore-server", "ampcore-worker"}


def test_spans_have_the_id_of_the_job_and_nothing_that_its_user_wrote(
    traced_job: Any, spans: dict[str, ReceivedSpan], collector: TraceReceiver
) -> None:
    of_job = [span for span in spans.values() if "ampcore.job.id" in span.attributes]
    assert {span.attributes["ampcore.job.id"] for span in of_job} == {traced_job.id}
    assert {"process default", "write job", "send default", "first step"} <= {
        span.name for span in of_job
    }
    assert spans["process default"].attributes["ampcore.job.outcome"] == "succeeded"
    assert not any(SECRET.encode() in request.body for request in collector.http.received)
    assert not any(b"amp_" in request.body for request in collector.http.received)


def test_the_job_and_the_lines_of_the_logs_have_the_id_of_the_trace(
    traced_stack: Stack,
    traced_job: Any,
    spans: dict[str, ReceivedSpan],
    capsys: pytest.CaptureFixture[str],
) -> None:
    trace_id = spans["process default"].trace_id
    assert traced_job.refresh().trace_id == trace_id
    print_job(traced_job.refresh())
    assert re.search(rf"^trace +{trace_id}$", capsys.readouterr().out, re.MULTILINE)
    logs = "".join(path.read_text() for path in traced_stack.data.glob("logs/*.log"))
    lines = [line for line in logs.splitlines() if f"trace_id={trace_id}" in line]
    assert any("POST /api/v1/jobs 201" in line for line in lines)
    assert any("the attempt starts" in line and traced_job.id in line for line in lines)


def test_a_job_that_is_resumed_goes_on_in_its_trace_and_links_to_the_attempt_before(
    traced_stack: Stack, collector: TraceReceiver
) -> None:
    job = traced_stack.client.jobs.submit({**SPEC, "train": {"epochs": 100_000}})
    wait_until(lambda: job.refresh().step > 0, "the job trains")
    job.pause()
    wait_until(lambda: job.refresh().state == State.PAUSED, "the job has paused")
    job.resume()
    wait_until(lambda: job.refresh().state == State.RUNNING, "the job trains again")
    job.cancel()
    job.wait(timeout_s=DEADLINE_S)

    def attempts() -> list[ReceivedSpan]:
        spans = collector.named("process default")
        return [span for span in spans if span.attributes["ampcore.job.id"] == job.id]

    wait_until(lambda: len(attempts()) == 2, "both attempts have ended")
    first, second = attempts()
    assert first.trace_id == second.trace_id == job.refresh().trace_id
    assert first.parent_id == second.parent_id != NO_PARENT
    assert first.links == (first.parent_id,)
    assert second.links == (first.parent_id, first.span_id)
    outcomes = [span.attributes["ampcore.job.outcome"] for span in (first, second)]
    assert outcomes == ["paused", "cancelled"]


def test_a_refused_spec_is_a_failed_validation_of_its_request(
    traced_stack: Stack, collector: TraceReceiver
) -> None:
    with pytest.raises(Exception, match="epochs"):
        traced_stack.client.jobs.submit({**SPEC, "train": {"epochs": -1}})
    failed = wait_until(
        lambda: [span for span in collector.named("validate job") if span.has_failed],
        "the refused validation has arrived",
    )
    assert failed[0].attributes["error.type"] == "SpecValidationError"


def test_queries_and_reads_are_not_recorded(traced_stack: Stack, collector: TraceReceiver) -> None:
    traced_stack.client.jobs.cancel_many(state="queued", q=SECRET)
    wait_until(lambda: collector.named("POST /api/v1/jobs/cancel"), "the request has arrived")
    assert not any(SECRET.encode() in request.body for request in collector.http.received)
    methods = {span.attributes.get("http.request.method") for span in collector.spans}
    assert "GET" not in methods


def test_a_collector_that_is_away_neither_stops_jobs_nor_the_end(
    tmp_path: Path, start: Callable[..., Stack]
) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    stack = start(tmp_path / "data", OTEL_EXPORTER_OTLP_ENDPOINT=address, **SOON)
    job = stack.client.jobs.submit(SPEC).wait(timeout_s=DEADLINE_S)
    assert job.state == State.SUCCEEDED
    assert re.fullmatch("[0-9a-f]{32}", job.trace_id)
    assert stack.stop() == 0


def test_without_an_endpoint_there_are_no_traces(stack: Stack) -> None:
    job = stack.client.jobs.submit(SPEC).wait(timeout_s=DEADLINE_S)
    assert job.state == State.SUCCEEDED
    assert job.trace_id is None
    assert "trace_id=" not in "".join(path.read_text() for path in stack.data.glob("logs/*.log"))

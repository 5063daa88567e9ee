"""Exports from a fake server: the path of the file, and interrupted responses."""

import os

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampclient import ConnectionFailed, InvalidRequest, UnexpectedResponse
from ampclient._transfer.exports import MAX_TRIES
from tests.tables import every_row

LINES = ["step,loss,skipped", "0,1.0,False", "1,0.5,False", "2,NaN,True"]
CSV = "".join(f"{line}\n" for line in LINES).encode()


@pytest.fixture
def job(client, server):
    server.add_job("a", state="succeeded")
    server.add_steps("a", 3, loss="NaN", skipped=True)
    return client.jobs.get("a")


@pytest.fixture
def respond_with_name(respond):
    """Creates a response with this Content-Disposition."""

    def make(disposition):
        headers = {"content-disposition": disposition} if disposition else {}
        return respond(200, content=CSV, headers=headers)

    return make


def files_in(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def export_requests(server):
    return [request for request in server.requests if request.url.path.endswith("/steps")]


def test_an_export_is_saved_at_the_given_path(job, tmp_path):
    path = job.export(tmp_path / "new" / "steps.csv")
    assert path == tmp_path / "new" / "steps.csv"
    assert files_in(tmp_path) == {"new/steps.csv": CSV}


@pytest.mark.parametrize("folder", ["", "new/"])
def test_an_export_into_a_folder_has_the_file_name_from_the_server(job, tmp_path, folder):
    path = job.export(f"{tmp_path}/{folder}")
    assert path == tmp_path / folder / "digits-a.csv"
    assert files_in(tmp_path) == {f"{folder}digits-a.csv": CSV}


@every_row(
    ("path", "expected"), [("runs", "runs/digits-a.csv"), ("my.tfevents.1", "my.tfevents.1")]
)
def test_a_tensorboard_path_without_tfevents_in_its_name_is_a_folder(job, tmp_path, path, expected):
    assert job.export(tmp_path / path, "tensorboard") == tmp_path / expected


@every_row(
    "disposition",
    [None, "attachment", *(f'attachment; filename="{n}"' for n in ("../x", "..", "a/b", "C:x"))],
)
def test_a_missing_or_unsafe_file_name_from_the_server_is_an_error(
    job, server, respond_with_name, tmp_path, disposition
):
    server.next_responses = [respond_with_name(disposition)]
    with pytest.raises(UnexpectedResponse, match="Expected a file's name"):
        job.export(tmp_path)
    assert files_in(tmp_path) == {}


def test_export_options_are_sent_to_the_server(job, server, tmp_path):
    path = job.export(tmp_path / "a", start=1, end=2, columns=["loss"], attempt=3, max_points=9)
    assert path.read_text() == "step,loss\n1,0.5\n"
    parameters = {"start": "1", "end": "2", "columns": "loss", "attempt": "3", "max_points": "9"}
    assert dict(export_requests(server)[0].url.params) == {**parameters, "format": "csv"}


@every_row("format_", ["xml", "json"])
def test_an_unsupported_format_is_a_value_error(job, server, tmp_path, format_):
    with pytest.raises(ValueError, match=f"csv, ndjson, parquet.*received '{format_}'"):
        job.export(tmp_path, format_)
    with pytest.raises(ValueError, match="expected a format"):
        job.iter_export(format_)
    assert export_requests(server) == []


def test_an_unknown_column_is_an_invalid_request(job, tmp_path):
    with pytest.raises(InvalidRequest, match="lossy"):
        job.export(tmp_path, columns=["lossy"])
    assert files_in(tmp_path) == {}


def test_an_existing_file_is_replaced_only_by_a_complete_export(
    job, server, cut_response, tmp_path
):
    path = tmp_path / "steps.csv"
    path.write_bytes(b"older")
    server.next_responses = [cut_response(20)] * MAX_TRIES
    with pytest.raises(ConnectionFailed):
        job.export(path)
    assert files_in(tmp_path) == {"steps.csv": b"older"}
    job.export(path)
    assert files_in(tmp_path) == {"steps.csv": CSV}


def test_an_interrupted_export_restarts_from_the_beginning(
    job, server, cut_response, tmp_path, clock
):
    server.next_responses = [cut_response(40), cut_response(5)]
    seen = []

    def on_progress(name, done_bytes, total_bytes):
        assert (name, total_bytes) == ("digits-a.csv", None)
        seen.append(done_bytes)
        clock.sleep(1000)  # the time until the interruption does not matter

    job.export(tmp_path, on_progress=on_progress)
    assert files_in(tmp_path) == {"digits-a.csv": CSV}
    assert seen == [40, 5, len(CSV)]


def test_a_callback_of_version_0_5_is_called_with_the_bytes(sync_client, server, tmp_path):
    server.add_job("a", state="succeeded")
    server.add_steps("a", 3, loss="NaN", skipped=True)
    seen = []
    with pytest.warns(DeprecationWarning, match="is now called with the name of the file"):
        sync_client.jobs.get("a").export(tmp_path, on_progress=lambda size: seen.extend([size]))
    assert seen == [len(CSV)]


def test_a_silently_truncated_response_is_detected(job, server, cut_response, tmp_path):
    server.next_responses = [cut_response(-3, hidden=True)] * MAX_TRIES
    with pytest.raises(ConnectionFailed, match="closed before the response was complete"):
        job.export(tmp_path)
    assert files_in(tmp_path) == {}
    assert len(export_requests(server)) == MAX_TRIES


def test_an_export_waits_a_limited_time_for_an_unreachable_server(job, server, respond, tmp_path):
    server.next_responses = [respond(httpx.ConnectError("refused"))] * 5 + [respond(503)] * 5
    assert job.export(tmp_path).read_bytes() == CSV
    server.next_responses = [respond(httpx.ConnectError("refused"))] * 1000
    with pytest.raises(ConnectionFailed):
        job.export(tmp_path)


def test_a_pipe_is_refused_as_the_path_of_an_export(job, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="Expected a file or a folder"):
        job.export(tmp_path / "pipe")


def test_iter_export_retries_and_yields_the_bytes(job, server, respond):
    server.next_responses = [respond(httpx.ConnectError("refused"))] * 5 + [respond(503)] * 5
    assert b"".join(job.iter_export(start=1)) == b"".join([CSV[:18], CSV[30:]])


def test_iter_export_does_not_retry_after_it_has_yielded_bytes(job, server, cut_response):
    server.next_responses = [cut_response(0), cut_response(20)]
    pieces = job.iter_export()
    assert next(pieces) == CSV[:20]
    with pytest.raises(ConnectionFailed):
        next(pieces)


@settings(
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(sizes=st.lists(st.integers(0, 60), max_size=MAX_TRIES - 1), refused=st.integers(0, 3))
def test_an_export_is_complete_after_any_interruptions(
    job, server, cut_response, respond, tmp_path_factory, *, sizes, refused
):
    folder = tmp_path_factory.mktemp("export")
    server.next_responses = [cut_response(size) for size in sizes]
    server.next_responses += [respond(httpx.ConnectError("refused"))] * refused
    job.export(folder)
    assert files_in(folder) == {"digits-a.csv": CSV}

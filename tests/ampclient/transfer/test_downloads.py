import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampclient import ConnectionFailed, DigestMismatch, NotFound, UnexpectedResponse
from ampspec.telemetry.validation_examples import write_examples
from tests.tables import every_row

MODEL = bytes(range(256)) * 8
FILES = {
    "attempt-1/checkpoints/step-10": b"old",
    "attempt-2/checkpoints/step-20": b"new",
    "attempt-2/model.keras": MODEL,
}


@pytest.fixture
def job(client, server):
    server.add_job("a", state="succeeded")
    server.files["a"] = dict(FILES)
    return client.jobs.get("a")


def requested_ranges(server):
    requests = [request for request in server.requests if "/artifacts/" in request.url.path]
    return [request.headers.get("range") for request in requests]


def files_in(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_artifacts_are_listed_with_size_and_digest(job):
    artifacts = job.artifacts()
    assert [artifact.path for artifact in artifacts] == list(FILES)
    assert (artifacts[2].size_bytes, len(artifacts[2].sha256)) == (2048, 64)


def test_each_file_is_saved_at_its_path(job, tmp_path):
    paths = job.download(to=tmp_path)
    assert paths == [tmp_path / path for path in FILES]
    assert files_in(tmp_path) == FILES


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("attempt-2/model.keras", ["attempt-2/model.keras"]),
        ("attempt-2", ["attempt-2/checkpoints/step-20", "attempt-2/model.keras"]),
        ("attempt-1/checkpoints/", ["attempt-1/checkpoints/step-10"]),
    ],
)
def test_a_single_file_or_folder_can_be_downloaded(job, tmp_path, path, names):
    job.download(path, to=tmp_path)
    assert files_in(tmp_path) == {name: FILES[name] for name in names}


def test_an_unknown_path_is_an_error_that_names_the_existing_ones(job, tmp_path):
    with pytest.raises(NotFound, match="attempt-2/model"):
        job.download("model.keras", to=tmp_path)


def test_existing_files_are_not_downloaded_again(job, server, tmp_path):
    job.download(to=tmp_path)
    fetched = len(requested_ranges(server))
    job.download(to=tmp_path)
    assert len(requested_ranges(server)) == fetched


def test_an_existing_file_with_other_content_is_replaced(job, tmp_path):
    place = tmp_path / "attempt-2/model.keras"
    place.parent.mkdir()
    place.write_bytes(b"something of mine")
    job.download("attempt-2/model.keras", to=tmp_path)
    assert place.read_bytes() == MODEL


def test_a_download_resumes_after_a_broken_connection(job, server, clock, cut_response, tmp_path):
    server.next_responses = [server.handle, cut_response(100), cut_response(50)]
    job.download("attempt-2/model.keras", to=tmp_path)
    assert requested_ranges(server)[-1] == "bytes=150-"
    assert files_in(tmp_path) == {"attempt-2/model.keras": MODEL}


def test_a_download_that_breaks_after_a_long_time_resumes(
    job, server, clock, cut_response, tmp_path
):
    server.next_responses = [server.handle, cut_response(100)]
    job.download("attempt-2/model.keras", to=tmp_path, on_progress=lambda *_: clock.sleep(1000))
    assert files_in(tmp_path) == {"attempt-2/model.keras": MODEL}


def test_a_failed_download_resumes_in_a_later_call(job, server, respond, cut_response, tmp_path):
    gone = [respond(httpx.ConnectError("refused"))] * 1000
    server.next_responses = [server.handle, cut_response(100), *gone]
    with pytest.raises(ConnectionFailed):
        job.download("attempt-2/model.keras", to=tmp_path)
    assert not (tmp_path / "attempt-2/model.keras").exists()
    server.next_responses = []
    job.download("attempt-2/model.keras", to=tmp_path)
    assert requested_ranges(server)[-1] == "bytes=100-"
    assert files_in(tmp_path) == {"attempt-2/model.keras": MODEL}


def test_a_download_restarts_if_the_server_does_not_support_ranges(
    job, server, cut_response, respond, tmp_path
):
    server.next_responses = [server.handle, cut_response(100), respond(200, content=MODEL)]
    job.download("attempt-2/model.keras", to=tmp_path)
    assert files_in(tmp_path) == {"attempt-2/model.keras": MODEL}


@every_row("wrong", [MODEL[::-1], MODEL[:-1], MODEL + b"x", b""])
def test_a_digest_mismatch_is_an_error_and_leaves_no_file(job, server, respond, tmp_path, wrong):
    server.next_responses = [server.handle, respond(200, content=wrong)]
    with pytest.raises(DigestMismatch, match="attempt-2/model"):
        job.download("attempt-2/model.keras", to=tmp_path)
    assert files_in(tmp_path) == {}


def test_a_file_that_becomes_shorter_during_the_download_is_a_digest_mismatch(
    job, server, cut_response, tmp_path
):
    def shorten(request):
        server.files["a"]["attempt-2/model.keras"] = MODEL[:50]
        return server.handle(request)

    server.next_responses = [server.handle, cut_response(100), shorten]
    with pytest.raises(DigestMismatch):
        job.download("attempt-2/model.keras", to=tmp_path)
    assert files_in(tmp_path) == {}


def test_an_empty_file_is_downloaded(job, server, tmp_path):
    server.files["a"] = {"report.json": b""}
    job.download(to=tmp_path)
    assert files_in(tmp_path) == {"report.json": b""}


def test_a_path_is_quoted_segment_by_segment(job, server, tmp_path):
    server.files["a"] = {"a b/c?d": b"x"}
    job.download(to=tmp_path)
    assert server.requests[-1].url.raw_path.endswith(b"/artifacts/a%20b/c%3Fd")
    assert files_in(tmp_path) == {"a b/c?d": b"x"}


@every_row("path", ["../x", "/etc/x", "a/../../x", "a//x", "a\\x", "C:x", "a/\x00", ".", ""])
def test_a_path_from_the_server_cannot_leave_the_folder(job, server, tmp_path, path):
    server.files["a"] = {"fine": b"1", path: b"x"}
    with pytest.raises(UnexpectedResponse, match="unsafe file path"):
        job.download(to=tmp_path / "here")
    assert files_in(tmp_path) == {}


def test_progress_reports_the_downloaded_bytes(job, server, tmp_path):
    seen = []
    job.download("attempt-2", to=tmp_path, on_progress=lambda *values: seen.append(values))
    assert seen[0] == ("attempt-2/checkpoints/step-20", 3, 3)
    assert seen[-1] == ("attempt-2/model.keras", 2048, 2048)


def test_a_callback_of_version_0_5_is_called_with_the_artifact(sync_client, server, tmp_path):
    server.add_job("a", state="succeeded")
    server.files["a"] = {"model.keras": MODEL}
    seen = []
    with pytest.warns(DeprecationWarning, match="is now called with the name of the file"):
        sync_client.jobs.get("a").download(
            to=tmp_path, on_progress=lambda file, size: seen.append((file.path, size))
        )
    assert seen[-1] == ("model.keras", len(MODEL))


@settings(
    max_examples=50,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(sizes=st.lists(st.integers(0, 700), max_size=6))
def test_a_download_is_complete_after_any_interruptions(
    client, server, cut_response, tmp_path_factory, *, sizes
):
    server.add_job("h", state="succeeded")
    server.files["h"] = {"model": MODEL}
    folder = tmp_path_factory.mktemp("download")
    server.next_responses = [server.handle, server.handle, *(cut_response(size) for size in sizes)]
    client.jobs.get("h").download(to=folder)
    assert files_in(folder) == {"model": MODEL}
    server.next_responses = []


@pytest.fixture
def evaluated(server, job, tmp_path):
    """The job with tables of two attempts; the older one has other rows."""
    for attempt, rows in enumerate(([8], [1, 5, 6]), start=1):
        folder = tmp_path / f"attempt-{attempt}"
        table = write_examples(folder, np.array(rows), {"accuracy": np.ones(len(rows))})
        server.files["a"][f"attempt-{attempt}/validation_examples.npy"] = table.read_bytes()
    return job


def test_the_rows_for_validation_are_read_with_their_metrics(evaluated):
    examples = evaluated.validation_examples()
    assert examples.rows.tolist() == [2, 6, 7]
    assert examples.metrics["accuracy"].tolist() == [1, 1, 1]
    assert repr(examples) == "<ValidationExamples: 3 rows with accuracy>"
    table = pytest.importorskip("pandas")
    assert isinstance(examples.to_pandas(), table.DataFrame)
    assert examples.to_pandas().accuracy.to_dict() == {2: 1.0, 6: 1.0, 7: 1.0}


def test_a_job_without_a_table_has_no_validation_examples(job):
    assert job.validation_examples() is None


def test_a_table_of_another_form_is_an_error(job, server):
    server.files["a"]["attempt-2/validation_examples.npy"] = b"no table"
    with pytest.raises(UnexpectedResponse, match="no table of validation examples"):
        job.validation_examples()

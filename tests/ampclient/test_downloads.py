import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampclient import ConnectionFailed, DigestMismatch, NotFound, UnexpectedResponse

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


def ranges(server):
    asked = [request for request in server.requests if "/artifacts/" in request.url.path]
    return [request.headers.get("range") for request in asked]


def below(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_artifacts_are_listed_with_size_and_digest(job):
    found = job.artifacts()
    assert [artifact.path for artifact in found] == list(FILES)
    assert (found[2].size_bytes, len(found[2].sha256)) == (2048, 64)


def test_every_file_is_put_at_its_own_path(job, tmp_path):
    places = job.download(to=tmp_path)
    assert places == [tmp_path / path for path in FILES]
    assert below(tmp_path) == FILES


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("attempt-2/model.keras", ["attempt-2/model.keras"]),
        ("attempt-2", ["attempt-2/checkpoints/step-20", "attempt-2/model.keras"]),
        ("attempt-1/checkpoints/", ["attempt-1/checkpoints/step-10"]),
    ],
)
def test_one_file_or_one_folder_can_be_named(job, tmp_path, path, names):
    job.download(path, to=tmp_path)
    assert below(tmp_path) == {name: FILES[name] for name in names}


def test_a_path_that_is_none_names_those_that_are(job, tmp_path):
    with pytest.raises(NotFound, match="attempt-2/model"):
        job.download("model.keras", to=tmp_path)


def test_what_is_there_already_is_not_fetched_again(job, server, tmp_path):
    job.download(to=tmp_path)
    fetched = len(ranges(server))
    job.download(to=tmp_path)
    assert len(ranges(server)) == fetched


def test_other_bytes_at_the_place_are_replaced(job, tmp_path):
    place = tmp_path / "attempt-2/model.keras"
    place.parent.mkdir()
    place.write_bytes(b"something of mine")
    job.download("attempt-2/model.keras", to=tmp_path)
    assert place.read_bytes() == MODEL


def test_a_connection_that_breaks_is_gone_on_with(job, server, clock, cut, tmp_path):
    server.next_answers = [server.answer, cut(100), cut(50)]
    job.download("attempt-2/model.keras", to=tmp_path)
    assert ranges(server)[-1] == "bytes=150-"
    assert below(tmp_path) == {"attempt-2/model.keras": MODEL}


def test_a_download_that_breaks_after_a_long_time_is_gone_on_with(
    job, server, clock, cut, tmp_path
):
    server.next_answers = [server.answer, cut(100)]
    job.download("attempt-2/model.keras", to=tmp_path, on_progress=lambda *_: clock.sleep(1000))
    assert below(tmp_path) == {"attempt-2/model.keras": MODEL}


def test_a_download_that_was_given_up_goes_on_in_a_later_call(job, server, answer, cut, tmp_path):
    gone = [answer(httpx.ConnectError("refused"))] * 1000
    server.next_answers = [server.answer, cut(100), *gone]
    with pytest.raises(ConnectionFailed):
        job.download("attempt-2/model.keras", to=tmp_path)
    assert not (tmp_path / "attempt-2/model.keras").exists()
    server.next_answers = []
    job.download("attempt-2/model.keras", to=tmp_path)
    assert ranges(server)[-1] == "bytes=100-"
    assert below(tmp_path) == {"attempt-2/model.keras": MODEL}


def test_a_server_that_knows_no_ranges_sends_all_again(job, server, cut, answer, tmp_path):
    server.next_answers = [server.answer, cut(100), answer(200, content=MODEL)]
    job.download("attempt-2/model.keras", to=tmp_path)
    assert below(tmp_path) == {"attempt-2/model.keras": MODEL}


@pytest.mark.parametrize("wrong", [MODEL[::-1], MODEL[:-1], MODEL + b"x", b""])
def test_bytes_that_are_not_the_promised_ones_are_an_error_and_leave_nothing(
    job, server, answer, tmp_path, wrong
):
    server.next_answers = [server.answer, answer(200, content=wrong)]
    with pytest.raises(DigestMismatch, match="attempt-2/model"):
        job.download("attempt-2/model.keras", to=tmp_path)
    assert below(tmp_path) == {}


def test_a_file_that_became_shorter_meanwhile_is_no_endless_try(job, server, cut, tmp_path):
    def shorten(request):
        server.files["a"]["attempt-2/model.keras"] = MODEL[:50]
        return server.answer(request)

    server.next_answers = [server.answer, cut(100), shorten]
    with pytest.raises(DigestMismatch):
        job.download("attempt-2/model.keras", to=tmp_path)
    assert below(tmp_path) == {}


def test_an_empty_file_is_a_file(job, server, tmp_path):
    server.files["a"] = {"report.json": b""}
    job.download(to=tmp_path)
    assert below(tmp_path) == {"report.json": b""}


def test_a_path_is_quoted_segment_by_segment(job, server, tmp_path):
    server.files["a"] = {"a b/c?d": b"x"}
    job.download(to=tmp_path)
    assert server.requests[-1].url.raw_path.endswith(b"/artifacts/a%20b/c%3Fd")
    assert below(tmp_path) == {"a b/c?d": b"x"}


@pytest.mark.parametrize(
    "path", ["../x", "/etc/x", "a/../../x", "a//x", "a\\x", "C:x", "a/\x00", ".", ""]
)
def test_no_path_of_the_server_leads_out_of_the_folder(job, server, tmp_path, path):
    server.files["a"] = {"fine": b"1", path: b"x"}
    with pytest.raises(UnexpectedResponse, match="unsafe file path"):
        job.download(to=tmp_path / "here")
    assert below(tmp_path) == {}


def test_the_bytes_that_have_come_are_reported(job, server, tmp_path):
    seen = []
    job.download(
        "attempt-2", to=tmp_path, on_progress=lambda file, size: seen.append((file.path, size))
    )
    assert seen[0] == ("attempt-2/checkpoints/step-20", 3)
    assert seen[-1] == ("attempt-2/model.keras", 2048)


@settings(
    max_examples=50,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(sizes=st.lists(st.integers(0, 700), max_size=6))
def test_however_a_download_breaks_every_byte_arrives(
    client, server, cut, tmp_path_factory, *, sizes
):
    server.add_job("h", state="succeeded")
    server.files["h"] = {"model": MODEL}
    folder = tmp_path_factory.mktemp("download")
    server.next_answers = [server.answer, server.answer, *(cut(size) for size in sizes)]
    client.jobs.get("h").download(to=folder)
    assert below(folder) == {"model": MODEL}
    server.next_answers = []

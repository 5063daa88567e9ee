"""Exports from a fake server: where the file goes, and what becomes of answers that break."""

import os

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampclient import ConnectionFailed, InvalidRequest, UnexpectedResponse
from ampclient.exports import MAX_TRIES

LINES = ["step,loss,skipped", "0,1.0,False", "1,0.5,False", "2,NaN,True"]
CSV = "".join(f"{line}\n" for line in LINES).encode()


@pytest.fixture
def job(client, server):
    server.add_job("a", state="succeeded")
    server.add_steps("a", 3, loss="NaN", skipped=True)
    return client.jobs.get("a")


@pytest.fixture
def named(answer):
    """An answer whose Content-Disposition is this one."""

    def make(disposition):
        headers = {"content-disposition": disposition} if disposition else {}
        return answer(200, content=CSV, headers=headers)

    return make


def below(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def asked(server):
    return [request for request in server.requests if request.url.path.endswith("/steps")]


def test_an_export_is_where_it_was_asked_for(job, tmp_path):
    place = job.export(tmp_path / "new" / "steps.csv")
    assert place == tmp_path / "new" / "steps.csv"
    assert below(tmp_path) == {"new/steps.csv": CSV}


@pytest.mark.parametrize("folder", ["", "new/"])
def test_in_a_folder_it_has_the_name_that_the_server_gives(job, tmp_path, folder):
    place = job.export(f"{tmp_path}/{folder}")
    assert place == tmp_path / folder / "digits-a.csv"
    assert below(tmp_path) == {f"{folder}digits-a.csv": CSV}


@pytest.mark.parametrize(
    ("path", "expected"), [("runs", "runs/digits-a.csv"), ("my.tfevents.1", "my.tfevents.1")]
)
def test_what_tensorboard_could_not_find_is_taken_for_a_folder(job, tmp_path, path, expected):
    assert job.export(tmp_path / path, "tensorboard") == tmp_path / expected


@pytest.mark.parametrize(
    "disposition",
    [None, "attachment", *(f'attachment; filename="{n}"' for n in ("../x", "..", "a/b", "C:x"))],
)
def test_no_name_of_the_server_leads_out_of_the_folder(job, server, named, tmp_path, disposition):
    server.next_answers = [named(disposition)]
    with pytest.raises(UnexpectedResponse, match="Expected a file's name"):
        job.export(tmp_path)
    assert below(tmp_path) == {}


def test_what_is_asked_for_is_sent(job, server, tmp_path):
    place = job.export(tmp_path / "a", start=1, end=2, columns=["loss"], attempt=3, max_points=9)
    assert place.read_text() == "step,loss\n1,0.5\n"
    wanted = {"start": "1", "end": "2", "columns": "loss", "attempt": "3", "max_points": "9"}
    assert dict(asked(server)[0].url.params) == {**wanted, "format": "csv"}


@pytest.mark.parametrize("format_", ["xml", "json"])
def test_a_form_that_is_none_is_refused_at_once(job, server, tmp_path, format_):
    with pytest.raises(ValueError, match=f"csv, ndjson, parquet.*received '{format_}'"):
        job.export(tmp_path, format_)
    with pytest.raises(ValueError, match="expected a format"):
        job.iter_export(format_)
    assert asked(server) == []


def test_an_unknown_column_is_an_invalid_request(job, tmp_path):
    with pytest.raises(InvalidRequest, match="lossy"):
        job.export(tmp_path, columns=["lossy"])
    assert below(tmp_path) == {}


def test_an_older_file_is_replaced_once_the_new_one_is_whole(job, server, cut, tmp_path):
    place = tmp_path / "steps.csv"
    place.write_bytes(b"older")
    server.next_answers = [cut(20)] * MAX_TRIES
    with pytest.raises(ConnectionFailed):
        job.export(place)
    assert below(tmp_path) == {"steps.csv": b"older"}
    job.export(place)
    assert below(tmp_path) == {"steps.csv": CSV}


def test_an_answer_that_breaks_off_begins_from_the_start(job, server, cut, tmp_path, clock):
    server.next_answers = [cut(40), cut(5)]
    seen = []

    def on_progress(size_bytes):
        seen.append(size_bytes)
        clock.sleep(1000)  # however long it has taken until then

    job.export(tmp_path, on_progress=on_progress)
    assert below(tmp_path) == {"digits-a.csv": CSV}
    assert seen == [40, 5, len(CSV)]


def test_a_break_that_nobody_tells_of_is_seen_in_the_file(job, server, cut, tmp_path):
    server.next_answers = [cut(-3, hidden=True)] * MAX_TRIES
    with pytest.raises(ConnectionFailed, match="closed before the response was complete"):
        job.export(tmp_path)
    assert below(tmp_path) == {}
    assert len(asked(server)) == MAX_TRIES


def test_a_server_that_is_away_is_borne_with_before_the_answer(job, server, answer, tmp_path):
    server.next_answers = [answer(httpx.ConnectError("refused"))] * 5 + [answer(503)] * 5
    assert job.export(tmp_path).read_bytes() == CSV
    server.next_answers = [answer(httpx.ConnectError("refused"))] * 1000
    with pytest.raises(ConnectionFailed):
        job.export(tmp_path)


def test_a_pipe_is_no_place_for_a_file(job, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="Expected a file or a folder"):
        job.export(tmp_path / "pipe")


def test_the_bytes_can_be_had_as_they_come(job, server, answer):
    server.next_answers = [answer(httpx.ConnectError("refused"))] * 5 + [answer(503)] * 5
    assert b"".join(job.iter_export(start=1)) == b"".join([CSV[:18], CSV[30:]])


def test_bytes_that_were_given_away_are_not_given_again(job, server, cut):
    server.next_answers = [cut(0), cut(20)]
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
def test_however_an_export_breaks_it_is_whole(
    job, server, cut, answer, tmp_path_factory, *, sizes, refused
):
    folder = tmp_path_factory.mktemp("export")
    server.next_answers = [cut(size) for size in sizes]
    server.next_answers += [answer(httpx.ConnectError("refused"))] * refused
    job.export(folder)
    assert below(folder) == {"digits-a.csv": CSV}

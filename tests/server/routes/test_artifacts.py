import hashlib
import json
import shutil
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest

from ampspec.jobs import State
from server.http import ranges
from store.access import tokens
from store.files import artifacts
from store.files.artifacts import StoredArtifact
from tests.tables import every_row
from tests.waiting import DEADLINE_S

ROOT = Path(__file__).parents[3]
PATH = "attempt-1/model ü.keras"
BYTES = bytes(range(256)) * 4000  # 1 MB: several chunks
SHA256 = hashlib.sha256(BYTES).hexdigest()
SIZE = len(BYTES)


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: tests/store/test_artifacts.py uses both."""
    return sqlite_url


@pytest.fixture
def job(api, make_job):
    return make_job(State.RUNNING)


@pytest.fixture
def publish(api, job, tmp_path):
    """Store a file of the job, as its worker would."""

    def publish(path=PATH, content=BYTES, kind="model", step=None):
        (tmp_path / "file").unlink(missing_ok=True)
        (tmp_path / "file").write_bytes(content)
        size, sha256 = api.app.state.services.storage.put(job.id, path, tmp_path / "file")
        with api.database.write() as session:
            assert artifacts.add(session, job.id, 1, StoredArtifact(path, kind, step, size, sha256))

    return publish


@pytest.fixture
def ask(api, job):
    """Ask for a file with some headers."""

    def ask(path=PATH, method="GET", **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        url = f"/api/v1/jobs/{job.id}/artifacts/{path}"
        return api.client.request(method, url, headers=headers)

    return ask


def test_the_files_of_a_job_are_listed_in_the_order_they_were_stored(api, job, publish):
    publish("attempt-1/checkpoints/step-7.npz", b"seven", "checkpoint", step=7)
    publish()
    first, second = api.client.get(f"/api/v1/jobs/{job.id}/artifacts").json()["items"]
    assert first.pop("created_at").endswith("Z")
    assert first == {
        "path": "attempt-1/checkpoints/step-7.npz",
        "kind": "checkpoint",
        "step": 7,
        "attempt": 1,
        "size_bytes": 5,
        "sha256": hashlib.sha256(b"seven").hexdigest(),
    }
    assert (second["path"], second["kind"], second["size_bytes"]) == (PATH, "model", SIZE)


def test_a_file_is_served_as_an_attachment(publish, ask):
    publish()
    answer = ask()
    assert (answer.status_code, answer.content) == (200, BYTES)
    assert answer.headers["etag"] == f'"{SHA256}"'
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["content-length"] == str(SIZE)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"] == (
        "attachment; filename=\"model__.keras\"; filename*=UTF-8''model%20%C3%BC.keras"
    )


def test_an_empty_file_is_downloaded(publish, ask):
    publish(content=b"")
    assert (ask().status_code, ask().content) == (200, b"")
    assert ask(range="bytes=0-").status_code == 416


@every_row(
    ("given", "start", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=500000-", 500_000, SIZE),
        ("bytes=-5", SIZE - 5, SIZE),
        ("bytes=-99999999", 0, SIZE),
        ("bytes=1000-99999999", 1000, SIZE),
        ("Bytes= 7-9", 7, 10),
    ],
)
def test_a_range_returns_exactly_its_bytes(publish, ask, given, start, end):
    publish()
    answer = ask(range=given)
    assert (answer.status_code, answer.content) == (206, BYTES[start:end])
    assert answer.headers["content-range"] == f"bytes {start}-{end - 1}/{SIZE}"
    assert answer.headers["content-length"] == str(end - start)


@pytest.mark.parametrize("given", ["bytes=-0", f"bytes={SIZE}-", "bytes=9999999-99999999"])
def test_a_range_beyond_the_end_is_refused_with_the_size(publish, ask, given):
    publish()
    answer = ask(range=given)
    assert (answer.status_code, answer.json()["code"]) == (416, "range_not_satisfiable")
    assert answer.headers["content-range"] == f"bytes */{SIZE}"


@every_row("given", ["bytes=0-1,5-6", "bytes=9-5", "bytes=-", "bytes=x-", "lines=0-1", "bytes=²-"])
def test_anything_but_a_single_range_returns_the_whole_file(publish, ask, given):
    publish(content=b"0123456789")
    answer = ask(range=given.encode())
    assert (answer.status_code, answer.content) == (200, b"0123456789")


@every_row(
    ("known", "status"),
    [(f'"{SHA256}"', 206), ('"another"', 200), (f'W/"{SHA256}"', 200),
     ("Fri, 20 Nov 2026 12:00:00 GMT", 200)],
)  # fmt: skip
def test_if_range_returns_a_range_only_for_the_current_etag(publish, ask, known, status):
    publish()
    assert ask(range="bytes=0-9", if_range=known).status_code == status


def test_a_file_with_a_matching_etag_gets_304(publish, ask):
    publish()
    answer = ask(if_none_match=f'"other", "{SHA256}"')
    assert (answer.status_code, answer.content) == (304, b"")
    assert answer.headers["etag"] == f'"{SHA256}"'


def test_an_interrupted_download_can_be_resumed(publish, ask):
    publish()
    first = ask(range="bytes=0-299999")
    rest = ask(range="bytes=300000-", if_range=first.headers["etag"])
    assert hashlib.sha256(first.content + rest.content).hexdigest() == SHA256


def test_head_describes_a_file_without_reading_it(publish, ask, monkeypatch, api):
    publish()
    answer = ask(method="HEAD")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == str(SIZE)
    part = ask(method="HEAD", range="bytes=0-9")
    assert (part.status_code, part.headers["content-length"]) == (206, "10")


HOSTILE = [
    "../secret", "../../../../etc/passwd", "%2e%2e/secret", "%2e%2e%2fsecret", "..%2Fsecret",
    "%2Fetc%2Fpasswd", "/etc/passwd", "//etc/passwd", "a/../secret", "a%00b", "a%0Ab", "%ff%fe",
    "..%5Csecret", "%252e%252e/secret", "x" * 501, "%F0%9F%98%80" * 300, "", "attempt-1", ".", "..",
    "attempt-1/", "attempt-1//model%20%C3%BC.keras", "attempt-1/./model%20%C3%BC.keras",
]  # fmt: skip


@every_row("path", HOSTILE)
def test_only_listed_files_can_be_read(api, job, publish, path):
    publish()
    folder = api.data_dir / "artifacts"
    for place in (api.data_dir, folder, folder / job.id):  # files without a row
        (place / "secret").write_bytes(b"hidden bytes")
    # With http.client, since httpx would normalise the path.
    connection = HTTPConnection(api.url.removeprefix("http://"), timeout=DEADLINE_S)
    headers = {"Authorization": f"Bearer {api.token}"}
    connection.request("GET", f"/api/v1/jobs/{job.id}/artifacts/{path}", headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    assert (answer.status, json.loads(body)["code"]) == (404, "not_found")
    assert b"hidden bytes" not in body


def test_an_encoded_slash_names_the_same_file(publish, ask):
    publish()
    assert ask("attempt-1%2Fmodel%20%C3%BC.keras").content == BYTES


def test_a_file_of_another_job_is_not_found(api, job, publish, make_job):
    publish()
    other = make_job(State.RUNNING)
    for path in (PATH, f"../{job.id}/{PATH}"):
        answer = api.client.get(f"/api/v1/jobs/{other.id}/artifacts/{path}")
        assert answer.status_code == 404


def test_a_file_missing_in_the_storage_is_not_found(api, job, publish, ask):
    publish()
    api.app.state.services.storage.remove_folder(job.id)
    assert (ask().status_code, ask().json()["code"]) == (404, "not_found")


def test_an_unavailable_storage_gets_503_without_details(api, job, publish, ask):
    publish()
    shutil.rmtree(folder := api.data_dir / "artifacts" / job.id)
    folder.write_bytes(b"")  # a file in place of the folder makes the storage unreadable
    answer = ask()
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert answer.headers["retry-after"]
    assert str(api.data_dir) not in answer.text


def test_a_truncated_file_gets_502(api, job, publish, ask):
    publish()
    (api.data_dir / "artifacts" / job.id / PATH).write_bytes(b"short")
    answer = ask()
    assert (answer.status_code, answer.json()["code"]) == (502, "damaged_file")


def test_a_disconnected_client_ends_its_download(api, job, publish, wait_until):
    publish(content=b"x" * 64_000_000)  # more than the kernel buffers for a slow client
    streams = api.app.state.services.streams
    with api.client.stream("GET", f"/api/v1/jobs/{job.id}/artifacts/{PATH}") as answer:
        pieces = answer.iter_raw(1000)  # if it were deleted, the connection would end
        next(pieces)
        assert streams._open == 1
    wait_until(lambda: streams._open == 0)


def test_a_download_ends_when_its_token_is_revoked(
    *, api, job, publish, client_with_role, wait_until
):
    content = b"x" * 64_000_000  # more than the kernel buffers for a slow client
    publish(content=content)
    url = f"/api/v1/jobs/{job.id}/artifacts/{PATH}"
    with client_with_role("viewer").stream("GET", url) as answer:
        pieces = answer.iter_raw(1000)
        assert next(pieces)
        with api.database.write() as session:
            [token] = [row for row in tokens.listing(session) if row.name == "viewer of default"]
            tokens.revoke(session, token)
        api.app.state.services.authenticator.forget(token.id)
        wait_until(lambda: api.app.state.services.streams._open == 0)
        with pytest.raises(httpx.RemoteProtocolError):  # the body is shorter than Content-Length
            list(pieces)


def test_a_range_with_an_overlong_number_is_ignored():
    from starlette.datastructures import Headers

    assert ranges.requested_range(Headers({"range": f"bytes={'9' * 5000}-"}), "x", 10) is None


PARSE_BLANKS = """
from starlette.datastructures import Headers

from server.http import ranges

for blanks in (" " * 10**6, "\\t" * 10**6 + "-"):
    assert ranges.requested_range(Headers({"range": f"bytes={blanks}x"}), "x", 10) is None
"""


def test_a_range_header_with_a_million_blanks_is_parsed_in_linear_time():
    """A parser with quadratic time would take hours."""
    command = [sys.executable, "-c", PARSE_BLANKS]
    subprocess.run(command, check=True, cwd=ROOT, timeout=DEADLINE_S)

"""The routes of uploads: in several requests, in one, and with connections that break."""

import errno
import hashlib
import socket
import subprocess
from urllib.parse import urlsplit

import pytest
from sqlalchemy import select

from server.http.limits import MAX_BODY_BYTES
from store.access import projects, tokens
from store.tables import DatasetUpload
from tests.waiting import DEADLINE_S, wait_until

UPLOADS = "/api/v1/datasets/birds/uploads"
SIZE = 2_560_000
CONTENT = bytes(range(256)) * 10_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


pytestmark = pytest.mark.usefixtures("_describe_in_this_process")


@pytest.fixture
def start(api):
    def start(size=SIZE, file="birds.npz", **values):
        body = {"file": file, "size_bytes": size, **values}
        answer = api.client.post(UPLOADS, json=body)
        assert answer.status_code == 201, answer.text
        return answer.headers["Location"]

    return start


@pytest.fixture
def append(api):
    def append(address, offset, content, **headers):
        return api.client.patch(
            address, content=content, headers={"Upload-Offset": str(offset), **headers}
        )

    return append


def test_a_file_is_uploaded_in_several_requests(api, start, append):
    address = start(sha256=SHA256)
    for begin in range(0, len(CONTENT), 1_000_000):
        piece = CONTENT[begin : begin + 1_000_000]
        answer = append(address, begin, piece)
        assert answer.headers["Upload-Offset"] == str(begin + len(piece)), answer.text
    head = api.client.head(address)
    assert (head.status_code, head.headers["Upload-Offset"]) == (200, str(len(CONTENT)))
    assert head.headers["Cache-Control"] == "no-store"
    first, again = (api.client.post(f"{address}/complete") for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert (first.json()["sha256"], first.json()["file_name"]) == (SHA256, "birds.npz")
    assert api.client.get(address).json()["version"] == 1
    assert append(address, len(CONTENT), b"").status_code == 409


def test_a_file_is_uploaded_in_one_request(api):
    first = api.client.put("/api/v1/datasets/birds?file=b.npz", content=CONTENT)
    assert (first.status_code, first.json()["sha256"]) == (201, SHA256)
    again = api.client.put("/api/v1/datasets/birds", content=CONTENT)
    assert (again.status_code, again.json()) == (200, first.json())
    known = api.client.put(f"/api/v1/datasets/birds?sha256={SHA256}", content=CONTENT)
    assert (known.status_code, known.json()) == (200, first.json())
    assert list((api.data_dir / "uploads").iterdir()) == []


@pytest.mark.needs("curl")
def test_curl_uploads_a_file(api, tmp_path):
    (tmp_path / "birds.npz").write_bytes(CONTENT)
    command = ["curl", "--silent", "--fail", "-T", "birds.npz"]
    header = ["-H", f"Authorization: Bearer {api.token}", f"{api.url}/api/v1/datasets/birds"]
    printed = subprocess.check_output([*command, *header], cwd=tmp_path, timeout=DEADLINE_S)
    assert SHA256.encode() in printed


def test_a_wrong_digest_is_refused(api, start, append):
    answer = api.client.put(f"/api/v1/datasets/birds?sha256={'0' * 64}", content=b"x")
    assert answer.status_code == 422
    [problem] = answer.json()["errors"]
    assert (problem["pointer"], problem["code"]) == ("/sha256", "digest_mismatch")
    assert api.client.get("/api/v1/datasets").json()["items"] == []
    assert list((api.data_dir / "uploads").iterdir()) == []


def test_a_file_in_one_request_leaves_a_begun_upload_of_it_alone(api, start, append):
    address = start(file="birds", sha256=SHA256)
    append(address, 0, CONTENT[:1_000_000])
    answer = api.client.put(f"/api/v1/datasets/birds?sha256={SHA256}", content=CONTENT)
    assert (answer.status_code, answer.json()["sha256"]) == (201, SHA256), answer.text
    assert api.client.get(address).json()["offset"] == 1_000_000


def test_an_upload_does_not_continue_a_file_that_another_request_sends(api, start):
    headers = {"Authorization": f"Bearer {api.token}", "Content-Length": str(SIZE)}
    address = f"/api/v1/datasets/birds?sha256={SHA256}"
    with Sender(api, "PUT", address, headers, CONTENT[:1000]).socket:
        wait_until(lambda: list((api.data_dir / "uploads").glob("*")), "the request has begun")
        with api.database.read() as session:
            [sending] = session.scalars(select(DatasetUpload.id))
        assert sending not in start(file="birds", sha256=SHA256)


def test_more_bytes_than_announced_are_refused(api, start, append):
    address = start(size=5)
    assert append(address, 0, b"123456").status_code == 413
    chunked = append(address, 0, iter([b"123", b"456"]))
    assert (chunked.status_code, chunked.json()["code"]) == (413, "payload_too_large")
    assert api.client.get(address).json()["offset"] == 0
    assert list((api.data_dir / "uploads").iterdir()) == []
    assert append(address, 0, iter([b"12", b"345"])).json()["offset"] == 5


def test_a_refused_body_does_not_break_the_connection(api, start, append):
    address = start(size=5)
    assert append(address, 3, CONTENT).status_code == 409
    assert append(address, 0, CONTENT).status_code == 413
    assert append(address, 0, b"12345").status_code == 200


def test_a_body_of_unknown_length_needs_the_resumable_upload(api):
    answer = api.client.put("/api/v1/datasets/birds", content=iter([b"a", b"b"]))
    assert (answer.status_code, answer.json()["code"]) == (411, "length_required")


def test_other_routes_still_limit_their_bodies(api):
    body = b" " * (MAX_BODY_BYTES + 1)
    for path in ("birds/uploads", "birds/uploads/0123456789ab/complete"):
        assert api.client.post(f"/api/v1/datasets/{path}", content=body).status_code == 413


def test_a_file_over_the_maximum_size_is_refused(api, start):
    api.app.state.services.uploads.max_bytes = 10
    answer = api.client.post(UPLOADS, json={"file": "b.npz", "size_bytes": 11})
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
    assert api.client.put("/api/v1/datasets/birds", content=b"x" * 11).status_code == 413


def test_the_quota_is_enforced(api, start):
    with api.database.write() as session:
        projects.update(session, "default", {"max_dataset_bytes": 10})
    address = start(size=6)
    answer = api.client.put("/api/v1/datasets/birds", content=b"x" * 5)
    assert (answer.status_code, answer.json()["code"]) == (413, "dataset_quota_exceeded")
    assert api.client.delete(address).status_code == 204
    assert api.client.delete(address).status_code == 404
    assert api.client.put("/api/v1/datasets/birds", content=b"x" * 5).status_code == 201
    [project] = api.client.get("/api/v1/projects").json()["items"]
    assert (project["dataset_bytes"], project["max_dataset_bytes"]) == (5, 10)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"size_bytes": 1}, "/body/file"),
        ({"file": "../x", "size_bytes": 1}, "/body/file"),
        ({"file": "x", "size_bytes": -1}, "/body/size_bytes"),
        ({"file": "x", "size_bytes": 1, "sha256": "F" * 64}, "/body/sha256"),
        ({"file": "x", "size_bytes": 1, "more": 1}, "/body/more"),
    ],
)
def test_an_invalid_start_names_the_field(api, body, pointer):
    answer = api.client.post(UPLOADS, json=body)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


def test_the_offset_header_is_required(api, start):
    address = start()
    for headers in ({}, {"Upload-Offset": "-1"}, {"Upload-Offset": "x"}):
        answer = api.client.patch(address, content=b"x", headers=headers)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == "/header/Upload-Offset"


def test_a_repeated_start_with_its_key_reserves_once(api):
    body, headers = {"file": "b.npz", "size_bytes": 4}, {"Idempotency-Key": "k"}
    first, again = (api.client.post(UPLOADS, json=body, headers=headers) for _ in range(2))
    assert first.json() == again.json()
    [project] = api.client.get("/api/v1/projects").json()["items"]
    assert project["dataset_bytes"] == 4


def test_uploads_of_another_project_are_not_found(api, start, client_with_role):
    address = start()
    stranger = client_with_role(project="elsewhere")
    assert stranger.get(address).status_code == 404
    append = stranger.patch(address, content=b"x", headers={"Upload-Offset": "0"})
    assert append.status_code == 404
    assert stranger.post(f"{address}/complete").status_code == 404
    assert stranger.delete(address).status_code == 404


def test_a_full_disk_is_a_temporary_error_that_keeps_what_is_stored(
    api, start, append, monkeypatch
):
    address = start(size=6)
    append(address, 0, b"abc")
    with monkeypatch.context() as patch:
        patch.setattr("server.http.receive_body._HashedFile.write", fail_with_full_disk)
        answer = append(address, 3, b"def")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert "Retry-After" in answer.headers
    append(address, 3, b"def")
    for function in (
        "uploads.tempfile.TemporaryDirectory",
        "uploads.assemble",
        "describe.run_program",
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"server.datasets.{function}", fail_with_full_disk)
            assert api.client.post(f"{address}/complete").status_code == 503
    assert api.client.post(f"{address}/complete").json()["size_bytes"] == 6


def fail_with_full_disk(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


class Sender:
    """A client that sends the head of a request and a part of its body."""

    def __init__(self, api, method, address, headers, part):
        where = urlsplit(api.url)
        self.socket = socket.create_connection((where.hostname, where.port), timeout=DEADLINE_S)
        lines = [f"{method} {address} HTTP/1.1", f"Host: {where.netloc}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode() + part)


@pytest.fixture
def begin_append(api):
    def begin_append(address, part, length, token=None):
        headers = {
            "Authorization": f"Bearer {token or api.token}",
            "Upload-Offset": "0",
            "Content-Length": str(length),
        }
        return Sender(api, "PATCH", address, headers, part).socket

    return begin_append


def test_what_arrived_before_the_connection_broke_is_kept(api, start, append, begin_append):
    address = start()
    with begin_append(address, CONTENT[:1_500_000], len(CONTENT)):
        pass
    wait_until(lambda: api.client.get(address).json()["offset"] > 0, "the bytes are stored")
    offset = api.client.get(address).json()["offset"]
    assert offset <= 1_500_000
    append(address, offset, CONTENT[offset:])
    assert api.client.post(f"{address}/complete").json()["sha256"] == SHA256


def test_an_upload_ends_when_its_token_is_revoked(api, start, begin_append, monkeypatch):
    monkeypatch.setattr("server.http.receive_body.AUTH_CHECK_S", 0.0)  # at every piece
    with api.database.write() as session:
        token = tokens.create(session, "soon revoked")
    address = start()
    with begin_append(address, CONTENT[:1000], len(CONTENT), token) as connection:
        wait_until(lambda: list((api.data_dir / "uploads").glob("*")), "the upload has begun")
        with api.database.write() as session:
            row = tokens.get_by_secret(session, token)
            tokens.revoke(session, row)
        api.app.state.services.authenticator.forget(row.id)
        connection.sendall(CONTENT[1000:2000])
        answer = connection.recv(100)
    assert answer.startswith(b"HTTP/1.1 401")
    assert api.client.get(address).json()["offset"] == 0

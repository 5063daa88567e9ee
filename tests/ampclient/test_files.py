"""`client.files` against the real API."""

import asyncio
import hashlib
import os
from contextlib import ExitStack

import httpx
import numpy as np
import pytest

from ampclient import AsyncClient, Client, Conflict, DigestMismatch, NotFound
from ampclient._http.pages import read_pages
from ampcore.checkpoint.tensors import encode_tensors
from tests.waiting import DEADLINE_S

CONTENT = encode_tensors({"x": np.frombuffer(os.urandom(2_500_000), np.uint8)}, {})
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: this is about the client."""
    return sqlite_url


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "weights.safetensors"
    file.write_bytes(CONTENT)
    return file


class Breaking(httpx.BaseTransport):
    """Breaks the connection at the first PUT, before or after the server has handled it."""

    def __init__(self, *, after_response):
        self._real, self._after_response = httpx.HTTPTransport(), after_response
        self.sent = []

    def handle_request(self, request):
        self.sent.append(request.method)
        if request.method == "PUT" and self.sent.count("PUT") == 1:
            if self._after_response:
                answer = self._real.handle_request(request)
                answer.read()
                answer.close()
            raise httpx.ReadError("the connection broke")
        return self._real.handle_request(request)

    def close(self):
        self._real.close()


@pytest.fixture
def connect(api, monkeypatch):
    monkeypatch.setattr("ampclient._http.retry.FIRST_DELAY_S", 0.0)
    with ExitStack() as opened:

        def connect(transport=None):
            http_client = httpx.Client(transport=transport, timeout=DEADLINE_S)
            opened.enter_context(http_client)
            return Client(api.url, api.token, http_client=http_client)

        yield connect


def test_a_file_is_uploaded_looked_up_and_downloaded(connect, file, tmp_path):
    client, seen = connect(), []
    stored = client.files.upload(
        file, kind="weights", on_progress=lambda name, *sizes: seen.append(sizes)
    )
    assert stored.reference == f"sha256:{SHA256}"
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert client.files.get(stored.reference, kind="weights").size_bytes == len(CONTENT)
    path = client.files.download(stored.reference, kind="weights", to=tmp_path / "back")
    assert path == tmp_path / "back" / f"weights-{SHA256[:16]}.safetensors"
    assert path.read_bytes() == CONTENT
    with pytest.raises(NotFound):
        client.files.get(stored.reference, kind="bundle")
    with pytest.raises(ValueError, match="model"):
        client.files.upload(file, kind="model")


def test_a_file_that_the_server_has_is_not_sent_again(api, connect, file):
    connect().files.upload(file, kind="weights")
    counting = Breaking(after_response=False)
    connect(counting).files.upload(file, kind="weights")
    assert counting.sent == ["GET"]


@pytest.mark.parametrize("after_response", [False, True])
def test_an_upload_survives_a_broken_connection(api, connect, file, after_response):
    breaking = Breaking(after_response=after_response)
    stored = connect(breaking).files.upload(file, kind="weights")
    assert stored.sha256 == SHA256
    assert breaking.sent == ["GET", "PUT", "GET", *([] if after_response else ["PUT"])]


def test_a_changed_download_is_refused(api, connect, file, tmp_path):
    client = connect()
    stored = client.files.upload(file, kind="weights")
    [content] = [path for path in (api.data_dir / "artifacts/files").rglob("*") if path.is_file()]
    content.chmod(0o600)
    content.write_bytes(b"x" * len(CONTENT))
    with pytest.raises(DigestMismatch):
        client.files.download(stored.reference, kind="weights", to=tmp_path / "back")


def test_the_async_client_uploads_and_downloads(api, file, tmp_path):
    async def run():
        async with AsyncClient(api.url, api.token, timeout_s=DEADLINE_S) as client:
            stored = await client.files.upload(file, kind="weights")
            return await client.files.download(
                stored.reference, kind="weights", to=tmp_path / "back"
            )

    assert asyncio.run(run()).read_bytes() == CONTENT


def test_files_are_listed_and_deleted(connect, file):
    client = connect()
    stored = client.files.upload(file, kind="weights")
    [listed] = client.files.list()
    assert (listed.reference, listed.size_bytes) == (stored.reference, len(CONTENT))
    assert (listed.job_count, listed.jobs) == (0, [])
    assert list(client.files.list(kind="bundle")) == []
    job = client.jobs.submit(
        {
            "model": {"kind": "mlp"},
            "data": {"kind": "digits"},
            "init": {"weights": stored.reference},
        }
    )
    assert [job_reference.id for job_reference in next(iter(client.files.list())).jobs] == [job.id]
    with pytest.raises(Conflict, match=job.id):
        client.files.delete(stored.reference, kind="weights")
    job.cancel()
    job.delete()
    with pytest.raises(Conflict, match=r"in the trash.*--permanent"):
        client.files.delete(stored.reference, kind="weights")
    job.delete(permanent=True)
    client.files.delete(stored.reference, kind="weights")
    assert list(client.files.list()) == []


def test_a_list_reads_all_pages(connect, monkeypatch):
    def small_pages(*arguments, page_size, **options):
        return read_pages(*arguments, page_size=2, **options)

    monkeypatch.setattr("ampclient.files.read_pages", small_pages)
    client = connect()
    for number in range(5):
        client.files.upload_weights({"x": np.full(3, number, np.float32)})
    assert len({file.sha256 for file in client.files.list()}) == 5
    assert len(list(client.files.list(limit=3))) == 3


def test_callbacks_of_version_0_5_are_called_with_the_bytes(connect, file, tmp_path):
    client, sizes = connect(), (len(CONTENT), len(CONTENT))
    seen = []
    with pytest.warns(DeprecationWarning, match="is now (on_progress=|called with)") as warned:
        stored = client.files.upload(
            file, kind="weights", progress=lambda done, total: seen.append((done, total))
        )
    assert (len(warned), seen[-1]) == (2, sizes)
    seen.clear()
    with pytest.warns(DeprecationWarning, match=r"on_progress\(done_bytes, total_bytes\)"):
        client.files.download(
            stored.reference,
            kind="weights",
            to=tmp_path / "back",
            on_progress=lambda done, total: seen.append((done, total)),
        )
    assert seen[-1] == sizes

"""`client.datasets` against the real API."""

import asyncio
import hashlib
import io
import os
import zipfile
from pathlib import Path

import httpx
import numpy as np
import pytest

from ampclient import (
    AsyncClient,
    Client,
    Conflict,
    ConnectionFailed,
    DatasetQuotaExceeded,
    DigestMismatch,
    InvalidRequest,
    NotFound,
)
from ampclient.datasets import name_of
from ampspec.jobs import State
from store.access import projects
from tests.file_descriptions import describe_in_this_process
from tests.tables import every_row
from tests.waiting import DEADLINE_S

SIZE = 2_500_000


def array_file(size):
    """An array of random bytes as a file of this size."""
    file = io.BytesIO()
    np.save(file, np.frombuffer(os.urandom(size - 128), np.uint8))
    return file.getvalue()


CONTENT = array_file(SIZE)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def describe_files(monkeypatch):
    """Describe uploaded files without the server's child process."""
    describe_in_this_process(monkeypatch)


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: this is about the client."""
    return sqlite_url


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Several requests for each upload."""
    monkeypatch.setattr("ampclient._transfer.uploads.CHUNK_BYTES", 1_000_000)


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "Birds of prey.npz"
    file.write_bytes(CONTENT)
    return file


class Breaking(httpx.BaseTransport):
    """Sends requests on, and breaks the connection at the chosen PATCH requests."""

    def __init__(self, *broken, after_response=False):
        self._real = httpx.HTTPTransport()
        self._broken, self._after_response = set(broken), after_response
        self.offsets = []

    def handle_request(self, request):
        if request.method == "PATCH":
            self.offsets.append(int(request.headers["Upload-Offset"]))
            if len(self.offsets) in self._broken:
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
    """Clients of the API, over a given transport."""
    monkeypatch.setattr("ampclient._http.retry.FIRST_DELAY_S", 0.0)
    clients = []

    def connect(transport=None):
        http_client = httpx.Client(transport=transport, timeout=DEADLINE_S)
        clients.append(http_client)
        return Client(api.url, api.token, http_client=http_client)

    yield connect
    for http_client in clients:
        http_client.close()


@pytest.fixture
def client(connect):
    return connect()


def test_a_file_is_uploaded_listed_read_downloaded_and_deleted(client, file, tmp_path):
    seen = []
    version = client.datasets.upload(file, on_progress=lambda _, *n: seen.append(n))
    assert (version.reference, version.sha256, version.file_name) == (
        "birds-of-prey@1",
        SHA256,
        "Birds of prey.npz",
    )
    assert (seen[0], seen[-1]) == ((0, SIZE), (SIZE, SIZE))
    assert [sent for sent, _ in seen] == sorted(sent for sent, _ in seen)
    file.write_bytes(b"second")
    assert client.datasets.upload(file, name="birds-of-prey").number == 2
    [dataset] = client.datasets.list()
    assert (dataset.name, dataset.version_count, dataset.newest.number) == ("birds-of-prey", 2, 2)
    assert [v.number for v in client.datasets.versions("birds-of-prey")] == [2, 1]
    assert client.datasets.get("birds-of-prey").number == 2
    assert client.datasets.get("birds-of-prey@1").sha256 == SHA256
    progress = []
    path = client.datasets.download(
        "birds-of-prey@1",
        to=tmp_path / "new",
        on_progress=lambda _, *n: progress.append(n),
    )
    assert path == tmp_path / "new" / "Birds of prey.npz"
    assert path.read_bytes() == CONTENT
    assert progress[-1] == (SIZE, SIZE)
    client.datasets.delete("birds-of-prey@1")
    with pytest.raises(NotFound, match="birds-of-prey@1"):
        client.datasets.get("birds-of-prey@1")
    client.datasets.delete("birds-of-prey")
    assert list(client.datasets.list()) == []


def test_all_of_it_works_with_asyncio(api, file, tmp_path):
    async def run():
        async with AsyncClient(api.url, api.token) as client:
            version = await client.datasets.upload(file, name="birds")
            names = [dataset.name async for dataset in client.datasets.list()]
            newest = await client.datasets.get("birds")
            path = await client.datasets.download("birds", to=tmp_path / "new")
            await client.datasets.delete("birds@1")
            return version, names, newest, path

    version, names, newest, path = asyncio.run(run())
    assert (version.sha256, names, newest.reference) == (SHA256, ["birds"], "birds@1")
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("after_response", [False, True])
def test_an_upload_continues_after_broken_connections(connect, file, after_response):
    transport = Breaking(1, 3, after_response=after_response)
    assert connect(transport).datasets.upload(file).sha256 == SHA256
    if after_response:  # the server has the bytes: they are not sent again
        assert transport.offsets == [0, 1_000_000, 2_000_000]
    else:
        assert transport.offsets == [0, 0, 1_000_000, 1_000_000, 2_000_000]


def test_an_upload_of_an_earlier_process_is_continued(connect, file, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("ampclient._transfer.uploads.POLLING_RETRY_TIMEOUT_S", -1.0)
        with pytest.raises(ConnectionFailed):
            connect(Breaking(2)).datasets.upload(file, name="birds")
    transport = Breaking()
    assert connect(transport).datasets.upload(file, name="birds").number == 1
    assert transport.offsets == [1_000_000, 2_000_000]


def test_a_known_file_is_not_sent_again(connect, file):
    connect().datasets.upload(file, name="birds")
    transport = Breaking()
    seen = []
    again = connect(transport).datasets.upload(
        file, name="birds", on_progress=lambda name, *sizes: seen.append(sizes)
    )
    assert (again.number, transport.offsets, seen) == (1, [], [(SIZE, SIZE)])


def test_a_file_that_changes_during_its_upload_creates_no_version(client, file):
    def change(_name, sent, _size):
        if sent == 0:
            file.write_bytes(os.urandom(SIZE))

    with pytest.raises(InvalidRequest, match=SHA256):
        client.datasets.upload(file, on_progress=change)
    assert list(client.datasets.list()) == []


def test_a_folder_is_uploaded_as_an_archive(client, tmp_path):
    folder = tmp_path / "birds"
    (folder / "owl").mkdir(parents=True)
    (folder / "owl" / "1.png").write_bytes(CONTENT)
    version = client.datasets.upload(folder)
    assert (version.reference, version.file_name) == ("birds@1", "birds.zip")
    path = client.datasets.download("birds", to=tmp_path / "new")
    with zipfile.ZipFile(path) as archive:
        assert archive.read("owl/1.png") == CONTENT
    assert client.datasets.upload(folder).number == 1


def test_the_quota_is_an_error_of_its_own(api, client, file):
    with api.database.write() as session:
        projects.update(session, "default", {"max_dataset_bytes": 10})
    with pytest.raises(DatasetQuotaExceeded, match="quota of 10 bytes") as caught:
        client.datasets.upload(file)
    assert (caught.value.status, caught.value.code) == (413, "dataset_quota_exceeded")


def test_a_version_in_use_is_not_deleted(client, file, make_job):
    client.datasets.upload(file, name="birds")
    make_job(State.QUEUED, name="my job", data={"kind": "npz", "dataset": "birds@1"})
    with pytest.raises(Conflict, match="'my job'"):
        client.datasets.delete("birds")


def test_a_damaged_download_is_deleted(api, client, file, tmp_path):
    client.datasets.upload(file, name="birds")
    [stored] = (api.data_dir / "artifacts" / "datasets" / "default").iterdir()
    stored.chmod(0o644)
    stored.write_bytes(bytes(SIZE))
    with pytest.raises(DigestMismatch, match="birds@1 does not match"):
        client.datasets.download("birds", to=tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []


@every_row("reference", ["Birds", "birds@x", "birds@0", ""])
def test_a_malformed_reference_is_refused_before_it_is_sent(client, file, reference):
    for call in (client.datasets.get, client.datasets.delete, client.datasets.download):
        with pytest.raises(ValueError, match="expected the name of a dataset"):
            call(reference)
    with pytest.raises(ValueError, match="expected the name of a dataset"):
        client.datasets.upload(file, name=reference)
    with pytest.raises(ValueError, match="without a version"):
        client.datasets.upload(file, name="birds@1")


@pytest.mark.parametrize(
    ("file", "name"),
    [("MNIST.npz", "mnist"), ("a b!.tar.gz", "a-b-.tar"), ("x" * 80, "x" * 63)],
)
def test_a_dataset_is_named_after_its_file(file, name):
    assert name_of(Path(file)) == name


def test_a_file_without_a_usable_name_needs_one():
    with pytest.raises(ValueError, match="expected a file name that makes a name"):
        name_of(Path("数据.npz"))


def test_callbacks_of_version_0_5_are_called_with_the_bytes(client, file, tmp_path):
    seen = []

    def report(done_bytes, total_bytes):
        seen.append((done_bytes, total_bytes))

    for call, argument in (
        (client.datasets.upload, file),
        (
            lambda argument, **more: client.datasets.download(argument, to=tmp_path, **more),
            "birds-of-prey",
        ),
    ):
        with pytest.warns(DeprecationWarning, match="is now") as warned:
            call(argument, progress=report)
        assert [str(warning.message).partition(" is now ")[0] for warning in warned] == [
            f"{'upload' if argument is file else 'download'}(progress=)",
            "on_progress(done_bytes, total_bytes)",
        ]
        assert {warning.filename for warning in warned} == {__file__}
        assert seen[-1] == (SIZE, SIZE)
        del seen[:]

"""`client.jobs.submit(spec, code=FOLDER)` against the real API."""

import asyncio
import hashlib
import os
import zipfile

import httpx
import pytest

from ampclient import AsyncClient, Client, Forbidden, InvalidRequest, InvalidSpec
from ampclient._transfer import code as code_upload
from ampclient._transfer.code_bundle import MAX_FILES, bundle_source
from tests.waiting import DEADLINE_S

SPEC = {"model": {"kind": "bundle", "options": {"units": 3}}, "data": {"kind": "digits"}}
NET = "def build(options, signature):\n    return None\n"


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: this is about the client."""
    return sqlite_url


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "code"
    (folder / "parts").mkdir(parents=True)
    (folder / "net.py").write_text(NET)
    (folder / "parts/layer.py").write_text("x = 1\n")
    return folder


@pytest.fixture
def client(api):
    with httpx.Client(timeout=DEADLINE_S) as http_client:
        yield Client(api.url, api.token, http_client=http_client)


def content_of(source):
    return b"".join(source.read(0, source.size_bytes))


def test_the_code_is_uploaded_once_and_named_in_the_spec(client, folder, tmp_path):
    first, again = (client.jobs.submit(SPEC, code=folder) for _ in range(2))
    reference = first.spec["model"]["bundle"]
    assert reference == again.spec["model"]["bundle"]
    assert first.spec["model"]["options"] == {"units": 3}
    stored = client.files.get(reference, kind="bundle")
    assert [file.name for file in stored.contents] == ["net.py", "parts/layer.py"]
    path = client.files.download(reference, kind="bundle", to=tmp_path)
    with zipfile.ZipFile(path) as archive:
        assert archive.read("net.py").decode() == NET


def test_code_that_is_changed_during_its_upload_is_that_of_one_moment(
    client, folder, tmp_path, monkeypatch
):
    """Fails if the files are read again after the spec has named them."""
    upload = code_upload.upload_file

    async def change_and_upload(*arguments):
        (folder / "net.py").write_text("changed = True\n")
        return await upload(*arguments)

    monkeypatch.setattr(code_upload, "upload_file", change_and_upload)
    job = client.jobs.submit(SPEC, code=folder)
    reference = job.spec["model"]["bundle"]
    path = client.files.download(reference, kind="bundle", to=tmp_path)
    assert f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}" == reference
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.read("net.py").decode() == NET


def test_validation_uploads_nothing(api, client, folder):
    validation = client.jobs.validate(SPEC, code=folder)
    sha256 = bundle_source(folder).sha256()
    assert validation.spec["model"]["bundle"] == f"sha256:{sha256}"
    assert api.client.head(f"/api/v1/files/bundle/{sha256}").status_code == 404


def test_the_archive_depends_only_on_names_and_contents(folder, tmp_path):
    before = content_of(bundle_source(folder))
    os.utime(folder / "net.py", (1, 1))
    (folder / "net.py").chmod(0o700)
    copy = tmp_path / "copy"
    (copy / "parts").mkdir(parents=True)
    for name in ("parts/layer.py", "net.py"):
        (copy / name).write_bytes((folder / name).read_bytes())
    assert content_of(bundle_source(folder)) == content_of(bundle_source(copy)) == before
    assert bundle_source(folder).sha256() == hashlib.sha256(before).hexdigest()
    (copy / "net.py").write_text("x")
    assert content_of(bundle_source(copy)) != before


def test_caches_hidden_files_and_environments_are_left_out(folder):
    before = bundle_source(folder).sha256()
    for name in (
        "__pycache__/net.pyc",
        ".git/config",
        ".venv/bin/python",
        ".env",
        "venv/lib/a.py",
        "parts/__pycache__/a.pyc",
        "old.pyc",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    (folder / ".venv/link").symlink_to("/")
    assert bundle_source(folder).sha256() == before


@pytest.mark.parametrize("target", ["file", "folder"])
def test_a_link_is_refused_by_its_name(client, folder, tmp_path, target):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (folder / "parts/shared").symlink_to(tmp_path / target)
    with pytest.raises(ValueError, match="a link: 'parts/shared'"):
        client.jobs.submit(SPEC, code=folder)


def test_a_special_file_is_refused(folder):
    os.mkfifo(folder / "pipe")
    with pytest.raises(ValueError, match="a special file: 'pipe'"):
        bundle_source(folder)


def test_too_many_files_too_large_ones_and_none_are_refused(folder, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    for wrong in (tmp_path / "empty", folder / "net.py", tmp_path / "missing"):
        with pytest.raises(ValueError, match="expected a folder"):
            bundle_source(wrong)
    monkeypatch.setattr("ampclient._transfer.code_bundle.MAX_BYTES", 10)
    with pytest.raises(ValueError, match="at most 10 bytes of code"):
        bundle_source(folder)
    for number in range(MAX_FILES):
        (folder / f"{number}.py").touch()
    with pytest.raises(ValueError, match=f"at most {MAX_FILES} files"):
        bundle_source(folder)


def test_code_for_another_kind_of_model_is_refused(client, folder):
    with pytest.raises(InvalidSpec, match="bundle, since a folder"):
        client.jobs.submit({**SPEC, "model": {"kind": "mlp"}}, code=folder)


def test_a_token_without_the_right_learns_how_to_get_it(api, client_with_role, folder):
    token = client_with_role().headers["Authorization"].removeprefix("Bearer ")
    with httpx.Client(timeout=DEADLINE_S) as http_client:
        member = Client(api.url, token, http_client=http_client)
        with pytest.raises(Forbidden, match="ampctl token create NAME --scope jobs:run-code"):
            member.jobs.submit(SPEC, code=folder)


def test_the_server_names_what_is_wrong_with_an_archive(client, tmp_path):
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr("../net.py", NET)
    with pytest.raises(InvalidRequest, match="relative path inside the archive"):
        client.files.upload(tmp_path / "bad.zip", kind="bundle")


def test_the_async_client_submits_code(api, folder):
    async def run():
        async with AsyncClient(api.url, api.token, timeout_s=DEADLINE_S) as client:
            return await client.jobs.submit(SPEC, code=folder)

    assert asyncio.run(run()).spec["model"]["bundle"].startswith("sha256:")

"""`ampctl file` against the real API."""

import json

import numpy as np
import pytest

from ampclient import Client
from tests.waiting import DEADLINE_S


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: this is about the command line."""
    return sqlite_url


@pytest.fixture
def address(api):
    """The real API in place of the fake server."""
    return api.url


@pytest.fixture(autouse=True)
def connection(configured, api):
    configured.write_text(json.dumps({"url": api.url, "token": api.token}))


@pytest.fixture
def stored(api):
    """Two files; a job names the first one."""
    with Client(api.url, api.token, timeout_s=DEADLINE_S) as client:
        files = [client.files.upload_weights({"x": np.full(9, n, np.float32)}) for n in range(2)]
        spec = {"name": "mine", "model": {"kind": "mlp"}, "data": {"kind": "digits"}}
        job = client.jobs.submit(spec | {"init": {"weights": files[0].reference}})
    return *files, job


def test_files_are_listed_with_the_jobs_that_name_them(ampctl, stored):
    in_use, unused, job = stored
    head, first, second = ampctl("file", "list").out.splitlines()
    assert head.split() == ["FILE", "KIND", "SIZE", "UPLOADED", "BY", "USED", "JOBS"]
    assert first.startswith(f"sha256:{unused.sha256[:12]}")
    assert first.split()[-1] == "0"
    assert second.startswith(f"sha256:{in_use.sha256[:12]}")
    assert second.endswith(f"1: mine ({job.id})")
    assert [file["job_count"] for file in ampctl("file", "list", "--json").json()] == [0, 1]
    assert "There are no files" in ampctl("file", "list", "--kind", "bundle").err


def test_a_file_is_deleted_by_the_first_digits_of_its_sha256(ampctl, stored):
    in_use, unused, job = stored
    deleted = ampctl("file", "delete", unused.reference[:19])
    assert (deleted.code, deleted.err) == (0, f"Deleted {unused.reference}.\n")
    refused = ampctl("file", "delete", in_use.sha256)
    assert refused.code == 3
    assert job.id in refused.err
    [remaining] = ampctl("file", "list", "--json").json()
    assert remaining["sha256"] == in_use.sha256


@pytest.mark.parametrize(("digits", "code"), [("abc", 2), ("not-digits", 2), ("0123456789", 4)])
def test_a_reference_that_is_not_of_one_file_is_refused(ampctl, stored, digits, code):
    result = ampctl("file", "delete", digits)
    assert result.code == code
    assert digits in result.err


def test_digits_of_several_files_are_refused(ampctl, stored, monkeypatch):
    monkeypatch.setattr("ampclient.cli.storage.files.MIN_DIGITS", 0)
    result = ampctl("file", "delete", "sha256:")
    assert result.code == 2
    assert all(file.sha256[:8] in result.err for file in stored[:2])

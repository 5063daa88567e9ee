import pytest


@pytest.fixture
def job(server):
    server.add_job("a", state="succeeded")
    server.files["a"] = {"attempt-1/model.keras": b"x" * 2048, "attempt-1/report.json": b"{}"}
    return "a"


def test_each_artifact_is_a_row(ampctl, job):
    head, first, _ = (line.split() for line in ampctl("artifacts", job).out.splitlines())
    assert head == ["PATH", "KIND", "STEP", "SIZE", "SHA256", "AGE"]
    assert first[:5] == ["attempt-1/model.keras", "model", "–", "2", "KiB"]
    listed = ampctl("artifacts", job, "--json").json()
    assert [file["size_bytes"] for file in listed] == [2048, 2]


def test_download_prints_the_paths_of_the_files(ampctl, job, tmp_path):
    result = ampctl("download", job, "-o", str(tmp_path / "here"))
    paths = [str(tmp_path / "here/attempt-1" / name) for name in ("model.keras", "report.json")]
    assert (result.code, result.out.splitlines()) == (0, paths)
    assert (tmp_path / "here/attempt-1/report.json").read_bytes() == b"{}"


def test_download_of_one_file_as_json(ampctl, job, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = ampctl("download", job, "attempt-1/report.json", "--json")
    assert result.json() == ["attempt-1/report.json"]
    assert (tmp_path / "attempt-1/report.json").read_bytes() == b"{}"


def test_download_of_an_unknown_file_fails(ampctl, job, tmp_path):
    result = ampctl("download", job, "model", "-o", str(tmp_path))
    assert result.code == 4
    assert "attempt-1/model.keras" in result.err


def test_download_with_a_wrong_digest_fails(ampctl, job, server, respond, tmp_path):
    server.next_responses = [server.handle, server.handle, respond(200, content=b"y" * 2048)]
    result = ampctl("download", job, "attempt-1/model.keras", "-o", str(tmp_path))
    assert result.code == 7
    assert "(digest_mismatch)" in result.err


def test_a_job_without_files_says_so(ampctl, server, tmp_path):
    server.add_job("b")
    assert ampctl("artifacts", "b").err == "The job has no files yet.\n"
    assert ampctl("download", "b", "-o", str(tmp_path)).err == "The job has no files yet.\n"

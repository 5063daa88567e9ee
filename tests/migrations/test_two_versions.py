"""Two versions of the program, as two checkouts of the code, on one PostgreSQL."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import update

from server import schema
from server.health import readiness
from server.migrate import migrate, plan
from store.database import Database
from store.jobs import jobs
from store.listing import search
from store.listing.job_order import Sort
from store.listing.search_filters import Search
from store.tables import SchemaCompatibility
from tests.git_history import ROOT, SCHEMA_BEFORE, commit_with_schema, git
from tests.waiting import DEADLINE_S

PACKAGES = ("ampspec", "infra", "server", "store", "migrations")
PACKAGES_BEFORE = ("ampcore", "server", "service", "store", "migrations")
SCRIPT = Path(__file__).with_name("version_process.py")
NEXT_REVISION = f"""
import sqlalchemy as sa
from alembic import op
from migrations.online import create_index

revision, down_revision = "9999", "{schema.HEAD}"
branch_labels = depends_on = None


def upgrade():
    op.add_column("jobs", sa.Column("note", sa.Text(), nullable=True))
    op.create_table("notes", sa.Column("id", sa.Integer(), primary_key=True))
    create_index("ix_jobs_note", "jobs", ["note"])


def downgrade():
    op.drop_column("jobs", "note")
"""


class Version:
    """A checkout of the code, and a process that runs it on a database."""

    def __init__(self, checkout, url):
        self._process = subprocess.Popen(
            [sys.executable, SCRIPT, url],
            cwd=checkout,
            env={"PYTHONPATH": str(checkout), "PATH": "/usr/bin:/bin"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, action, *arguments):
        """Do something in that version; returns the result."""
        self._process.stdin.write(json.dumps([action, *arguments]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(DEADLINE_S)


@pytest.fixture
def start(request):
    """Start a version on a database."""

    def start(checkout, url):
        version = Version(checkout, url)
        request.addfinalizer(version.close)
        return version

    return start


@pytest.fixture
def url(new_postgres):
    return new_postgres()


@pytest.fixture
def next_checkout(tmp_path):
    """A version after this one, which adds a column, a table and an index."""
    checkout = tmp_path / "next"
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "static")
        shutil.copytree(ROOT / package, checkout / package, ignore=ignored)
    (checkout / "migrations/versions/9999_add_notes.py").write_text(NEXT_REVISION)
    put_in_schema(checkout, "HEAD", "9999")
    return checkout


@pytest.fixture(scope="session")
def checkout_before(tmp_path_factory):
    """The version before this one, from the history of the repository."""
    folder = tmp_path_factory.mktemp("before")
    commit = commit_with_schema(SCHEMA_BEFORE)
    assert commit is not None
    archive = folder / "before.tar"
    git("archive", "--output", str(archive), commit, *PACKAGES_BEFORE)
    shutil.unpack_archive(archive, folder)
    return folder


def put_in_schema(checkout, name, value):
    file = checkout / "server/schema.py"
    line = re.compile(rf'^{name}: Final = ".*"$', re.MULTILINE)
    file.write_text(line.sub(f'{name}: Final = "{value}"', file.read_text()))


def migrate_with(checkout, url):
    subprocess.run(
        [sys.executable, "-m", "server", "migrate"],
        cwd=checkout,
        env={"PYTHONPATH": str(checkout), "PATH": "/usr/bin:/bin", "AMPCORE_DATABASE_URL": url},
        check=True,
        timeout=DEADLINE_S,
        capture_output=True,
    )


def work_together(first_version, second_version, url):
    """Each step of the life of jobs in turns by two versions, in both orders."""
    ended, deleted = [], []
    for number, (first, second) in enumerate(
        [(first_version, second_version), (second_version, first_version)] * 2
    ):
        worker_id = f"w{number}"
        assert not second("register", worker_id)  # is not to drain
        job_id = first("submit")
        assert second("look") == ["default"]
        assert second("claim", worker_id) == job_id
        assert first("beat", job_id)
        assert second("train", job_id)
        assert second("beat", job_id)
        assert first("edit", job_id, f"job {number}") == f"job {number}"
        assert second("finish", job_id) == "succeeded"
        ended.append(job_id)
        cancelled = second("submit")
        assert first("cancel", cancelled) == "cancelled"
        ended.append(cancelled)
        gone = first("submit")
        second("cancel", gone)
        assert first("delete", gone)
        deleted.append(gone)
        assert first("sign_in", f"token {number}") == f"token {number}"
    database = Database(url)
    with database.read() as session:
        for sort in Sort:
            page = search.page(session, Search(), sort=sort, after_position=None, limit=100)
            assert {job.id for job in page.jobs} == set(ended)
        assert [jobs.get(session, job_id) for job_id in deleted] == [None] * len(deleted)
        names = search.page(session, Search(q="job"), sort=Sort.NAME, after_position=None, limit=9)
        assert [job.name for job in names.jobs] == [f"job {number}" for number in range(4)]
    database.close()


@pytest.mark.needs("git history")
def test_the_version_before_works_beside_this_one(url, start, checkout_before):
    """Fails if a revision removes or renames what the version before reads or writes."""
    migrate_with(checkout_before, url)
    old_version = start(checkout_before, url)
    waiting = old_version("submit")
    migrate(url)
    here = start(ROOT, url)
    assert here("is_ready")
    here("register", "first")
    assert here("claim", "first") == waiting
    assert old_version("train", waiting)
    assert here("finish", waiting) == "succeeded"
    assert old_version("delete", waiting)
    work_together(old_version, here, url)


def test_this_version_works_beside_the_next_one(url, start, next_checkout):
    """Fails if a server is not ready once a newer version has expanded the schema."""
    migrate(url)
    here = start(ROOT, url)
    migrate_with(next_checkout, url)
    following = start(next_checkout, url)
    assert following("is_ready")
    migrate(url)  # leaves the newer schema alone
    assert plan(url) == ["Nothing to do: the schema is newer than this version."]
    assert here("is_ready")
    work_together(here, following, url)


def test_a_server_reports_a_newer_compatible_schema_as_ready(url, next_checkout):
    migrate(url)
    migrate_with(next_checkout, url)
    database = Database(url)
    assert readiness._database(database) is None
    with database.write() as session:
        session.execute(update(SchemaCompatibility).values(oldest_revision="9999"))
    assert readiness._database(database).code == "wrong_schema"
    database.close()


def test_a_version_is_not_ready_beside_one_that_removed_what_it_uses(url, start, next_checkout):
    put_in_schema(next_checkout, "OLDEST_COMPATIBLE", "9999")
    migrate(url)
    migrate_with(next_checkout, url)
    assert start(next_checkout, url)("is_ready")
    assert not start(ROOT, url)("is_ready")


def test_a_version_is_not_ready_on_an_older_schema(url, start, next_checkout):
    migrate(url)
    assert not start(next_checkout, url)("is_ready")

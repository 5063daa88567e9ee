import pytest
from sqlalchemy import func, select, update

from ampspec.api.retention import RetentionRule
from ampspec.jobs import State
from store.access import audit
from store.clock import from_now
from store.files import artifacts
from store.files.artifacts import CHECKPOINT, MODEL, StoredArtifact
from store.jobs import attempts
from store.retention import deletion, rules, selection
from store.tables import Artifact, AuditEntry, FileRemoval, Job, LogRow, Study, StudyJob
from store.telemetry import ingest
from store.telemetry.ingest import LogChunk

DAY_S = 86_400.0
TRASH_S = 3_600.0


@pytest.fixture
def old_job(make_job, in_transaction, put):
    """Creates a job that ended so many days ago, with a log, two checkpoints and a model."""

    def make(days=100.0, *, state=State.SUCCEEDED, **parts):
        job = make_job(State.RUNNING, **parts)
        chunks = [LogChunk("stdout", "12345678")]
        in_transaction(ingest.append, job.id, 1, chunks, entries_written=0)
        for number, (path, kind) in enumerate(
            [("c1", CHECKPOINT), ("c2", CHECKPOINT), ("model", MODEL)], start=1
        ):
            file = StoredArtifact(path, kind, number, 10 * number, "a" * 64)
            in_transaction(artifacts.add, job.id, 1, file)
        if state is State.SUCCEEDED:
            in_transaction(attempts.mark_succeeded, job.id, 1, {})
        else:
            in_transaction(attempts.mark_failed, job.id, 1, "timeout", "It took too long.")
        put(job.id, finished_at=from_now(-days * DAY_S))
        return job.id

    return make


def selected(database, project="default", **rule):
    """What a rule would delete: the jobs, and their bytes."""
    with database.read() as session:
        match = selection.preview(session, project, RetentionRule(**rule))
    assert match.count == len(match.ids)
    return sorted(match.ids), match.size_bytes


def apply(in_transaction, *, trash_s=TRASH_S, **rule):
    return in_transaction(deletion.apply, "default", RetentionRule(**rule), trash_s=trash_s)


def test_a_rule_selects_by_age_state_and_label(database, make_job, old_job, put, in_transaction):
    first = old_job(labels={"team": "vision", "keep": "yes"})
    second = old_job(labels={"team": "audio"}, state=State.FAILED)
    old_job(5)
    old_job(project="elsewhere")
    make_job(State.RUNNING)
    needed, used = old_job(), old_job()
    put(make_job().id, extends=needed)
    with database.write() as session:
        study = Study(project="default", kind="search", name="s", spec={}, options={})
        study.policies, study.facts = [], {}
        session.add(study)
        session.flush()
        session.add(StudyJob(study_id=study.id, key="k", number=0, changes={}, job_id=used))
    each = 10 + 20 + 30
    rows = [
        ({}, [first, second]),
        ({"states": ["failed"]}, [second]),
        ({"labels": {"team": "vision"}}, [first]),
        ({"labels": {"team": None}}, [first, second]),
        ({"except_labels": {"keep": None, "other": "x"}}, [second]),
        ({"after_days": 101}, []),
    ]
    for more, expected in rows:
        rule = {"delete": "jobs", "after_days": 30, **more}
        assert selected(database, **rule) == (sorted(expected), each * len(expected)), more
    assert selected(database, delete="checkpoints", after_days=30) == (sorted([first, second]), 20)
    ids, size_bytes = selected(database, delete="checkpoints", after_days=30, keep=0)
    assert (ids, size_bytes) == (sorted([first, second]), 60)
    ids, size_bytes = selected(database, delete="logs", after_days=30)
    assert ids == sorted([first, second])
    assert size_bytes >= 16


def test_a_rule_deletes_what_it_selects_and_records_it(database, in_transaction, old_job):
    job_id, other_id = old_job(), old_job(5)
    apply(in_transaction, delete="logs", after_days=30)
    apply(in_transaction, delete="checkpoints", after_days=30)
    with database.read() as session:
        assert set(session.scalars(select(LogRow.job_id))) == {other_id}
        assert [row.path for row in artifacts.listing(session, job_id)] == ["c2", "model"]
        assert [(row.folder, row.path) for row in session.scalars(select(FileRemoval))] == [
            (job_id, "c1")
        ]
    assert not apply(in_transaction, delete="checkpoints", after_days=30)
    apply(in_transaction, delete="jobs", after_days=30)
    apply(in_transaction, delete="jobs", after_days=30)
    with database.read() as session:
        in_trash = select(Job.id).where(Job.purge_at > from_now(TRASH_S - 600))
        assert session.scalars(in_trash).all() == [job_id]
        entries = [
            (entry.action, entry.target, entry.token_name, entry.data)
            for entry in audit.page(session, limit=10)
        ]
    assert entries == [
        ("retention.jobs", job_id, "retention", None),
        ("retention.checkpoints", job_id, "retention", {"files": 1, "size_bytes": 10}),
        ("retention.logs", job_id, "retention", None),
    ]
    apply(in_transaction, delete="jobs", after_days=1, trash_s=0)
    with database.read() as session:
        assert session.scalars(select(Job.id)).all() == [job_id]
        assert session.scalar(select(func.count()).select_from(Artifact)) == 2


def test_the_audit_log_of_a_project_has_an_age(database, in_transaction, old_job):
    for project in ("default", "elsewhere", "default"):
        in_transaction(audit.record, deletion._actor(project), "job.submit", "x")
    in_transaction(
        lambda session: session.execute(
            update(AuditEntry)
            .where(AuditEntry.id.in_(select(func.min(AuditEntry.id))))
            .values(at=from_now(-40 * DAY_S))
        )
    )
    ids, size_bytes = selected(database, delete="audit", after_days=30)
    assert (len(ids), size_bytes) == (1, None)
    apply(in_transaction, delete="audit", after_days=30)
    with database.read() as session:
        left = [(entry.action, entry.project) for entry in audit.page(session, limit=10)]
    assert left == [
        ("retention.audit", "default"),
        ("job.submit", "default"),
        ("job.submit", "elsewhere"),
    ]


def test_rules_are_due_an_hour_after_a_change(database, in_transaction):
    rule = RetentionRule(delete="jobs", after_days=30)
    in_transaction(rules.replace, "vision", [rule], "ada")
    with database.read() as session:
        row = rules.get(session, "vision")
        assert (rules.parsed(row), row.changed_by) == ([rule], "ada")
        assert rules.due(session) == []
    in_transaction(
        lambda session: session.execute(
            update(rules.ProjectRetention).values(next_run_at=from_now(-1))
        )
    )
    assert in_transaction(rules.due) == ["vision"]
    in_transaction(rules.mark_applied, "vision")
    assert in_transaction(rules.due) == []
    assert in_transaction(rules.remove, "vision")
    assert not in_transaction(rules.remove, "vision")

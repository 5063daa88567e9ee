"""Count the bytes of the artifacts of each project with triggers, and add a quota of them

Revision ID: 0026
Revises: 0025
Create Date: 2026-11-29 09:00:00.000000
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0026"
down_revision: str | Sequence[str] | None = "0025"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# The job of an artifact that goes with its job is deleted before the artifact: then the trigger of
# the artifact finds no project, and that of the job has subtracted the bytes.
POSTGRESQL = """
CREATE FUNCTION add_artifact_bytes(job varchar, more bigint) RETURNS void LANGUAGE sql AS $$
    INSERT INTO project_storage (project, artifact_bytes)
    SELECT jobs.project, more FROM jobs WHERE jobs.id = job AND more <> 0
    ON CONFLICT (project) DO UPDATE
    SET artifact_bytes = project_storage.artifact_bytes + excluded.artifact_bytes
$$;
CREATE FUNCTION count_artifact() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM add_artifact_bytes(NEW.job_id, NEW.size_bytes);
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM add_artifact_bytes(OLD.job_id, -OLD.size_bytes);
    ELSE
        PERFORM add_artifact_bytes(NEW.job_id, NEW.size_bytes - OLD.size_bytes);
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION subtract_artifacts_of_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM add_artifact_bytes(
        OLD.id, -(SELECT coalesce(sum(size_bytes), 0) FROM artifacts WHERE job_id = OLD.id)::bigint
    );
    RETURN OLD;
END $$;
CREATE TRIGGER count_artifact AFTER INSERT OR DELETE OR UPDATE OF size_bytes ON artifacts
    FOR EACH ROW EXECUTE FUNCTION count_artifact();
CREATE TRIGGER subtract_artifacts_of_job BEFORE DELETE ON jobs
    FOR EACH ROW EXECUTE FUNCTION subtract_artifacts_of_job()
"""
SQLITE_TRIGGERS = {
    "count_new_artifact": ("AFTER INSERT ON artifacts", "new.job_id", "new.size_bytes"),
    "count_deleted_artifact": ("AFTER DELETE ON artifacts", "old.job_id", "-old.size_bytes"),
    "count_replaced_artifact": (
        "AFTER UPDATE OF size_bytes ON artifacts",
        "new.job_id",
        "new.size_bytes - old.size_bytes",
    ),
    "subtract_artifacts_of_job": (
        "BEFORE DELETE ON jobs",
        "old.id",
        "-(SELECT coalesce(sum(size_bytes), 0) FROM artifacts WHERE job_id = old.id)",
    ),
}


def upgrade() -> None:
    op.add_column("projects", sa.Column("max_artifact_bytes", sa.BigInteger(), nullable=True))
    op.create_table(
        "project_storage",
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("artifact_bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"],
            ["projects.name"],
            name=op.f("fk_project_storage_project_projects"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("project", name=op.f("pk_project_storage")),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute(POSTGRESQL)  # from here on, no other transaction writes artifacts
    else:
        for name, (event, job_id, more) in SQLITE_TRIGGERS.items():
            op.execute(_sqlite_trigger(name, event, job_id, more))
    op.execute(
        "INSERT INTO project_storage (project, artifact_bytes) "
        "SELECT projects.name, coalesce(sum(artifacts.size_bytes), 0) FROM projects "
        "LEFT JOIN jobs ON jobs.project = projects.name "
        "LEFT JOIN artifacts ON artifacts.job_id = jobs.id GROUP BY projects.name"
    )


def _sqlite_trigger(name: str, event: str, job_id: str, more: str) -> str:
    project = f"(SELECT project FROM jobs WHERE id = {job_id})"  # noqa: S608
    return f"""
CREATE TRIGGER {name} {event} BEGIN
    INSERT INTO project_storage (project, artifact_bytes)
    SELECT project, 0 FROM jobs WHERE id = {job_id}
    AND project NOT IN (SELECT project FROM project_storage);
    UPDATE project_storage SET artifact_bytes = artifact_bytes + {more} WHERE project = {project};
END
"""  # noqa: S608


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP TRIGGER subtract_artifacts_of_job ON jobs")
        op.execute("DROP TRIGGER count_artifact ON artifacts")
        op.execute("DROP FUNCTION subtract_artifacts_of_job(), count_artifact()")
        op.execute("DROP FUNCTION add_artifact_bytes(varchar, bigint)")
    else:
        for name in SQLITE_TRIGGERS:
            op.execute(f"DROP TRIGGER {name}")
    op.drop_table("project_storage")
    op.drop_column("projects", "max_artifact_bytes")

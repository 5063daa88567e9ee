"""Fills a migrated PostgreSQL with jobs and what belongs to them, by SQL alone."""

# ruff: noqa: S608 - the statements are put together from constants

import json
import sys
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, text

from ampspec.jobs import JobSpec
from store.database import Database
from store.scheduling.fair_share import POINT_S

SPEC: Final = JobSpec.parse({"model": {"kind": "cnn"}, "data": {"kind": "digits"}}).to_json()
PROJECTS: Final = 20
JOBS_PER_EXPERIMENT: Final = 50
JOBS_PER_STUDY: Final = 25
ROWS_PER_STATEMENT: Final = 100_000
TOTALS: Final[dict[str, Any]] = {
    "steps": 1000,
    "skipped_steps": 3,
    "examples": 64_000,
    "duration_s": 61.5,
    "skipped_s": 0.2,
    "best_loss": 0.01,
}
LATEST: Final[dict[str, Any]] = {"step": 999, "loss": 0.02, "loss_scale": 32768.0}
HARDWARE: Final[dict[str, Any]] = {
    "cpu_features": ["avx2", "avx512f", "avx512_bf16", "amx_bf16"],
    "memory_bytes": 270_000_000_000,
    "devices": [
        {
            "kind": "gpu",
            "name": "NVIDIA H100 80GB HBM3",
            "compute_capability": [9, 0],
            "memory_bytes": 85_000_000_000,
        }
        for _ in range(8)
    ],
    "isolation": {"kind": "bubblewrap", "memory_bytes": 68_000_000_000},
    "sandbox": {"kind": "bubblewrap", "memory_bytes": 34_000_000_000},
    "packages": [
        {
            "package": "vision-models",
            "version": "1.2.3",
            "group": "models",
            "name": f"model_{number}",
            "schema": {
                "type": "object",
                "properties": {
                    f"option_{option}": {"type": "number", "minimum": 0, "description": "x" * 40}
                    for option in range(8)
                },
            },
        }
        for number in range(10)
    ],
}
"""What a worker with eight GPUs and a package of ten models reports."""


@dataclass(frozen=True)
class Sizes:
    """The numbers of rows."""

    jobs: int
    queued: int
    running: int
    events_per_job: int
    audit_rows: int
    workers: int
    tokens: int
    studied_jobs: int

    @classmethod
    def of(cls, jobs: int) -> "Sizes":
        """A service with that many jobs: a tenth are queued, and a worker runs each thousandth."""
        return cls(
            jobs=jobs,
            queued=jobs // 10,
            running=max(jobs // 2_000, 1),
            events_per_job=10,
            audit_rows=5 * jobs,
            workers=max(jobs // 2_000, 5),
            tokens=max(jobs // 1_000, 10),
            studied_jobs=jobs // 10,
        )


def fill(database: Database, sizes: Sizes) -> None:
    """Insert the rows, and collect the statistics that the planner needs.

    A statement inserts ROWS_PER_STATEMENT rows, so that it can be seen how far the filling is.
    """
    with database.engine.connect() as connection:
        connection.execute(text("SET synchronous_commit = off"))
        _fill_small_tables(connection, sizes)
        for first in range(0, sizes.jobs, ROWS_PER_STATEMENT):
            end = min(first + ROWS_PER_STATEMENT, sizes.jobs)
            _fill_jobs(connection, sizes, first, end)
            print(f"  {end:,} of {sizes.jobs:,} jobs", file=sys.stderr, flush=True)
        for first in range(0, sizes.audit_rows, 10 * ROWS_PER_STATEMENT):
            end = min(first + 10 * ROWS_PER_STATEMENT, sizes.audit_rows)
            connection.execute(text(AUDIT), {**vars(sizes), "first": first, "end": end})
            connection.commit()
        print(f"  {sizes.audit_rows:,} audit entries", file=sys.stderr, flush=True)
    with database.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        connection.execute(text("VACUUM ANALYZE"))


def _fill_small_tables(connection: Connection, sizes: Sizes) -> None:
    parameters = {
        **vars(sizes),
        "projects": PROJECTS,
        "hardware": json.dumps(HARDWARE),
        "usage": json.dumps({"steps_total": 1000, "lag_s": 0.01, "gpus": []}),
        "studies": max(sizes.studied_jobs // JOBS_PER_STUDY, 1),
        "spec": json.dumps(SPEC),
    }
    for statement in (PROJECT_ROWS, TOKENS, WORKERS, STUDIES):
        connection.execute(text(statement), parameters)
    connection.commit()


def _fill_jobs(connection: Connection, sizes: Sizes, first: int, end: int) -> None:
    parameters = {
        **vars(sizes),
        "first": first,
        "end": end,
        "projects": PROJECTS,
        "per_experiment": JOBS_PER_EXPERIMENT,
        "per_study": JOBS_PER_STUDY,
        "spec": json.dumps(SPEC),
        "totals": json.dumps(TOTALS),
        "latest": json.dumps(LATEST),
        "payload": b"x" * 600,
    }
    for statement in (JOBS, ATTEMPTS, EVENTS, METRICS, ARTIFACTS, STEP_BLOCKS, STUDY_JOBS):
        connection.execute(text(statement), parameters)
    connection.commit()


NUMBERS: Final = "generate_series(CAST(:first AS bigint), CAST(:end AS bigint) - 1) AS number"
JOB_ID: Final = "substr(md5(number::text), 1, 12)"
CREATED_AT: Final = (
    "now() - interval '365 days' * (1 - number / CAST(:jobs AS float8)) - interval '1 minute'"
)
HAS_RUN: Final = "number < CAST(:jobs AS bigint) - CAST(:queued AS bigint)"

PROJECT_ROWS: Final = """
INSERT INTO projects (name, created_at)
SELECT 'project-' || number, now() FROM generate_series(0, CAST(:projects AS int) - 1) AS number
"""
TOKENS: Final = """
INSERT INTO tokens (id, name, digest, role, rights, project, created_at)
SELECT 't' || number, 'token ' || number, md5(number::text) || md5('x' || number), 'member', '[]',
       'project-' || number % CAST(:projects AS int), now() - interval '1 minute' * number
FROM generate_series(0, CAST(:tokens AS int) - 1) AS number
"""
WORKERS: Final = """
INSERT INTO workers (id, hostname, pid, slots, version, queues, hardware, usage, started_at,
                     last_seen_at)
SELECT 'worker-' || number, 'host-' || number, number, 8, '0.9', '["default", "gpu"]',
       CAST(:hardware AS jsonb), CAST(:usage AS jsonb), now() - interval '1 day',
       now() + interval '1 day'
FROM generate_series(0, CAST(:workers AS int) - 1) AS number
"""
STUDIES: Final = """
INSERT INTO studies (id, project, kind, name, state, spec, options, policies, facts, may_run_code,
                     created_at, updated_at)
SELECT 's' || number, 'project-' || number % CAST(:projects AS int), 'precision',
       'study ' || number, 'succeeded', CAST(:spec AS jsonb), '{}', '[]', '{}', false, now(), now()
FROM generate_series(0, CAST(:studies AS int) - 1) AS number
"""
JOBS: Final = f"""
INSERT INTO jobs (id, source, project, name, policy, resolved_policy, model, labels, spec, priority,
                  queue, max_attempts, ranks, created_by, request_id, state, reason, message,
                  attempt, failures, queued_at, turn_at, dispatched_at, worker_id,
                  lease_expires_at, seq, entries_written, step, total_steps, latest, totals,
                  metrics, summary, created_at, updated_at, started_at, finished_at, changed_at)
SELECT {JOB_ID}, 'submitted', 'project-' || (number * 7 % CAST(:projects AS int)),
       (ARRAY['resnet', 'bert', 'vit', 'unet', 'mlp'])[1 + number % 5] || '-lr' || number % 997
       || '-seed' || number % 13,
       (ARRAY['mixed_bfloat16', 'mixed_float16', 'float32', 'auto'])[1 + number % 4],
       CASE WHEN {HAS_RUN} THEN
           (ARRAY['mixed_bfloat16', 'mixed_float16', 'float32', 'mixed_bfloat16'])[1 + number % 4]
       END,
       (ARRAY['cnn', 'mlp', 'transformer', 'layers', 'lstm', 'gan'])[1 + number % 6],
       jsonb_build_object('team', 'team-' || number % 50,
                          'experiment', 'e' || number / CAST(:per_experiment AS int),
                          'campaign', 'c' || number * 50 / CAST(:jobs AS bigint)),
       CAST(:spec AS jsonb), number % 10, 'default', 3, 1, 'token ' || number % 100,
       md5('request' || number), state, NULL, NULL, CASE WHEN {HAS_RUN} THEN 1 ELSE 0 END, 0,
       created_at,
       CASE WHEN state = 'queued' THEN
           created_at - {POINT_S} * (number % 10) * interval '1 second'
       END, created_at,
       CASE WHEN state = 'running' THEN 'worker-' || number % CAST(:workers AS int) END,
       CASE WHEN state = 'running' THEN now() + interval '1 day' END,
       CASE WHEN {HAS_RUN} THEN CAST(:events_per_job AS int) ELSE 1 END,
       CASE WHEN {HAS_RUN} THEN 5 ELSE 0 END, CASE WHEN {HAS_RUN} THEN 1000 ELSE 0 END,
       CASE WHEN {HAS_RUN} THEN 1000 END, CASE WHEN {HAS_RUN} THEN CAST(:latest AS jsonb) END,
       CASE WHEN {HAS_RUN} THEN CAST(:totals AS jsonb) END,
       CASE WHEN state = 'succeeded' THEN
           jsonb_build_object('val_loss', number % 1000 / 1000.0,
                              'val_accuracy', 1 - number % 1000 / 1000.0)
       END,
       CASE WHEN state = 'succeeded' THEN CAST(:totals AS jsonb) END, created_at, ended_at,
       CASE WHEN {HAS_RUN} THEN created_at END,
       CASE WHEN state IN ('succeeded', 'failed', 'cancelled') THEN ended_at END, ended_at
FROM (SELECT number, {CREATED_AT} AS created_at,
             CASE WHEN {HAS_RUN} THEN {CREATED_AT} + interval '1 second' * (number % 3600)
                  ELSE {CREATED_AT} END AS ended_at,
             CASE WHEN NOT ({HAS_RUN}) THEN 'queued'
                  WHEN number >= CAST(:jobs AS bigint) - CAST(:queued AS bigint)
                                 - CAST(:running AS bigint) THEN 'running'
                  WHEN number % 20 = 0 THEN 'cancelled' WHEN number % 10 = 1 THEN 'failed'
                  ELSE 'succeeded' END AS state
      FROM {NUMBERS}) AS rows
"""
ATTEMPTS: Final = f"""
INSERT INTO attempts (job_id, attempt, worker_id, waited_s, ranks, first_step, outcome, started_at,
                      finished_at)
SELECT jobs.id, 1, 'worker-' || number % CAST(:workers AS int), number % 600, 1, 0,
       CASE WHEN jobs.finished_at IS NOT NULL THEN jobs.state END, jobs.started_at, jobs.finished_at
FROM {NUMBERS} JOIN jobs ON jobs.id = {JOB_ID} WHERE {HAS_RUN}
"""
EVENTS: Final = f"""
INSERT INTO events (job_id, seq, attempt, type, step, data, created_at)
SELECT {JOB_ID}, seq, CASE WHEN seq = 1 THEN 0 ELSE 1 END,
       CASE WHEN seq IN (1, 2, 10) THEN 'state' WHEN seq = 3 THEN 'started' ELSE 'evaluation' END,
       seq * 100, '{{"val_loss": 0.5, "val_accuracy": 0.9, "state": "running"}}', {CREATED_AT}
FROM {NUMBERS},
     generate_series(1, CASE WHEN {HAS_RUN} THEN CAST(:events_per_job AS int) ELSE 1 END) AS seq
"""
METRICS: Final = f"""
INSERT INTO job_metrics (job_id, name, value, updated_at)
SELECT jobs.id, metric.key, CAST(metric.value AS float8), jobs.updated_at
FROM {NUMBERS} JOIN jobs ON jobs.id = {JOB_ID}, jsonb_each_text(jobs.metrics) AS metric
"""
ARTIFACTS: Final = f"""
INSERT INTO artifacts (job_id, path, attempt, kind, step, size_bytes, sha256, seq, created_at)
SELECT {JOB_ID}, 'attempt-1/' || kind, 1, kind, 1000, 1000000 + number, repeat('a', 64), 9,
       {CREATED_AT}
FROM {NUMBERS}, unnest(ARRAY['checkpoint', 'model']) AS kind WHERE {HAS_RUN}
"""
STEP_BLOCKS: Final = f"""
INSERT INTO step_blocks (job_id, attempt, first_step, end_step, skipped, examples, duration_s,
                         skipped_s, best_loss, seq, created_at, merge_index, payload)
SELECT {JOB_ID}, 1, 0, 1000, 3, 64000, 61.5, 0.2, 0.01, 5, {CREATED_AT}, '\\x00', :payload
FROM {NUMBERS} WHERE {HAS_RUN}
"""
STUDY_JOBS: Final = f"""
INSERT INTO study_jobs (study_id, key, number, changes, job_id, result)
SELECT 's' || number / CAST(:per_study AS int), 'job ' || number, number % CAST(:per_study AS int),
       '{{}}', {JOB_ID}, '{{"state": "succeeded"}}'
FROM {NUMBERS} WHERE number < CAST(:studied_jobs AS bigint)
"""
AUDIT: Final = """
INSERT INTO audit (at, action, target, project, token_id, token_name, address, request_id)
SELECT now() - interval '365 days' * (1 - number / CAST(:audit_rows AS float8)),
       CASE WHEN number % 100000 = 7 THEN 'worker.drain' WHEN number % 50 = 0 THEN 'job.delete'
            WHEN number % 7 = 0 THEN 'job.cancel' ELSE 'job.submit' END,
       substr(md5(number::text), 1, 12), 'project-' || number * 7 % 20,
       't' || number % CAST(:tokens AS int), 'token', '10.0.0.1', md5('request' || number)
FROM generate_series(CAST(:first AS bigint), CAST(:end AS bigint) - 1) AS number
"""

"""A server and a worker of the version that is on the path: does on a database what it is told.

Reads lines of JSON, each the name of an action and its arguments, and answers each with one line.
Only functions that both of two versions have are used.
"""

import json
import sys
from importlib import import_module
from pathlib import Path

from server import schema
from store import leases, metrics_queries, workers
from store.database import Database

IS_BEFORE = not Path("ampspec").is_dir()
"""Whether the current folder, which comes first on the path, has the layout before this one."""


def module(name, name_before):
    """A module under the name that it has in this version."""
    return import_module(name_before if IS_BEFORE else name)


JobSpec = module("ampspec.jobs", "ampcore.spec").JobSpec
telemetry = module("ampspec.telemetry", "ampcore.telemetry")
audit = module("store.access.audit", "store.audit")
tokens = module("store.access.tokens", "store.tokens")
attempts = module("store.jobs.attempts", "store.attempts")
jobs = module("store.jobs.jobs", "store.jobs")
queue = module("store.jobs.queue", "store.queue")
ingest = module("store.telemetry.ingest", "store.ingest")

SPEC = JobSpec.parse({"model": {"kind": "mlp"}, "data": {"kind": "digits"}})
WORKER = {"hostname": "h", "pid": 1, "slots": 9, "version": "1", "queues": ["default"]}


def is_ready(database):
    return schema.is_current(database)


def submit(database):
    with database.write() as session:
        return jobs.create(session, SPEC, jobs.Origin("default")).id


def register(database, worker_id):
    with database.write() as session:
        workers.register(session, worker_id, **WORKER)
        return workers.heartbeat(session, worker_id, hardware={"devices": []})


def claim(database, worker_id):
    with database.write() as session:
        return attempts.claim_next(session, worker_id, ["default"]).id


def train(database, job_id):
    event = telemetry.Event(type=telemetry.EventType.EVALUATION, data={"val_loss": 0.5}, step=1)
    with database.write() as session:
        attempts.mark_running(session, job_id, 1, total_steps=1, first_step=0)
        return ingest.append(session, job_id, 1, [event], entries_written=0) is not None


def beat(database, job_id):
    with database.write() as session:
        return leases.renew_lease(session, job_id, 1) is not None


def finish(database, job_id):
    with database.write() as session:
        return attempts.mark_succeeded(session, job_id, 1, {"val_loss": 0.5}).state


def cancel(database, job_id):
    with database.write() as session:
        return jobs.request_cancel(session, job_id).state


def edit(database, job_id, name):
    with database.write() as session:
        return jobs.edit(session, job_id, {"name": name}).name


def delete(database, job_id):
    with database.write() as session:
        return jobs.delete_job(session, job_id)


def sign_in(database, name):
    with database.write() as session:
        secret = tokens.create(session, name)
        actor = audit.Actor("default", None, name, None, None)
        audit.record(session, actor, "token.create", name)
    with database.read() as session:
        return tokens.find_valid(session, tokens.digest_of(secret)).token.name


def look(database):
    """What a reconciler and the metrics read."""
    with database.read() as session:
        queues = queue.queues_to_dispatch(session, silent_for_s=-60)
        metrics_queries.oldest_wait_s_by_queue(session)
        workers.online_devices(session)
        return list(queues)


def main():
    database = Database(sys.argv[1])
    for line in sys.stdin:
        action, *arguments = json.loads(line)
        print(json.dumps(globals()[action](database, *arguments)), flush=True)
    database.close()


if __name__ == "__main__":
    main()

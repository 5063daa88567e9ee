import json
from datetime import UTC, datetime

import pytest

from ampclient import Conflict, Job, NotFound, State
from tests.ampclient.conftest import no_such_path

SPEC = {"model": {"kind": "cnn", "filters": [8]}, "data": {"kind": "digits"}}


def test_a_job_has_its_project_priority_queue_and_failures(client, server):
    server.add_job(
        "a",
        project="vision",
        priority=7,
        queue="gpu",
        max_attempts=5,
        failures=2,
        not_before="2030-01-02T03:05:05Z",
        waiting="It failed and is tried again in 60 s.",
        cloned_from="b",
        request_id="4f1c",
    )
    job = client.jobs.get("a")
    assert (job.project, job.priority, job.queue) == ("vision", 7, "gpu")
    assert (job.max_attempts, job.failures) == (5, 2)
    assert job.not_before == datetime(2030, 1, 2, 3, 5, 5, tzinfo=UTC)
    assert job.waiting == "It failed and is tried again in 60 s."
    assert (job.created_by, job.cloned_from, job.request_id) == ("anna", "b", "4f1c")


def test_pause_and_resume_return_the_job(client, server):
    server.add_job("q")
    server.add_job("r", state="running")
    paused = client.jobs.get("q").pause()
    assert (paused.state, paused.resume().state) == (State.PAUSED, State.QUEUED)
    assert client.jobs.get("r").pause().state is State.PAUSING


def test_retry_queues_a_failed_job_and_refuses_a_succeeded_one(client, server):
    server.add_job("f", state="failed")
    server.add_job("s", state="succeeded")
    assert client.jobs.get("f").retry().state is State.QUEUED
    with pytest.raises(Conflict):
        client.jobs.get("s").retry()


def test_resume_of_a_job_that_is_not_paused_is_a_conflict(client, server):
    server.add_job("r", state="running")
    with pytest.raises(Conflict, match="running"):
        client.jobs.get("r").resume()


def test_a_clone_is_a_new_job_with_some_fields_set(client, server):
    original = client.jobs.submit(SPEC)
    copy = original.clone(set={"precision.policy": "float32"})
    assert (copy.cloned_from, copy.id == original.id) == (original.id, False)
    assert json.loads(server.requests[-1].content) == {"set": {"precision.policy": "float32"}}
    original.clone()
    assert json.loads(server.requests[-1].content) == {}


def test_edit_sends_only_the_given_fields(client, server):
    server.add_job("a")
    job = client.jobs.get("a")
    assert job.edit(priority=0).priority == 0
    assert json.loads(server.requests[-1].content) == {"priority": 0}
    assert job.edit(labels={}).labels == {}
    assert json.loads(server.requests[-1].content) == {"labels": {}}
    assert job.edit(name="other", labels={"team": "vision"}).name == "other"


def test_a_deleted_job_is_not_found(client, server):
    server.add_job("a", state="cancelled")
    job = client.jobs.get("a")
    assert job.delete() is None
    with pytest.raises(NotFound):
        job.refresh()


def test_a_job_that_has_not_ended_is_not_deleted(client, server):
    server.add_job("r", state="running")
    with pytest.raises(Conflict):
        client.jobs.get("r").delete()


def test_attempts_have_their_outcomes(client, server):
    server.add_job("a")
    server.add_attempt(
        "a", outcome="failed", reason="process_killed", finished_at="2030-01-02T03:05:05Z"
    )
    server.add_attempt("a", first_step=None)
    first, second = client.jobs.get("a").attempts()
    assert (first.attempt, first.outcome, first.reason) == (1, "failed", "process_killed")
    assert (first.finished_at - first.started_at).total_seconds() == 60
    assert (second.attempt, second.outcome, second.first_step) == (2, None, None)


def test_allocations_say_what_a_batch_system_was_asked_for(client, server):
    server.add_job("a")
    refused = {"state": "REFUSED", "external_id": None, "reason": "Invalid account."}
    server.add_allocation("a", **refused, ended_at="2030-01-02T03:05:05Z")
    server.add_allocation("a", state="RUNNING", nodes="n[1-2]")
    first, second = client.jobs.get("a").allocations()
    assert (first.number, first.state, first.external_id) == (1, "REFUSED", None)
    assert first.ended_at > first.created_at
    assert first.sentence == "Slurm job REFUSED (Invalid account.)"
    assert second.sentence == "Slurm job 4712 RUNNING on n[1-2]"
    assert second.to_json() == server.allocations["a"][1]


def test_a_server_without_allocations_says_so(client, server):
    server.add_job("a")
    job = client.jobs.get("a")
    server.next_responses = [no_such_path]
    with pytest.raises(NotFound, match="There is nothing at"):
        job.allocations()


def test_steps_can_be_read_for_one_attempt(client, server):
    server.add_job("a")
    server.add_steps("a", 3)
    client.jobs.get("a").steps(attempt=1)
    assert server.requests[-1].url.params["attempt"] == "1"


def test_a_job_is_a_dict_of_its_fields_and_copied_with_others(sync_client, server):
    server.add_job("a", step=3)
    job = sync_client.jobs.get("a")
    assert dict(job)["step"] == 3
    assert job.to_json() == Job.to_json(job) == server.jobs["a"]
    later = job.model_copy(update={"step": 4})
    assert (type(later), later.step, job.step) == (Job, 4, 3)
    assert later.refresh() == job


def test_a_job_has_no_constructors_of_models():
    """Type checkers are told so, too: tests/ampclient/typed_usage.py."""
    for name in ("from_json", "model_construct", "model_validate", "model_validate_json"):
        assert not hasattr(Job, name)

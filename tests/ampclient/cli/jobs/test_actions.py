import json
import signal

import pytest

from tests.waiting import DEADLINE_S


def test_cancel_prints_the_new_state_of_the_job(ampctl, server):
    server.add_job("q")
    server.add_job("r", state="running")
    assert ampctl("cancel", "q").out == "q is cancelled\n"
    assert ampctl("cancel", "r").out == "r is stopping\n"


def test_cancel_of_a_job_that_has_ended_is_an_error(ampctl, server):
    server.add_job("a", state="succeeded")
    result = ampctl("cancel", "a")
    assert result.code == 3
    assert "(conflict, HTTP 409)" in result.err


def test_cancel_can_wait_until_the_job_has_ended(ampctl, server):
    server.add_job("r", state="running")
    server.change("r")
    server.change("r", state="cancelled")
    result = ampctl("cancel", "r", "--wait")
    assert (result.code, result.out) == (0, "r is cancelled\n")
    assert result.err == "r is stopping; waiting for its process to end …\n"


def test_cancel_of_a_job_that_succeeds_first_fails(ampctl, server):
    server.add_job("r", state="running")
    server.change("r")
    server.change("r", state="succeeded")
    result = ampctl("cancel", "r", "--wait", "--json")
    assert (result.code, result.json()["state"]) == (1, "succeeded")


def test_pause_prints_the_new_state_of_the_job(ampctl, server):
    server.add_job("q")
    server.add_job("r", state="running")
    assert ampctl("pause", "q").out == "q is paused\n"
    assert ampctl("pause", "r").out == "r is pausing\n"


def test_pause_can_wait_until_the_job_is_paused(ampctl, server):
    server.add_job("r", state="running")
    server.change("r")
    server.change("r")
    server.change("r", state="paused")
    result = ampctl("pause", "r", "--wait")
    assert (result.code, result.out) == (0, "r is paused\n")


def test_pause_of_a_job_that_succeeds_first_fails(ampctl, server):
    server.add_job("r", state="running")
    server.change("r")
    server.change("r", state="succeeded")
    assert ampctl("pause", "r", "--wait").code == 1


def test_ctrl_c_while_waiting_for_a_pause_keeps_the_request(start_ampctl, server):
    server.add_job("r", state="running")
    process = start_ampctl("pause", "r", "--wait")
    assert "waiting" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, server.jobs["r"]["state"]) == (130, "pausing")
    assert "ampctl get r" in err
    assert [request.method for request in server.requests].count("POST") == 1


@pytest.mark.parametrize(("verb", "state"), [("resume", "paused"), ("retry", "failed")])
def test_resume_and_retry_queue_the_job(ampctl, server, verb, state):
    server.add_job("a", state=state)
    assert ampctl(verb, "a").out == "a is queued\n"
    result = ampctl(verb, "a")
    assert result.code == 3
    assert "(conflict, HTTP 409)" in result.err


def test_resume_can_watch_the_job(ampctl, server, summary):
    server.add_job("a", state="paused")
    server.change("a")
    server.change("a", state="succeeded", summary=summary)
    result = ampctl("resume", "a", "--watch")
    assert result.code == 0
    assert "a is queued; Ctrl-C stops watching, not the job." in result.err


def test_clone_prints_only_the_new_id_and_sets_fields(ampctl, server):
    server.add_job("a", spec={"x": 1})
    result = ampctl("clone", "a", "--set", "precision.policy=float32", "--set", "train.epochs=7")
    assert (result.code, result.out) == (0, "000001\n")
    sent = json.loads(server.requests[-1].content)
    assert sent == {"set": {"precision.policy": "float32", "train.epochs": 7}}
    assert server.jobs["000001"]["cloned_from"] == "a"


@pytest.mark.parametrize("assignment", ["train.epochs", "=1"])
def test_clone_with_an_invalid_set_is_wrong_usage(ampctl, server, assignment):
    assert ampctl("clone", "a", "--set", assignment).code == 2
    assert server.requests == []


def test_edit_changes_only_the_named_fields_and_labels(ampctl, server):
    server.add_job("a", labels={"team": "vision", "old": "1"})
    result = ampctl("edit", "a", "--priority", "9", "--label", "run=a=b", "--remove-label", "old")
    assert (result.code, result.out) == (0, "a updated\n")
    assert json.loads(server.requests[-1].content) == {
        "priority": 9,
        "labels": {"team": "vision", "run": "a=b"},
    }
    assert ampctl("edit", "a", "--name", "other", "--json").json()["name"] == "other"
    assert json.loads(server.requests[-1].content) == {"name": "other"}


@pytest.mark.parametrize("arguments", [[], ["--label", "team"], ["--priority", "10"]])
def test_an_empty_or_invalid_edit_is_wrong_usage(ampctl, server, arguments):
    server.add_job("a")
    assert ampctl("edit", "a", *arguments).code == 2
    assert server.requests == []


def test_delete_confirms_and_is_refused_for_a_running_job(ampctl, server):
    server.add_job("a", state="failed")
    server.add_job("r", state="running")
    assert ampctl("delete", "a").out == "a deleted; `ampctl job restore a` restores it\n"
    assert ampctl("delete", "r").code == 3
    assert list(server.jobs) == ["r"]


def test_extend_queues_a_new_job_and_prints_its_id(ampctl, server):
    server.add_job("a", state="succeeded")
    result = ampctl("extend", "a", "--epochs", "3")
    assert (result.code, result.out) == (0, "000001\n")
    assert server.jobs["000001"]["spec"] == {"train": {"epochs": 3}}
    assert "extends       a" in ampctl("get", "000001").out
    server.add_job("b", state="running")
    refused = ampctl("extend", "b", "--epochs", "3")
    assert (refused.code, refused.out) == (3, "")
    assert ampctl("extend", "a").code == ampctl("extend", "a", "--epochs", "0").code == 2


def test_extend_with_a_key_queues_one_job(ampctl, server):
    server.add_job("a", state="succeeded")
    command = ("extend", "a", "--epochs", "3", "--idempotency-key", "once")
    assert ampctl(*command).out == ampctl(*command).out
    assert len(server.jobs) == 2


def test_a_profile_of_the_next_steps_is_requested_awaited_and_printed(ampctl, server):
    server.add_job("r", state="running")
    result = ampctl("profile", "r", "--steps", "5")
    assert (result.code, result.out.splitlines()[0]) == (0, "steps        7 to 11, 10 ms each")
    assert result.err == "Profiling 5 steps of job r …\n"
    assert ampctl("profile", "r", "--last", "--json").json()["steps"] == 5


def test_a_job_that_is_not_running_cannot_be_profiled(ampctl, server):
    server.add_job("a", state="succeeded")
    result = ampctl("profile", "a")
    assert result.code == 3
    assert "(conflict, HTTP 409)" in result.err
    assert "ampctl job clone a --set runtime.profile.start=10" in result.err
    assert ampctl("profile", "a", "--last").err == "The job has no profile.\n"

import json
import signal

import pytest

from tests.waiting import DEADLINE_S


def test_cancel_says_what_became_of_the_job(ampctl, server):
    server.add_job("q")
    server.add_job("r", state="running")
    assert ampctl("cancel", "q").out == "q is cancelled\n"
    assert ampctl("cancel", "r").out == "r is stopping\n"


def test_cancel_of_a_job_that_has_ended_is_an_error(ampctl, server):
    server.add_job("a", state="succeeded")
    result = ampctl("cancel", "a")
    assert result.code == 1
    assert "(conflict, HTTP 409)" in result.err


def test_cancel_can_wait_until_the_job_is_gone(ampctl, server):
    server.add_job("r", state="running")
    server.change("r")
    server.change("r", state="cancelled")
    result = ampctl("cancel", "r", "--wait")
    assert (result.code, result.out) == (0, "r is cancelled\n")
    assert result.err == "r is stopping; waiting for its process to end …\n"


def test_cancel_that_came_too_late_exits_1(ampctl, server):
    server.add_job("r", state="running")
    server.change("r")
    server.change("r", state="succeeded")
    result = ampctl("cancel", "r", "--wait", "--json")
    assert (result.code, result.json()["state"]) == (1, "succeeded")


def test_pause_says_what_became_of_the_job(ampctl, server):
    server.add_job("q")
    server.add_job("r", state="running")
    assert ampctl("pause", "q").out == "q is paused\n"
    assert ampctl("pause", "r").out == "r is pausing\n"


def test_pause_can_wait_until_the_job_stands(ampctl, server):
    server.add_job("r", state="running")
    server.change("r")
    server.change("r")
    server.change("r", state="paused")
    result = ampctl("pause", "r", "--wait")
    assert (result.code, result.out) == (0, "r is paused\n")


def test_pause_that_came_too_late_exits_1(ampctl, server):
    server.add_job("r", state="running")
    server.change("r")
    server.change("r", state="succeeded")
    assert ampctl("pause", "r", "--wait").code == 1


def test_ctrl_c_while_a_pause_is_waited_for_changes_nothing(start_ampctl, server):
    server.add_job("r", state="running")
    process = start_ampctl("pause", "r", "--wait")
    assert "waiting" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, server.jobs["r"]["state"]) == (130, "pausing")
    assert "ampctl get r" in err
    assert [request.method for request in server.requests].count("POST") == 1


@pytest.mark.parametrize(("verb", "state"), [("resume", "paused"), ("retry", "failed")])
def test_a_job_is_queued_again(ampctl, server, verb, state):
    server.add_job("a", state=state)
    assert ampctl(verb, "a").out == "a is queued\n"
    result = ampctl(verb, "a")
    assert result.code == 1
    assert "(conflict, HTTP 409)" in result.err


def test_a_job_that_is_queued_again_can_be_followed(ampctl, server, summary):
    server.add_job("a", state="paused")
    server.change("a")
    server.change("a", state="succeeded", summary=summary)
    result = ampctl("resume", "a", "--watch")
    assert result.code == 0
    assert "a is queued; Ctrl-C stops watching, not the job." in result.err


def test_clone_prints_the_new_id_alone_and_sets_fields(ampctl, server):
    server.add_job("a", spec={"x": 1})
    result = ampctl("clone", "a", "--set", "precision.policy=float32", "--set", "train.epochs=7")
    assert (result.code, result.out) == (0, "000001\n")
    sent = json.loads(server.requests[-1].content)
    assert sent == {"set": {"precision.policy": "float32", "train.epochs": 7}}
    assert server.jobs["000001"]["cloned_from"] == "a"


@pytest.mark.parametrize("assignment", ["train.epochs", "=1"])
def test_clone_with_a_set_that_names_nothing_is_wrong_usage(ampctl, server, assignment):
    assert ampctl("clone", "a", "--set", assignment).code == 2
    assert server.requests == []


def test_edit_changes_what_is_named_and_keeps_the_rest(ampctl, server):
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
def test_an_edit_of_nothing_or_of_something_wrong_is_wrong_usage(ampctl, server, arguments):
    server.add_job("a")
    assert ampctl("edit", "a", *arguments).code == 2
    assert server.requests == []


def test_delete_says_so_and_is_refused_before_the_end(ampctl, server):
    server.add_job("a", state="failed")
    server.add_job("r", state="running")
    assert ampctl("delete", "a").out == "a deleted\n"
    assert ampctl("delete", "r").code == 1
    assert list(server.jobs) == ["r"]

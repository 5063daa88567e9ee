import json
import signal

import pytest

from tests.ampclient.cli.jobs.test_records import ODD
from tests.tables import every_row
from tests.waiting import DEADLINE_S


def test_logs_are_printed_as_they_are(ampctl, server):
    server.add_job("a", state="running")
    server.add_logs("a", "Epoch 1\n", "los", "s 0.5\n")
    result = ampctl("logs", "a")
    assert (result.code, result.out) == (0, "Epoch 1\nloss 0.5\n")
    server.add_logs("a", "again\n", attempt=2)
    assert ampctl("logs", "a", "--attempt", "2").out == "again\n"
    assert ampctl("logs", "a", "--attempt", "3").err.startswith("The log is empty: attempt 3 has")


def test_an_empty_log_says_where_to_look_instead(ampctl, server):
    server.add_job("a", attempt=1, state="running")
    assert ampctl("logs", "a").err.endswith(": ampctl events a, or ampctl watch a\n")
    server.add_job("b", attempt=1, state="succeeded")
    assert ampctl("logs", "b").err.endswith(": ampctl events b, or ampctl get b\n")
    server.add_job("c")
    assert ampctl("logs", "c").err == "The log is empty: no worker has started the job yet.\n"


def test_following_all_logs_where_no_job_runs_says_so(start_ampctl, server):
    process = start_ampctl("logs", "--all", "-f")
    assert process.stderr.readline() == (
        "No job runs. Waiting for jobs that start; Ctrl-C ends it.\n"
    )
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130


def test_logs_as_json_are_one_document_per_line(ampctl, server):
    server.add_job("a")
    server.add_logs("a", "one\n", "two\n")
    documents = [json.loads(line) for line in ampctl("logs", "a", "--json").out.splitlines()]
    assert documents == server.logs["a"]


def test_logs_in_a_pipe_are_unchanged(ampctl, server):
    server.add_job("a", state="running")
    server.add_logs("a", ODD)
    assert ampctl("logs", "a").out == ODD


def test_logs_can_be_followed_to_the_end(ampctl, server):
    server.add_job("a", state="running")
    server.add_logs("a", "one\n")
    server.change("a")
    server.changes["a"].append(lambda: server.add_logs("a", "two\n"))
    server.change("a", state="succeeded")
    result = ampctl("logs", "a", "-f")
    assert (result.code, result.out, result.err) == (0, "one\ntwo\n", "")


def test_following_the_logs_of_a_failed_job_fails_with_its_message(ampctl, server):
    server.add_job("a", state="failed", message="Out of memory.")
    server.add_logs("a", "one\n")
    result = ampctl("logs", "a", "--follow")
    assert (result.code, result.out, result.err) == (1, "one\n", "a is failed: Out of memory.\n")


def test_ctrl_c_detaches_from_the_logs(start_ampctl, server):
    server.add_job("a", state="running")
    server.add_logs("a", "one\n")
    process = start_ampctl("logs", "a", "-f")
    assert process.stdout.readline() == "one\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert "ampctl logs -f a" in err
    assert "Traceback" not in err


@pytest.fixture
def two_jobs(server):
    """Two jobs that run; an entry may hold several lines, and a line several entries."""
    server.add_job("a", name="digits float16", state="running")
    server.add_job("b", name="digits bfloat16", state="running")
    server.add_logs("a", "Epoch 1\nlos", "s 0.5\n")
    server.add_logs("b", "Epoch 1\nno line break")


LINES_OF_A = ["float16  | Epoch 1", "float16  | loss 0.5"]
LINES_OF_B = ["bfloat16 | Epoch 1", "bfloat16 | no line break"]


@every_row("words", [("a", "b"), ("a", "b", "a")])
def test_each_line_of_several_logs_begins_with_the_name_of_its_job(ampctl, server, two_jobs, words):
    assert ampctl("logs", *words).out.splitlines() == [*LINES_OF_A, *LINES_OF_B]


def test_the_logs_of_all_jobs_that_run_are_printed(ampctl, server, two_jobs):
    server.add_job("c", name="ended", state="succeeded")
    server.add_logs("c", "an ended job\n")
    lines = ampctl("logs", "--all").out.splitlines()
    assert sorted(lines) == sorted([*LINES_OF_A, *LINES_OF_B])


def test_several_logs_as_json_have_the_id_of_their_job(ampctl, server, two_jobs):
    documents = [json.loads(line) for line in ampctl("logs", "a", "b", "--json").out.splitlines()]
    assert [document.pop("job") for document in documents] == ["a", "a", "b"]
    assert documents == [*server.logs["a"], *server.logs["b"]]


def test_several_jobs_are_followed_until_all_have_ended(ampctl, server, two_jobs):
    server.change("a", state="succeeded")
    server.change("b", state="failed")
    result = ampctl("logs", "a", "b", "-f")
    assert result.code == 1
    assert sorted(result.out.splitlines()) == sorted([*LINES_OF_A, *LINES_OF_B])


def test_jobs_that_start_later_are_followed_too(start_ampctl, server):
    server.add_job("a", name="first", state="running")
    server.add_logs("a", "one\n")
    process = start_ampctl("logs", "--all", "-f")
    assert process.stdout.readline() == "first | one\n"
    server.add_job("b", name="other", state="running")
    server.add_logs("b", "two\n")
    assert process.stdout.readline() == "other | two\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert "ampctl logs -f --all" in err
    assert "Traceback" not in err


@every_row("words", [(), ("a", "--all")])
def test_ids_or_all_are_wanted(ampctl, server, words):
    server.add_job("a")
    result = ampctl("logs", *words)
    assert result.code == 2
    assert "give the ids of jobs, or --all" in result.err


def test_without_a_job_that_runs_nothing_is_printed(ampctl):
    result = ampctl("logs", "--all")
    assert (result.code, result.out, result.err) == (0, "", "No job runs.\n")


def test_an_error_of_the_server_while_several_are_followed_is_shown(
    ampctl, server, two_jobs, respond, monkeypatch
):
    whole = server.handle

    def refuse(request):
        if request.url.path.endswith("/b/logs"):
            return respond(403, json={"code": "forbidden", "detail": "No."})(request)
        return whole(request)

    monkeypatch.setattr(server, "handle", refuse)
    result = ampctl("logs", "a", "b", "-f")
    assert result.code == 5
    assert result.err.splitlines()[0] == "error: No. (forbidden, HTTP 403)"

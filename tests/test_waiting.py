"""Tests wait on conditions with one shared deadline: no sleeps, no deadlines of their own."""

import re
import threading
from pathlib import Path

import pytest

from tests import waiting

ROOT = Path(__file__).parents[1]
FORBIDDEN = {
    "a deadline of its own": re.compile(
        r"(\btimeout(_s)?=|\.(join|wait|communicate)\()\d+(\.\d+)?[,)]"
    ),
    "a sleep": re.compile(r"\btime\.sleep\(|wait_for_timeout\("),
    "a wall clock": re.compile(r"\b(perf_counter|monotonic)\(\) *(-|<|>)"),
}
ALLOWED = {
    "waiting.py": "defines how tests wait",
    "chaos/programs/scripted_ranks.py": "a rank that waits until another one listens",
    "chaos/programs/control.py": "a trainer that waits for the test",
    "chaos/programs/patched_worker.py": "a clock that the test sets",
    "chaos/soak.py": "lasts as long as it is asked to",
    "slow_store.py": "a store that is slow",
    "worker/hostile_code.py": "a trainer that waits for its worker",
    "worker/scripted_trainer.py": "a trainer that waits for the test",
    "chaos/test_cancel_races.py": "shifts the start of a thread; nothing waits for it",
    "worker/test_trainer_process.py": "a timeout of one read in a loop; processes that hang",
    "infra/isolation/test_process_group_tracker.py": "processes that hang",
    "ampclient/job/test_wait.py": "the test replaces the clock",
    "ampclient/test_client_options.py": "the old name of a timeout",
    "ampclient/test_jobs.py": "a timeout of 0",
    "ampcore/distributed/test_launcher.py": "programs that hang until they are ended",
    "ampcore/distributed/rank_jobs.py": "a rank that is slow",
    "ampcore/distributed/control/test_process_activity.py": "a process that does nothing",
    "worker/test_fork_server_child.py": "processes that hang until they are ended",
    "worker/test_fork_server.py": "a process that waits for the test",
    "server/http/serving/test_connections.py": "reads from a socket, with the shared deadline",
    "server/allocations/test_kubernetes_api.py": "a server that does not answer",
    "server/routes/test_long_poll.py": "a client that leaves while it is waiting",
    "server/http/test_request_id.py": "compares a logged duration with a measured one",
}


def sources():
    files = sorted((ROOT / "tests").rglob("*.py"))
    return {
        str(file.relative_to(ROOT / "tests")): file.read_text(encoding="utf-8") for file in files
    }


def test_no_test_sleeps_or_sets_its_own_deadline():
    found = [
        f"{name}: {what}: {line.strip()}"
        for name, text in sources().items()
        if name not in ALLOWED
        for line in text.splitlines()
        for what, pattern in FORBIDDEN.items()
        if pattern.search(line)
    ]
    assert found == []


def test_each_exception_is_needed():
    texts = sources()
    unneeded = [
        name
        for name in ALLOWED
        if not any(pattern.search(texts[name]) for pattern in FORBIDDEN.values())
    ]
    assert unneeded == []


def test_a_failed_wait_shows_the_condition_and_the_last_state(monkeypatch):
    monkeypatch.setattr(waiting, "DEADLINE_S", 0.0)
    steps = 7
    with pytest.raises(AssertionError) as failed:
        waiting.wait_until(lambda: steps > 8, "eight steps", show=lambda: "the log")
    assert "eight steps" in str(failed.value)
    assert "last answer: False" in str(failed.value)
    assert "steps: 7" in str(failed.value)
    assert "state: 'the log'" in str(failed.value)


def test_a_thread_that_does_not_end_is_a_failure(monkeypatch):
    monkeypatch.setattr(waiting, "DEADLINE_S", 0.0)
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="endless", daemon=True)
    thread.start()
    with pytest.raises(AssertionError, match="endless"):
        waiting.join(thread)
    end.set()

"""The process that plans studies."""

import os
import resource
import sys
import threading

import pytest

from server.errors import Unavailable
from server.studies.planner import PlanningFailed, ProcessPlanner
from store import cancellation
from store.cancellation import Cancellation, Cancelled
from tests.waiting import DEADLINE_S, join, wait_until

ENDLESS = "[None for _ in iter(int, 1) if False]"


@pytest.fixture
def planner():
    planner = ProcessPlanner(DEADLINE_S)
    yield planner
    planner.close()


def test_a_function_is_called_in_another_process(planner):
    first = planner.call(os.getpid)
    assert first != os.getpid()
    assert planner.call(os.getpid) == first
    planner.close()
    assert planner.call(os.getpid) != first


def test_an_error_of_a_function_is_not_hidden_and_the_next_plan_works(planner):
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        planner.call(divmod, 1, 0)
    assert planner.call(divmod, 7, 2) == (3, 1)


def test_a_plan_that_takes_too_long_is_given_up_and_its_process_killed(planner):
    assert planner.call(abs, -1) == 1
    child = planner._child
    planner._timeout_s = 0
    with pytest.raises(PlanningFailed, match=r"takes longer than 0 s\."):
        planner.call(eval, ENDLESS)
    assert child.poll() is not None
    planner._timeout_s = DEADLINE_S
    assert planner.call(abs, -1) == 1


class HeldLock:
    """The lock of a planner whose last plan ends, by its clock, after `seconds`."""

    def __init__(self, clock, seconds):
        self.clock, self.ends_at = clock, clock.now + seconds

    def acquire(self, timeout):
        self.clock.now += timeout
        return self.clock.now >= self.ends_at

    def release(self):
        pass

    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("server.studies.planner.time", clock)
    return clock


def test_the_wait_for_another_plan_takes_none_of_the_time_of_a_plan(planner, clock):
    deadlines = []
    planner._ask = lambda _task, deadline: deadlines.append(deadline)
    planner._lock = HeldLock(clock, 0.9 * DEADLINE_S)
    planner.call(abs, -1)
    assert deadlines == [clock.now + DEADLINE_S]


def test_the_wait_for_another_plan_has_an_end_and_a_text_of_its_own(planner, clock):
    planner._lock = HeldLock(clock, 2 * DEADLINE_S)
    with pytest.raises(PlanningFailed, match="Other studies have been planned"):
        planner.call(abs, -1)


def test_a_client_that_leaves_does_not_wait_for_another_plan(planner, clock):
    planner._lock = HeldLock(clock, 0.9 * DEADLINE_S)
    work = Cancellation()
    work.cancel()
    token = cancellation.current.set(work)
    try:
        with pytest.raises(Cancelled):
            planner.call(abs, -1)
    finally:
        cancellation.current.reset(token)


def test_a_plan_whose_client_has_left_is_given_up(planner):
    work, errors = Cancellation(), []

    def plan():
        cancellation.current.set(work)
        try:
            planner.call(eval, ENDLESS)
        except Cancelled as error:
            errors.append(error)

    thread = threading.Thread(target=plan)
    thread.start()
    wait_until(lambda: planner._child is not None, "the process has started")
    work.cancel()
    join(thread)
    assert errors
    assert planner.call(abs, -1) == 1


def test_a_process_that_dies_is_an_error_that_a_client_may_retry():
    broken = ProcessPlanner(DEADLINE_S, program=(sys.executable, "-c", ""))
    with pytest.raises(Unavailable, match="has ended"):
        broken.call(abs, -1)


def test_closing_does_not_wait_for_a_plan():
    planner, errors = ProcessPlanner(2 * DEADLINE_S), []

    def plan():
        try:
            planner.call(eval, ENDLESS)
        except PlanningFailed as error:
            errors.append(error)

    thread = threading.Thread(target=plan)
    thread.start()
    wait_until(lambda: planner._child is not None, "the process has started")
    planner.close()
    join(thread)
    assert errors


def test_a_server_with_many_connections_can_plan(planner):
    """Fails with select(), which takes no files with numbers of 1024 and more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    files = []
    try:
        files += [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
        assert planner.call(abs, -1) == 1
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

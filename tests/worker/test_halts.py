import math
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from store import jobs
from worker.halts import NOT_STOPPING, Halt, Orders, Stopping

NOW = 1000.0


def joined(*halts: Halt | None, grace_s: float = 10.0) -> Stopping:
    """Asked for one second after the other."""
    stopping = NOT_STOPPING
    for second, halt in enumerate(halts):
        stopping = stopping.joined(halt, grace_s=grace_s, now=NOW + second)
    return stopping


def test_nobody_who_is_not_stopped_is_killed() -> None:
    assert joined(None, None) is NOT_STOPPING
    assert not NOT_STOPPING.is_due(math.inf) or NOT_STOPPING.kill_at == math.inf
    assert NOT_STOPPING.left_s(NOW, at_most=10.0) == 10.0


def test_a_trainer_gets_its_time_and_no_more() -> None:
    stopping = joined(Halt.PAUSE, Halt.PAUSE, Halt.PAUSE)
    assert stopping == Stopping(Halt.PAUSE, NOW + 10)
    assert not stopping.is_due(NOW + 9.9)
    assert stopping.is_due(NOW + 10)
    assert stopping.left_s(NOW + 4, at_most=10.0) == 6.0
    assert stopping.left_s(NOW + 40, at_most=10.0) == 0.0


@pytest.mark.parametrize("first", [Halt.PAUSE, Halt.SHUTDOWN, Halt.TIMEOUT])
def test_of_the_gentle_reasons_the_first_one_counts(first: Halt) -> None:
    assert joined(first, Halt.TIMEOUT, Halt.SHUTDOWN, Halt.PAUSE).halt is first


@pytest.mark.parametrize("first", [Halt.PAUSE, Halt.SHUTDOWN, Halt.TIMEOUT])
def test_a_cancel_wins_and_makes_the_time_no_longer(first: Halt) -> None:
    assert joined(first, Halt.CANCEL) == Stopping(Halt.CANCEL, NOW + 10)


@pytest.mark.parametrize("final", [Halt.FENCED, Halt.SELF_FENCE])
def test_whose_job_it_is_no_more_is_killed_at_once(final: Halt) -> None:
    assert joined(Halt.CANCEL, final) == Stopping(final, NOW + 1)
    assert joined(final).kill_at == NOW


def orders(
    *, asked: str | None = None, fenced: bool = False, silent_s: float = 0.0, **others: Any
) -> Orders:
    relay: Any = SimpleNamespace(asked=asked, is_fenced=fenced, silent_s=silent_s)
    return Orders(relay, threading.Event(), 300.0, **others)


def test_everybody_is_listened_to() -> None:
    assert orders().halt() is None
    assert orders(asked=jobs.CANCEL).halt() is Halt.CANCEL
    assert orders(asked=jobs.PAUSE).halt() is Halt.PAUSE
    assert orders(fenced=True, asked=jobs.CANCEL).halt() is Halt.FENCED
    assert orders(silent_s=301.0).halt() is Halt.SELF_FENCE
    assert orders(timeout_at=0.0, asked=jobs.PAUSE).halt() is Halt.TIMEOUT
    leaving = orders()
    leaving.shutting_down.set()
    assert leaving.halt() is Halt.SHUTDOWN

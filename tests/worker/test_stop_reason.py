import math
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from store.jobs import jobs
from worker.attempt.stop_reason import NOT_STOPPED, PendingStop, StopConditions, StopReason

NOW = 1000.0


def updated(*stop_reasons: StopReason | None, grace_s: float = 10.0) -> PendingStop:
    """The pending stop after these stop reasons, one per second."""
    pending_stop = NOT_STOPPED
    for second, stop_reason in enumerate(stop_reasons):
        pending_stop = pending_stop.updated(stop_reason, grace_s=grace_s, now=NOW + second)
    return pending_stop


def test_without_a_stop_reason_there_is_no_kill() -> None:
    assert updated(None, None) is NOT_STOPPED
    assert not NOT_STOPPED.is_due(math.inf) or NOT_STOPPED.kill_at == math.inf
    assert NOT_STOPPED.remaining_s(NOW, at_most=10.0) == 10.0


def test_the_kill_follows_after_the_grace_period() -> None:
    pending_stop = updated(StopReason.PAUSE, StopReason.PAUSE, StopReason.PAUSE)
    assert pending_stop == PendingStop(StopReason.PAUSE, NOW + 10)
    assert not pending_stop.is_due(NOW + 9.9)
    assert pending_stop.is_due(NOW + 10)
    assert pending_stop.remaining_s(NOW + 4, at_most=10.0) == 6.0
    assert pending_stop.remaining_s(NOW + 40, at_most=10.0) == 0.0


@pytest.mark.parametrize("first", [StopReason.PAUSE, StopReason.SHUTDOWN, StopReason.TIMEOUT])
def test_the_first_of_equal_reasons_stays(first: StopReason) -> None:
    assert (
        updated(first, StopReason.TIMEOUT, StopReason.SHUTDOWN, StopReason.PAUSE).stop_reason
        is first
    )


@pytest.mark.parametrize("first", [StopReason.PAUSE, StopReason.SHUTDOWN, StopReason.TIMEOUT])
def test_a_cancel_outranks_a_pause_and_keeps_the_kill_time(first: StopReason) -> None:
    assert updated(first, StopReason.CANCEL) == PendingStop(StopReason.CANCEL, NOW + 10)


@pytest.mark.parametrize("final", [StopReason.FENCED, StopReason.SELF_FENCE])
def test_a_fenced_trainer_is_killed_without_grace(final: StopReason) -> None:
    assert updated(StopReason.CANCEL, final) == PendingStop(final, NOW + 1)
    assert updated(final).kill_at == NOW


def test_a_rank_that_another_one_leaves_alone_is_killed_sooner_and_not_asked_to_stop() -> None:
    """The end of a rank neither asks nor replaces a request, but shortens the time of both."""
    pending_stop = NOT_STOPPED.updated(StopReason.RANK_0, grace_s=math.inf, now=NOW)
    assert pending_stop == PendingStop(StopReason.RANK_0, math.inf)
    left = pending_stop.updated(StopReason.RANK_ENDED, grace_s=2.0, now=NOW)
    assert left == PendingStop(StopReason.RANK_0, NOW + 2)
    alone = NOT_STOPPED.updated(StopReason.RANK_ENDED, grace_s=2.0, now=NOW)
    assert alone.updated(StopReason.RANK_0, grace_s=10.0, now=NOW) == left
    assert [reason for reason in StopReason if not reason.is_request] == [StopReason.RANK_ENDED]


def stop_conditions(
    *,
    requested: str | None = None,
    fenced: bool = False,
    since_heartbeat_s: float = 0.0,
    **options: Any,
) -> StopConditions:
    writer: Any = SimpleNamespace(
        requested=requested, is_fenced=fenced, since_heartbeat_s=since_heartbeat_s
    )
    return StopConditions(writer, threading.Event(), 300.0, **options)


def test_each_condition_gives_its_stop_reason() -> None:
    assert stop_conditions().stop_reason() is None
    assert stop_conditions(requested=jobs.CANCEL).stop_reason() is StopReason.CANCEL
    assert stop_conditions(requested=jobs.PAUSE).stop_reason() is StopReason.PAUSE
    assert stop_conditions(fenced=True, requested=jobs.CANCEL).stop_reason() is StopReason.FENCED
    assert stop_conditions(since_heartbeat_s=301.0).stop_reason() is StopReason.SELF_FENCE
    assert stop_conditions(timeout_at=0.0, requested=jobs.PAUSE).stop_reason() is StopReason.TIMEOUT
    ending = stop_conditions()
    ending.shutting_down.set()
    assert ending.stop_reason() is StopReason.SHUTDOWN

import signal

import pytest

from ampcore.series.frames import Frame, FrameType
from ampcore.spec import Reason
from worker.endings import Ending, Outcome, broken, judge
from worker.halts import Halt

SUCCEEDED = Frame(FrameType.SUCCEEDED, {"summary": {"steps": 1}})
FAILED = Frame(FrameType.FAILED, {"reason": "out_of_memory", "message": "Take less."})
STOPPED = Frame(FrameType.STOPPED)
KILLED = -signal.SIGKILL


@pytest.mark.parametrize("halt", [Halt.FENCED, Halt.SELF_FENCE])
@pytest.mark.parametrize("frame", [None, SUCCEEDED, FAILED, STOPPED])
def test_of_a_lost_job_nothing_is_said(halt: Halt, frame: Frame | None) -> None:
    assert judge(Ending(frame, 0, halt), None) is None


@pytest.mark.parametrize("halt", [None, Halt.PAUSE, Halt.SHUTDOWN, Halt.TIMEOUT, Halt.CANCEL])
def test_a_success_is_one_whatever_was_asked(halt: Halt | None) -> None:
    end = judge(Ending(SUCCEEDED, 0, halt), 1.0)
    assert end is not None
    assert (end.outcome, end.summary) == (Outcome.SUCCEEDED, {"steps": 1})


@pytest.mark.parametrize("halt", [None, Halt.PAUSE, Halt.SHUTDOWN, Halt.TIMEOUT])
def test_a_failure_says_its_own_reason(halt: Halt | None) -> None:
    end = judge(Ending(FAILED, 1, halt), 1.0)
    assert end is not None
    assert (end.outcome, end.reason) == (Outcome.FAILED, Reason.OUT_OF_MEMORY)


@pytest.mark.parametrize("ending", [(STOPPED, 0), (None, KILLED), (None, 0)])
@pytest.mark.parametrize(
    ("halt", "outcome"),
    [
        (Halt.CANCEL, Outcome.CANCELLED),
        (Halt.PAUSE, Outcome.PAUSED),
        (Halt.SHUTDOWN, Outcome.HANDED_BACK),
        (Halt.TIMEOUT, Outcome.FAILED),
    ],
)
def test_whoever_was_stopped_is_what_was_asked(
    ending: tuple[Frame | None, int], halt: Halt, outcome: Outcome
) -> None:
    end = judge(Ending(*ending, halt), 60.0)
    assert end is not None
    assert end.outcome is outcome


def test_a_timeout_says_how_long_it_was_and_what_to_do() -> None:
    end = judge(Ending(STOPPED, 0, Halt.TIMEOUT), 60.0)
    assert end is not None
    assert end.reason is Reason.TIMEOUT
    assert end.message == (
        "It was on a worker for 60 s, as long as runtime.timeout_s allows. "
        "A retry goes on from its last checkpoint, for as long again."
    )


def test_a_stop_that_nobody_here_asked_for_is_a_kill() -> None:
    end = judge(Ending(STOPPED, 0), None)
    assert end is not None
    assert (end.outcome, end.reason) == (Outcome.FAILED, Reason.PROCESS_KILLED)


@pytest.mark.parametrize(
    ("ending", "reason", "said"),
    [
        (Ending(None, 7), Reason.INTERNAL_ERROR, "exit code 7 and no result."),
        (Ending(None, 7, last_line="ouch"), Reason.INTERNAL_ERROR, "log ends with: ouch"),
        (Ending(None, KILLED), Reason.PROCESS_KILLED, "killed by SIGKILL."),
        (Ending(None, -signal.SIGSEGV), Reason.PROCESS_KILLED, "killed by SIGSEGV."),
        (Ending(None, -40), Reason.PROCESS_KILLED, "killed by signal 40."),
        (Ending(None, KILLED, memory_ran_out=True), Reason.OUT_OF_MEMORY, "batch_size"),
        (Ending(None, -signal.SIGSEGV, memory_ran_out=True), Reason.PROCESS_KILLED, "SIGSEGV"),
    ],
)
def test_an_end_without_a_word_is_explained(ending: Ending, reason: Reason, said: str) -> None:
    end = judge(ending, None)
    assert end is not None
    assert end.reason is reason
    assert said in (end.message or "")


def test_what_the_worker_cannot_run_says_why() -> None:
    end = broken(OSError("no space left"))
    assert (end.outcome, end.reason) == (Outcome.FAILED, Reason.INTERNAL_ERROR)
    assert end.message == "The worker could not run the job: OSError: no space left"


def test_an_ending_reads_well_in_a_log() -> None:
    assert str(Ending(STOPPED, 0, Halt.PAUSE)) == (
        "it said stopped, exit code 0, stopped since a pause was asked for"
    )
    assert str(Ending(None, -9)) == "it said nothing, exit code -9"

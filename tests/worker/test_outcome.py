import signal

from ampspec.jobs import Reason
from ampspec.telemetry.frames import Frame, FrameType
from tests.tables import every_row
from worker.attempt.outcome import (
    AttemptOutcome,
    TrainerExit,
    failed_in_worker,
    invalid_telemetry,
    rank_failure,
    result_of,
)
from worker.attempt.stop_reason import StopReason

SUCCEEDED = Frame(FrameType.SUCCEEDED, {"summary": {"steps": 1}})
BAD_ALLOC = (
    "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
)
FAILED = Frame(FrameType.FAILED, {"reason": "out_of_memory", "message": "Take less."})
STOPPED = Frame(FrameType.STOPPED)
KILLED = -signal.SIGKILL


@every_row("stop_reason", [StopReason.FENCED, StopReason.SELF_FENCE])
@every_row("frame", [None, SUCCEEDED, FAILED, STOPPED])
def test_a_fenced_attempt_has_no_result(stop_reason: StopReason, frame: Frame | None) -> None:
    assert result_of(TrainerExit(frame, 0, stop_reason), None) is None


@every_row(
    "stop_reason",
    [None, StopReason.PAUSE, StopReason.SHUTDOWN, StopReason.TIMEOUT, StopReason.CANCEL],
)
def test_a_success_outranks_every_stop_request(stop_reason: StopReason | None) -> None:
    result = result_of(TrainerExit(SUCCEEDED, 0, stop_reason), 1.0)
    assert result is not None
    assert (result.outcome, result.summary) == (AttemptOutcome.SUCCEEDED, {"steps": 1})


@every_row("stop_reason", [None, StopReason.PAUSE, StopReason.SHUTDOWN, StopReason.TIMEOUT])
def test_a_failure_keeps_its_own_reason(stop_reason: StopReason | None) -> None:
    result = result_of(TrainerExit(FAILED, 1, stop_reason), 1.0)
    assert result is not None
    assert (result.outcome, result.reason) == (AttemptOutcome.FAILED, Reason.OUT_OF_MEMORY)


@every_row("trainer_exit", [(STOPPED, 0), (None, KILLED), (None, 0)])
@every_row(
    ("stop_reason", "outcome"),
    [
        (StopReason.CANCEL, AttemptOutcome.CANCELLED),
        (StopReason.PAUSE, AttemptOutcome.PAUSED),
        (StopReason.SHUTDOWN, AttemptOutcome.REQUEUED),
        (StopReason.TIMEOUT, AttemptOutcome.FAILED),
    ],
)
def test_a_stopped_trainer_gets_the_requested_outcome(
    trainer_exit: tuple[Frame | None, int], stop_reason: StopReason, outcome: AttemptOutcome
) -> None:
    result = result_of(TrainerExit(*trainer_exit, stop_reason), 60.0)
    assert result is not None
    assert result.outcome is outcome


@every_row(
    ("trainer_exit", "reason"),
    [
        (TrainerExit(SUCCEEDED, 0), None),
        (TrainerExit(STOPPED, 0), None),  # rank 0 told it before its worker
        (TrainerExit(FAILED, 1, StopReason.RANK_0), Reason.OUT_OF_MEMORY),
        (TrainerExit(None, KILLED), Reason.PROCESS_KILLED),
        (TrainerExit(None, KILLED, StopReason.RANK_ENDED), None),
        (TrainerExit(None, -signal.SIGTERM, StopReason.RANK_0, was_alive=False), None),
        (TrainerExit(None, KILLED, StopReason.RANK_0, was_alive=False), Reason.PROCESS_KILLED),
        (TrainerExit(None, 7, StopReason.RANK_0, was_alive=False), Reason.INTERNAL_ERROR),
        (TrainerExit(STOPPED, 0, failure=invalid_telemetry("x")), Reason.INVALID_TELEMETRY),
    ],
)
def test_a_rank_fails_by_itself_or_was_stopped(
    trainer_exit: TrainerExit, reason: Reason | None
) -> None:
    failure = rank_failure(trainer_exit)
    assert (failure and failure.reason) == reason


def test_a_timeout_message_names_the_limit_and_the_retry() -> None:
    result = result_of(TrainerExit(STOPPED, 0, StopReason.TIMEOUT), 60.0)
    assert result is not None
    assert result.reason is Reason.TIMEOUT
    assert result.message == (
        "The job ran for 60 s, the limit of runtime.timeout_s; a retry has the same limit."
    )


def test_a_stop_without_a_request_counts_as_killed() -> None:
    result = result_of(TrainerExit(STOPPED, 0), None)
    assert result is not None
    assert (result.outcome, result.reason) == (AttemptOutcome.FAILED, Reason.PROCESS_KILLED)


@every_row(
    ("trainer_exit", "reason", "expected"),
    [
        (TrainerExit(None, 7), Reason.INTERNAL_ERROR, "exited with code 7 and reported no result."),
        (
            TrainerExit(None, 7, last_line="ouch"),
            Reason.INTERNAL_ERROR,
            "Its last log line: “ouch”.",
        ),
        (TrainerExit(None, KILLED), Reason.PROCESS_KILLED, "killed by SIGKILL."),
        (TrainerExit(None, -signal.SIGSEGV), Reason.PROCESS_KILLED, "killed by SIGSEGV."),
        (TrainerExit(None, -40), Reason.PROCESS_KILLED, "killed by signal 40."),
        (TrainerExit(None, KILLED, oom_killed=True), Reason.OUT_OF_MEMORY, "batch_size"),
        (TrainerExit(None, -signal.SIGSEGV, oom_killed=True), Reason.PROCESS_KILLED, "SIGSEGV"),
        (
            TrainerExit(None, -signal.SIGABRT, log_tail=BAD_ALLOC),
            Reason.OUT_OF_MEMORY,
            "“terminate called after throwing an instance of 'std::bad_alloc'”",
        ),
        (TrainerExit(None, 1, log_tail="LLVM ERROR: out of memory"), Reason.OUT_OF_MEMORY, "LLVM"),
        (TrainerExit(None, KILLED, log_tail=BAD_ALLOC), Reason.PROCESS_KILLED, "SIGKILL"),
    ],
)
def test_an_exit_without_a_final_frame_is_explained(
    trainer_exit: TrainerExit, reason: Reason, expected: str
) -> None:
    result = result_of(trainer_exit, None)
    assert result is not None
    assert result.reason is reason
    assert expected in (result.message or "")


def test_a_failure_in_the_worker_keeps_the_error() -> None:
    result = failed_in_worker(OSError("no space left"))
    assert (result.outcome, result.reason) == (AttemptOutcome.FAILED, Reason.INTERNAL_ERROR)
    assert result.message == "The worker could not run the job: OSError: no space left"


def test_a_trainer_exit_as_text() -> None:
    assert str(TrainerExit(STOPPED, 0, StopReason.PAUSE)) == (
        "last message: stopped, exit code 0, stopped because a pause was requested"
    )
    assert str(TrainerExit(None, -9)) == "last message: none, exit code -9"

"""AttemptResult: how an attempt ended, derived from its trainer's exit, and how it is recorded.

A rank other than rank 0 has no result of its own, only a failure or none.
"""

import signal
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy.orm import Session

from ampspec.documents.allocation_messages import allocation_failure
from ampspec.jobs import Reason
from ampspec.telemetry.frames import Frame, FrameType
from store.database_errors import describe
from store.jobs import attempts
from worker.attempt.stop_reason import StopReason

MAX_MESSAGE: Final = 8192
RESIZED: Final = "Slots for more of its ranks are free."
RANK_FAILED: Final = "Another rank of the job has failed."


class AttemptOutcome(StrEnum):
    """How an attempt ended, as its worker records it."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PAUSED = "paused"
    REQUEUED = "requeued"


@dataclass(frozen=True)
class Failure:
    """Why a trainer process, or the ranks of a worker, failed."""

    reason: Reason
    message: str


@dataclass(frozen=True)
class AttemptResult:
    """The result of an attempt whose trainer process has ended."""

    outcome: AttemptOutcome
    reason: Reason | None = None
    message: str | None = None
    summary: dict[str, Any] | None = None

    def write(self, session: Session, job_id: str, attempt: int) -> None:
        """Record it; a cancel requested in the meantime takes precedence."""
        match self.outcome:
            case AttemptOutcome.SUCCEEDED:
                attempts.mark_succeeded(session, job_id, attempt, self.summary or {})
            case AttemptOutcome.FAILED:
                reason, message = self.reason or Reason.INTERNAL_ERROR, self.message or ""
                attempts.mark_failed(session, job_id, attempt, reason, message)
            case AttemptOutcome.PAUSED:
                attempts.mark_paused(session, job_id, attempt, self.message or "")
            case AttemptOutcome.REQUEUED if self.reason is not None:
                message = self.message or ""
                attempts.requeue(session, job_id, attempt, reason=self.reason, message=message)
            case AttemptOutcome.REQUEUED:
                attempts.requeue(session, job_id, attempt)
            case AttemptOutcome.CANCELLED:
                attempts.mark_cancelled(session, job_id, attempt)


@dataclass(frozen=True)
class TrainerExit:
    """How a trainer process ended: its final frame, its exit code, and why it was stopped."""

    frame: Frame | None
    exit_code: int
    stop_reason: StopReason | None = None
    last_line: str = ""
    """The last line of its log."""
    log_tail: str = ""
    """The end of its log, where a library may say why it ended the process."""
    oom_killed: bool = False
    """The OOM killer killed a process of this cgroup at about that time."""
    failure: Failure | None = None
    """Why its worker could not run it, or ended it: a limit of its sandbox, an invalid frame."""
    was_alive: bool = True
    """It had not ended by itself: its worker had to kill it."""

    @property
    def was_killed_by_others(self) -> bool:
        """Whether a signal ended it that its worker had not sent."""
        return not self.was_alive and self.exit_code < 0 and self.exit_code != -signal.SIGTERM

    @property
    def has_crashed(self) -> bool:
        """Whether it ended without a final frame, and not because its worker wanted it to."""
        was_stopped = self.stop_reason is not None and (
            self.was_alive or self.exit_code == -signal.SIGTERM
        )
        return self.frame is None and not was_stopped

    def __str__(self) -> str:
        last_message = self.frame.type if self.frame is not None else "none"
        stopped = (
            f", stopped because {self.stop_reason.value}" if self.stop_reason is not None else ""
        )
        return f"last message: {last_message}, exit code {self.exit_code}{stopped}"


def result_of(trainer_exit: TrainerExit, timeout_s: float | None) -> AttemptResult | None:
    """The attempt's result; None when the worker no longer owns the job."""
    match trainer_exit:
        case TrainerExit(stop_reason=StopReason.FENCED | StopReason.SELF_FENCE):
            return None
        case TrainerExit(failure=Failure() as failure):
            return _failed(failure)
        case TrainerExit(frame=Frame(type=FrameType.SUCCEEDED, header=header)):
            return _success(trainer_exit, header["summary"])
        case TrainerExit(stop_reason=StopReason.CANCEL):
            return AttemptResult(AttemptOutcome.CANCELLED)
        case TrainerExit(frame=Frame(type=FrameType.FAILED, header=header)):
            return _failed(_reported_failure(header))
        case TrainerExit(frame=None, stop_reason=StopReason.RANK_FAILED) if (
            trainer_exit.was_killed_by_others
        ):
            # The others failed because they lost this rank.
            return _failed(_crash(trainer_exit))
        case TrainerExit(stop_reason=StopReason() as reason):
            return _result_of_stop(reason, timeout_s)
        case TrainerExit(frame=Frame(type=FrameType.STOPPED)):
            message = "Something other than its worker stopped the trainer process with SIGTERM."
            return AttemptResult(AttemptOutcome.FAILED, Reason.PROCESS_KILLED, message)
        case _:
            return _failed(_crash(trainer_exit))


def rank_failure(trainer_exit: TrainerExit) -> Failure | None:
    """Why a rank other than rank 0 failed; None if it succeeded or was stopped.

    Without a request of its worker, STOPPED is no failure: rank 0 tells the others first.
    """
    match trainer_exit:
        case TrainerExit(failure=Failure() as failure):
            return failure
        case TrainerExit(frame=Frame(type=FrameType.FAILED, header=header)):
            return _reported_failure(header)
        case _ if trainer_exit.has_crashed:
            return _crash(trainer_exit)
    return None


def _result_of_stop(reason: StopReason, timeout_s: float | None) -> AttemptResult:
    """The result of a trainer that was stopped for this reason."""
    match reason:
        case StopReason.TIMEOUT:
            message = _timeout_message(timeout_s or 0)
            return AttemptResult(AttemptOutcome.FAILED, Reason.TIMEOUT, message)
        case StopReason.PAUSE:
            return AttemptResult(AttemptOutcome.PAUSED)
        case StopReason.RESIZE:
            return AttemptResult(AttemptOutcome.REQUEUED, Reason.RESIZED, RESIZED)
        case StopReason.RANK_FAILED:
            return AttemptResult(AttemptOutcome.FAILED, Reason.RANK_LOST, RANK_FAILED)
        case _:
            return AttemptResult(AttemptOutcome.REQUEUED)


def _success(trainer_exit: TrainerExit, summary: dict[str, Any]) -> AttemptResult:
    if trainer_exit.exit_code > 0:  # killed while it ended is still a success
        message = (
            f"The trainer process reported success, but exited with code {trainer_exit.exit_code}."
        )
        return AttemptResult(AttemptOutcome.FAILED, Reason.INTERNAL_ERROR, message)
    return AttemptResult(AttemptOutcome.SUCCEEDED, summary=summary)


def invalid_telemetry(problem: str | None) -> Failure | None:
    """The failure because of a frame that is not valid; None without one."""
    if problem is None:
        return None
    return Failure(
        Reason.INVALID_TELEMETRY,
        f"The worker received telemetry that no trainer sends: {problem}. Nothing after it is "
        "stored, and the job is not retried. Let the code of the job write to its own files only.",
    )


def failure_in_worker(error: Exception) -> Failure:
    """The failure because of an error in the worker itself."""
    message = f"The worker could not run the job: {describe(error)}"
    return Failure(Reason.INTERNAL_ERROR, message[:MAX_MESSAGE])


def failed_in_worker(error: Exception) -> AttemptResult:
    """The result of an attempt that failed in the worker itself."""
    return _failed(failure_in_worker(error))


def _failed(failure: Failure) -> AttemptResult:
    return AttemptResult(AttemptOutcome.FAILED, failure.reason, failure.message)


def _reported_failure(header: dict[str, Any]) -> Failure:
    """The failure in the header of a FAILED frame."""
    return Failure(Reason(header["reason"]), header["message"][:MAX_MESSAGE])


def _timeout_message(timeout_s: float) -> str:
    limit = f"{timeout_s:g} s, the limit of runtime.timeout_s"
    return f"The job ran for {limit}; a retry has the same limit."


def _crash(trainer_exit: TrainerExit) -> Failure:
    """Why a process ended without a final frame.

    A library that ends the process itself, such as C++ code without memory, says why in the log.
    """
    last_line = f" Its last log line: “{trainer_exit.last_line}”." if trainer_exit.last_line else ""
    allocation = allocation_failure(trainer_exit.log_tail)
    if allocation is not None and -trainer_exit.exit_code not in (signal.SIGKILL, signal.SIGTERM):
        message = (
            "The trainer process ended because an allocation of memory failed: "
            f"“{allocation}”. Lower data.batch_size, use a smaller model or less data, or allow "
            "trainers more memory."
        )
        return Failure(Reason.OUT_OF_MEMORY, message)
    if trainer_exit.exit_code >= 0:
        sentence = (
            f"The trainer process exited with code {trainer_exit.exit_code} and reported no result."
        )
        return Failure(Reason.INTERNAL_ERROR, sentence + last_line)
    if trainer_exit.exit_code == -signal.SIGKILL and trainer_exit.oom_killed:
        message = (
            "The system killed the trainer process because the machine ran out of memory. Lower "
            "data.batch_size, use a smaller model or less data, or give workers more memory."
        )
        return Failure(Reason.OUT_OF_MEMORY, message)
    killed = f"The trainer process was killed by {_signal_name(-trainer_exit.exit_code)}."
    return Failure(Reason.PROCESS_KILLED, killed + last_line)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"

"""How an attempt ended, and what is written down about it."""

import signal
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy.orm import Session

from ampcore.series.frames import Frame, FrameType
from ampcore.spec import Reason
from store import attempts
from worker.halts import Halt


class Outcome(StrEnum):
    """What an attempt comes to, as far as its worker knows."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PAUSED = "paused"
    HANDED_BACK = "handed_back"


@dataclass(frozen=True)
class End:
    """What is to be written about an attempt whose process is gone."""

    outcome: Outcome
    reason: Reason | None = None
    message: str | None = None
    summary: dict[str, Any] | None = None

    def write(self, session: Session, job_id: str, attempt: int) -> None:
        """Write it; a cancel that was asked for in the meantime wins."""
        match self.outcome:
            case Outcome.SUCCEEDED:
                attempts.mark_succeeded(session, job_id, attempt, self.summary or {})
            case Outcome.FAILED:
                reason, message = self.reason or Reason.INTERNAL_ERROR, self.message or ""
                attempts.mark_failed(session, job_id, attempt, reason, message)
            case Outcome.PAUSED:
                attempts.mark_paused(session, job_id, attempt)
            case Outcome.HANDED_BACK:
                attempts.hand_back(session, job_id, attempt)
            case Outcome.CANCELLED:
                attempts.mark_cancelled(session, job_id, attempt)


@dataclass(frozen=True)
class Ending:
    """How a trainer process ended: its last word, its exit code, and who stopped it."""

    frame: Frame | None
    exit_code: int
    halt: Halt | None = None
    last_line: str = ""
    """Of what it printed."""
    memory_ran_out: bool = False
    """The system has killed a process for its memory in that moment."""

    def __str__(self) -> str:
        said = self.frame.type if self.frame is not None else "nothing"
        stopped = f", stopped since {self.halt.value}" if self.halt is not None else ""
        return f"it said {said}, exit code {self.exit_code}{stopped}"


def judge(ending: Ending, timeout_s: float | None) -> End | None:
    """What an ending comes to; None when nothing can be written any more."""
    match ending:
        case Ending(halt=Halt.FENCED | Halt.SELF_FENCE):
            return None
        case Ending(frame=Frame(type=FrameType.SUCCEEDED, header=header)):
            return End(Outcome.SUCCEEDED, summary=header["summary"])
        case Ending(halt=Halt.CANCEL):
            return End(Outcome.CANCELLED)
        case Ending(frame=Frame(type=FrameType.FAILED, header=header)):
            return End(Outcome.FAILED, Reason(header["reason"]), header["message"])
        case Ending(halt=Halt.TIMEOUT):
            return End(Outcome.FAILED, Reason.TIMEOUT, _timed_out(timeout_s or 0))
        case Ending(halt=Halt.PAUSE):
            return End(Outcome.PAUSED)
        case Ending(halt=Halt.SHUTDOWN):
            return End(Outcome.HANDED_BACK)
        case Ending(frame=Frame(type=FrameType.STOPPED)):
            message = "The trainer process was told to stop by SIGTERM, and not by its worker."
            return End(Outcome.FAILED, Reason.PROCESS_KILLED, message)
        case _:
            return End(Outcome.FAILED, *_unexplained(ending))


def broken(error: Exception) -> End:
    """The end of an attempt that the worker could not run."""
    message = f"The worker could not run the job: {type(error).__name__}: {error}"
    return End(Outcome.FAILED, Reason.INTERNAL_ERROR, message)


def _timed_out(timeout_s: float) -> str:
    return (
        f"It was on a worker for {timeout_s:g} s, as long as runtime.timeout_s allows. "
        "A retry goes on from its last checkpoint, for as long again."
    )


def _unexplained(ending: Ending) -> tuple[Reason, str]:
    """The reason and the message for a process that ended without a last word."""
    said = f" Its log ends with: {ending.last_line}" if ending.last_line else ""
    if ending.exit_code >= 0:
        ended = f"The trainer process ended with exit code {ending.exit_code} and no result."
        return Reason.INTERNAL_ERROR, ended + said
    if ending.exit_code == -signal.SIGKILL and ending.memory_ran_out:
        return Reason.OUT_OF_MEMORY, (
            "The system killed the trainer process since the machine's memory ran out: lower "
            "data.batch_size, take a smaller model or less data, or give workers more memory."
        )
    killed = f"The trainer process was killed by {_name(-ending.exit_code)}."
    return Reason.PROCESS_KILLED, killed + said


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"

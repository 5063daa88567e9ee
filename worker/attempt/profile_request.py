"""Forwards requests for a profile from the server to the trainer, each once."""

import logging
from collections.abc import Sequence
from typing import Final

from ampspec.telemetry.events import NO_PROFILE, PROFILE_NOT_TAKEN, Event, EventType
from ampspec.telemetry.frames import Frame, FrameType
from store.jobs.jobs import profile_steps
from worker.trainer.trainer_process import TrainerProcess

log = logging.getLogger(__name__)

MESSAGE: Final = "profile"
"""The key of the message to the trainer."""


class ProfileForwarder:
    """Remembers which request the trainer of one attempt has received.

    A request stays in the job's row until another one replaces it, or the attempt ends: so the
    worker writes nothing. One that the trainer has not answered when it ends is said to be lost:
    the next attempt does not repeat it, since the profile may be what ended this one.
    """

    def __init__(self) -> None:
        self._forwarded: str | None = None
        self._is_answered = True

    def forward(self, requested: str | None, process: TrainerProcess) -> None:
        """Send a new request to the trainer.

        Args:
            requested: What the last heartbeat has read; other requests are ignored.
            process: The trainer.
        """
        steps = profile_steps(requested)
        if steps is None or requested == self._forwarded:
            return
        self._forwarded, self._is_answered = requested, False
        log.info("a profile of %d steps was requested", steps)
        process.send({MESSAGE: {"steps": steps}})

    def read_answer(self, frames: Sequence[Frame]) -> None:
        """Look for the trainer's answer: a report, or why there is none."""
        self._is_answered = self._is_answered or any(map(_is_answer, frames))

    def unanswered_request(self) -> Event | None:
        """After the end of the trainer: the event for a request that it has not answered."""
        if self._is_answered:
            return None
        message = "The attempt ended before the requested profile was taken; request it again."
        return Event.warning(PROFILE_NOT_TAKEN, message)


def _is_answer(frame: Frame) -> bool:
    if frame.type is not FrameType.EVENT:
        return False
    is_report = frame.header["event"] == EventType.PROFILE
    return is_report or frame.header["data"].get("code") in NO_PROFILE

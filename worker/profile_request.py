"""Forwards requests for a profile from the server to the trainer, each once."""

import logging
from typing import Final

from store.jobs import profile_steps
from worker.trainer_process import TrainerProcess

log = logging.getLogger(__name__)

MESSAGE: Final = "profile"
"""The key of the message to the trainer."""


class ProfileForwarder:
    """Remembers which request the trainer of one attempt has received.

    A request stays in the job's row until another one replaces it, or the attempt ends: so the
    worker writes nothing, and a lost request costs only its profile.
    """

    def __init__(self) -> None:
        self._forwarded: str | None = None

    def forward(self, requested: str | None, process: TrainerProcess) -> None:
        """Send a new request to the trainer.

        Args:
            requested: What the last heartbeat has read; other requests are ignored.
            process: The trainer.
        """
        steps = profile_steps(requested)
        if steps is None or requested == self._forwarded:
            return
        self._forwarded = requested
        log.info("a profile of %d steps was requested", steps)
        process.send({MESSAGE: {"steps": steps}})

"""User ids for trainers of a root worker: each trainer on this machine has its own.

A trainer with its own user cannot signal or trace other processes, has its own limit on processes,
and every process that it started can be found and ended.
"""

import errno
import socket
from collections.abc import Iterable


class TrainerUser:
    """A user id that no other trainer on this machine runs as until it is released."""

    def __init__(self, number: int, claim: socket.socket) -> None:
        self.number = number
        self._claim = claim

    def release(self) -> None:
        """Make the id available again, after all of its processes have ended."""
        self._claim.close()


def claim_user(numbers: Iterable[int]) -> TrainerUser:
    """Claim the first free user id. Raises OSError when none is free.

    A claim is a bound abstract socket: the kernel allows one per name on a machine, and releases
    it when this worker ends, however that happens.
    """
    for number in numbers:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0ampcore-trainer-user-{number}")
        except OSError as error:
            claim.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return TrainerUser(number, claim)
    raise OSError(errno.EAGAIN, "all users of AMPCORE_TRAINER_USERS are in use")

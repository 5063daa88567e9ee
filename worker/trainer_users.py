"""Users that trainers run as, where the worker is root: one for each trainer on this machine.

So a trainer cannot signal or trace any other process, the limit of processes is its own, and
whatever it started can be found and ended.
"""

import errno
import socket
from collections.abc import Iterable


class TrainerUser:
    """A user that nobody else on this machine runs a trainer as, until it is released."""

    def __init__(self, number: int, claim: socket.socket) -> None:
        self.number = number
        self._claim = claim

    def release(self) -> None:
        """All of its processes have ended."""
        self._claim.close()


def claim_user(numbers: Iterable[int]) -> TrainerUser:
    """The first user that is free. Raises OSError when none is.

    The claim is a name in the kernel's list of abstract sockets: it falls with this worker,
    however that ends, and no two workers of a machine have the same one.
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
    raise OSError(errno.EAGAIN, "every user of AMPCORE_TRAINER_USERS runs a trainer already")

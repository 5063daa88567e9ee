"""The control channel of a job: rank 0 has a connection to every other rank.

The ranks agree through it on what they do between compiled functions. Each rank sends a heartbeat,
so that one that was killed is noticed at once, and one that was suspended or cut off soon; everyone
learns which rank it was. TensorFlow's collectives alone would only time out.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

from ampcore.distributed.control.messages import PeerConnection
from ampspec.documents.text import join_names, plural
from ampspec.errors import RankDisconnected, RankFailed, TrainingError
from ampspec.jobs import Reason

HEARTBEATS_PER_LIMIT: Final = 8
MAX_HEARTBEAT_S: Final = 1.0
NAMING_S: Final = 2.0
"""How long rank 0 waits for the other ranks' timeouts before it names those that have none."""
MAX_PHASE_S: Final = 6 * 3600.0
"""How long a rank that computes may keep the others waiting between two exchanges."""
WAIT_POLL_S: Final = 0.5


@dataclass(frozen=True)
class _Activity:
    """What a rank says of its training with each heartbeat."""

    idle_s: float = 0.0
    """For how long its process has done nothing."""
    waits: bool = False
    """Whether it waits for a message of another rank."""


class ControlChannel:
    """The connections of one rank to the others.

    Args:
        rank: The number of this rank.
        size: The number of ranks.
        connections: By rank: those of rank 0 to all others, that of another rank to rank 0.
        timeout_s: The time limit of the collectives, for messages.
        silence_limit_s: A rank that has sent nothing for so long is lost; the connections have this
            timeout.
        on_failure: Called once, in any thread, with a message when a rank is lost or has failed.
        idle_s: For how many seconds this process has done nothing.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        connections: Mapping[int, PeerConnection],
        *,
        timeout_s: float,
        silence_limit_s: float,
        on_failure: Callable[[str], None],
        idle_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.is_exchanging: Callable[[], bool] = lambda: False
        """Whether this rank waits for the others in an exchange, which has a timeout of its own."""
        self._rank, self._size = rank, size
        self._timeout_s, self._silence_limit_s = timeout_s, silence_limit_s
        self._connections = dict(connections)
        self._on_failure, self._idle_s = on_failure, idle_s
        self._waits = False
        """Whether the training thread waits for another rank here."""
        self._activity: dict[int, _Activity] = {}
        """What each peer has last said of its training."""
        self._changed = threading.Condition()
        self._inboxes: dict[int, deque[Any]] = {peer: deque() for peer in connections}
        self._disconnected_ranks: set[int] = set()
        """The ranks that have disconnected after their last step."""
        self._timed_out: set[int] = set()
        """The ranks whose communication timed out."""
        self._failure: TrainingError | None = None
        self._closed = threading.Event()
        for peer in connections:
            threading.Thread(target=self._receive_all, args=[peer], daemon=True).start()
        threading.Thread(target=self._send_heartbeats, daemon=True).start()

    def broadcast(self, value: Any) -> Any:
        """What rank 0 passes. Raises RankDisconnected and RankFailed."""
        self._check()
        if self._rank != 0:
            return self._next(0)
        self._send_to_all({"object": value})
        return value

    def all_gather(self, value: Any) -> list[Any]:
        """What each rank passes, in order of rank. Raises RankDisconnected and RankFailed."""
        self._check()
        if self._rank != 0:
            self._send(0, {"object": value})
            values_of_ranks: list[Any] = self._next(0)
            return values_of_ranks
        values = [value, *(self._next(peer) for peer in range(1, self._size))]
        self._send_to_all({"object": values})
        return values

    def failure(self, wait_s: float = 0.0) -> TrainingError | None:
        """Which rank was lost or failed, once it is known; None if it is not known in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None, wait_s)
            return self._failure

    def report_timeout(self) -> None:
        """Report that the communication of this rank timed out, so that rank 0 finds the cause."""
        if self._rank == 0:
            self._note_timeout(0)
        else:
            self._send(0, {"timed_out": True})

    def close(self, failure: TrainingError | None = None) -> None:
        """Tell the others that this rank ends, and why if it fails; then close."""
        if failure is not None and not isinstance(failure, RankDisconnected | RankFailed):
            message = {"failed": self._rank, "reason": failure.reason, "message": str(failure)}
            self._send_to_all(message)
        elif failure is None:
            self._send_to_all({"leaves": True})
        self._closed.set()
        for connection in self._connections.values():
            connection.close()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _next(self, peer: int) -> Any:
        """The next object of a rank."""
        inbox = self._inboxes[peer]
        self._waits = True
        try:
            self._wait_for(peer, lambda: inbox or self._failure or peer in self._disconnected_ranks)
        finally:
            self._waits = False
        if inbox:
            return inbox.popleft()
        self._check()
        error = RankDisconnected(f"Rank {peer} has ended before the others.", (peer,))
        self._announce_lost(error)
        raise error

    def _wait_for(self, peer: int, condition: Callable[[], object]) -> None:
        """Wait for a message of a rank as long as that rank makes progress; else it is lost."""
        # Polls are counted rather than seconds: this process may have been suspended meanwhile.
        waited_s = 0.0
        while True:
            with self._changed:
                if self._changed.wait_for(condition, WAIT_POLL_S):
                    return
            waited_s += WAIT_POLL_S
            if (problem := self._hang_of(peer, waited_s)) is not None:
                self._lose(peer, problem)

    def _hang_of(self, peer: int, waited_s: float) -> str | None:
        """Why a rank that sends heartbeats is lost all the same; None while it makes progress."""
        activity = self._activity.get(peer, _Activity())
        # Rank 0 may wait for a third rank. The others wait for rank 0 only: then nobody goes on.
        if activity.waits and self._rank != 0:
            return None
        if min(waited_s, activity.idle_s) >= self._timeout_s:
            seconds = plural(round(self._timeout_s), "second")
            return f"its training has done nothing for {seconds}, although its process lives"
        if waited_s >= max(MAX_PHASE_S, self._timeout_s):
            return f"it has taken part in nothing for {waited_s:g} s"
        return None

    def _send(self, peer: int, message: dict[str, Any]) -> None:
        try:
            self._connections[peer].send(message)
        except OSError as error:
            if peer not in self._disconnected_ranks:
                self._lose(peer, f"the connection to it is broken ({error})")

    def _send_to_all(self, message: dict[str, Any]) -> None:
        for peer in self._connections:
            self._send(peer, message)

    def _send_heartbeats(self) -> None:
        pause_s = min(MAX_HEARTBEAT_S, self._silence_limit_s / HEARTBEATS_PER_LIMIT)
        while not self._closed.wait(pause_s):
            idle_s = self._idle_s()
            activity = _Activity(0.0 if self.is_exchanging() else idle_s, waits=self._waits)
            self._send_to_all({"alive": asdict(activity)})

    def _receive_all(self, peer: int) -> None:
        self._receive(peer)
        self._connections[peer].release()

    def _receive(self, peer: int) -> None:
        """Read the messages of another rank until it ends."""
        try:
            while (message := self._connections[peer].receive()) is not None:
                self._handle(peer, message)
                if peer in self._disconnected_ranks:
                    return
            problem = "its process ended, or its machine closed the connection"
        except TimeoutError:
            problem = f"it has sent nothing for {self._silence_limit_s:g} s"
        except (OSError, ValueError, TypeError, KeyError) as error:
            problem = f"the connection to it is broken ({error})"
        if not self._closed.is_set():
            self._lose(peer, problem)

    def _handle(self, peer: int, message: dict[str, Any]) -> None:
        if "object" in message:
            with self._changed:
                self._inboxes[peer].append(message["object"])
                self._changed.notify_all()
        elif "leaves" in message:
            with self._changed:
                self._disconnected_ranks.add(peer)
                self._changed.notify_all()
        elif "failed" in message:
            rank, text = message["failed"], message["message"]
            self._fail(RankFailed(rank, Reason(message["reason"]), text), message)
        elif "lost" in message:
            self._fail(RankDisconnected(message["message"], tuple(message["lost"])), message)
        elif isinstance(activity := message.get("alive"), dict):
            self._activity[peer] = _Activity(float(activity["idle_s"]), bool(activity["waits"]))
        elif "timed_out" in message:
            self._note_timeout(peer)

    def _lose(self, peer: int, problem: str) -> None:
        self._announce_lost(RankDisconnected(f"Rank {peer} was lost: {problem}.", (peer,)))

    def _announce_lost(self, error: RankDisconnected) -> None:
        self._fail(error, {"lost": list(error.ranks), "message": str(error)})

    def _fail(self, failure: TrainingError, message: dict[str, Any]) -> None:
        """End the communication of this rank; rank 0 passes the message on."""
        with self._changed:
            if self._failure is not None or self._closed.is_set():
                return
            self._failure = failure
            self._changed.notify_all()
        if self._rank == 0:
            for connection in self._connections.values():
                with suppress(OSError):
                    connection.send(message)
        self._on_failure(str(failure))

    def _note_timeout(self, peer: int) -> None:
        with self._changed:
            is_first = not self._timed_out
            self._timed_out.add(peer)
        if is_first:
            threading.Thread(target=self._name_hanging_ranks, daemon=True).start()

    def _name_hanging_ranks(self) -> None:
        """After the first timeout: the ranks that wait for no one are those that hang."""
        time.sleep(NAMING_S)
        waiting = f"within {plural(round(self._timeout_s), 'second')}"
        missing = tuple(rank for rank in range(self._size) if rank not in self._timed_out)
        if missing:
            names = join_names([f"rank {rank}" for rank in missing])
            text = f"The communication did not end {waiting}: {names} did not take part."
        else:
            text = f"The communication did not end {waiting}, although all ranks took part."
        self._announce_lost(RankDisconnected(text, missing))

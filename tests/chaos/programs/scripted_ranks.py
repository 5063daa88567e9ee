"""The ranks of a scripted trainer: rank 0 agrees with the others before each block, over TCP.

It imports only the standard library.
"""

import select
import socket
import time
from collections.abc import Callable
from typing import Any

TRAIN, STOP, END = b"T", b"S", b"E"
ASK = b"?"
CONNECT_POLL_S = 0.05
ANSWER_POLL_S = 0.5


class RankLost(Exception):
    """A rank has ended, or did not answer in time."""


class Ranks:
    """The connections between rank 0 and the others, which make each step together.

    `proxy` is the port of a proxy of the test, through which the others reach rank 0. `is_over`
    says whether the time is over for which rank 0 waits for answers, however short it was.
    """

    def __init__(
        self, cluster: dict[str, Any], proxy: int | None, is_over: Callable[[], bool]
    ) -> None:
        self._is_over = is_over
        self.rank, self.size = int(cluster["rank"]), len(cluster["addresses"])
        self._timeout_s = float(cluster["timeout_s"])
        host, _, port = cluster["addresses"][0].rpartition(":")
        self._peers: dict[int, socket.socket] = {}
        try:
            if self.rank == 0:
                self._accept(int(port))
            else:
                self._peers[0] = self._connect(host, proxy or int(port))
        except OSError as error:
            raise RankLost(str(error)) from error

    def agree(self, decision: bytes) -> bytes:
        """By rank 0: what all ranks do next; STOP if one of them was asked to stop."""
        for peer in self._peers:
            self._send(peer, ASK)
        answers = [self._answer(peer) for peer in self._peers]
        if STOP in answers:
            decision = STOP
        for peer in self._peers:
            self._send(peer, decision)
        return decision

    def follow(self, is_stopped: bool) -> bytes:
        """By the other ranks: wait for rank 0, and return what all ranks do next."""
        self._receive(0)
        self._send(0, STOP if is_stopped else TRAIN)
        return self._receive(0)

    def _accept(self, port: int) -> None:
        with socket.create_server(("", port)) as listener:
            listener.settimeout(self._timeout_s)
            while len(self._peers) < self.size - 1:
                peer, _ = listener.accept()
                peer.settimeout(self._timeout_s)
                self._peers[int.from_bytes(peer.recv(2), "big")] = peer

    def _connect(self, host: str, port: int) -> socket.socket:
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                peer = socket.create_connection((host, port), self._timeout_s)
                break
            except ConnectionRefusedError:  # rank 0 does not listen yet
                if time.monotonic() > deadline:
                    raise
                time.sleep(CONNECT_POLL_S)
        peer.sendall(self.rank.to_bytes(2, "big"))
        return peer

    def _send(self, peer: int, message: bytes) -> None:
        try:
            self._peers[peer].sendall(message)
        except OSError as error:
            raise RankLost(f"Rank {peer} has ended.") from error

    def _answer(self, peer: int) -> bytes:
        """The answer of a rank, unless the time for it is over before."""
        deadline = time.monotonic() + self._timeout_s
        while not select.select([self._peers[peer]], [], [], ANSWER_POLL_S)[0]:
            if self._is_over() or time.monotonic() > deadline:
                raise RankLost(f"Rank {peer} did not answer in {self._timeout_s:g} s.")
        return self._receive(peer)

    def _receive(self, peer: int) -> bytes:
        try:
            found = self._peers[peer].recv(1)
        except TimeoutError as error:
            raise RankLost(f"Rank {peer} did not answer in {self._timeout_s:g} s.") from error
        except OSError as error:
            raise RankLost(f"Rank {peer} has ended.") from error
        if not found:
            raise RankLost(f"Rank {peer} has ended.")
        return found

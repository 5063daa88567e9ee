"""Rank 0 accepts the other ranks, whoever else connects to its port."""

import json
import socket
import struct
import threading
from contextlib import ExitStack

import pytest

from ampcore.distributed.control import greetings
from ampcore.distributed.control.greetings import Greetings, greet
from ampcore.distributed.control.messages import PeerConnection
from tests.waiting import DEADLINE_S, join, wait_until

TOKEN = b"a secret of 16 b"


@pytest.fixture
def rank_0():
    """Waits for two other ranks in a thread; `connect` opens a connection to it."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))

        class Rank0:
            greetings = Greetings(listener, 3, TOKEN, DEADLINE_S)
            found: dict[int, PeerConnection]

            def connect(self):
                return stack.enter_context(
                    socket.create_connection(listener.getsockname(), DEADLINE_S)
                )

            def run(self, timeout_s=DEADLINE_S):
                self.found = self.greetings.wait(timeout_s)

            def start(self):
                self.thread = threading.Thread(target=self.run)
                self.thread.start()

        waiting = Rank0()
        yield waiting
        for connection in waiting.found.values():
            connection.release()


def greet_as(rank_0, rank, token=TOKEN):
    connection = PeerConnection(rank_0.connect(), DEADLINE_S)
    greet(connection, rank, token)
    return connection


def is_closed(connection):
    """Whether rank 0 closes a connection, which sends a reset if something was not read."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_silent_connections_do_not_delay_the_ranks(rank_0, monkeypatch):
    """Before, each of them was waited for, one after the other: the ranks were lost meanwhile."""
    monkeypatch.setattr(greetings, "GREETING_S", DEADLINE_S)
    silent = [rank_0.connect() for _ in range(3)]
    for number, connection in enumerate(silent):
        connection.sendall(b"\0" * number)  # a message that does not go on
    rank_0.start()
    connections = [greet_as(rank_0, rank) for rank in (2, 1)]
    join(rank_0.thread)
    assert sorted(rank_0.found) == [1, 2]
    for rank, connection in zip((2, 1), connections, strict=True):
        rank_0.found[rank].send({"rank": rank})
        assert connection.receive() == {"rank": rank}


def test_more_silent_connections_than_may_greet_are_closed_and_the_ranks_accepted(
    rank_0, monkeypatch
):
    # The ranks' greetings have arrived before they are read, which takes far less than this.
    monkeypatch.setattr(greetings, "GREETING_S", 1.0)
    rank_0.greetings._places = threading.BoundedSemaphore(2)
    silent = [rank_0.connect() for _ in range(4)]
    connections = [greet_as(rank_0, rank) for rank in (1, 2)]
    rank_0.start()
    join(rank_0.thread)
    assert sorted(rank_0.found) == [1, 2]
    assert all(map(is_closed, silent))
    assert len(connections) == 2


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("!I", 2**28),
        struct.pack("!I", 900) + b"[" * 900,
        *(
            struct.pack("!I", len(text)) + text
            for text in (
                json.dumps(message).encode()
                for message in (
                    {"rank": 1, "token": "00" * 16},
                    {"rank": 3, "token": TOKEN.hex()},
                    {"rank": 0, "token": TOKEN.hex()},
                    {"rank": True, "token": TOKEN.hex()},
                    {"rank": 1},
                    {"rank": 1, "token": 5},
                    [],
                )
            )
        ),
    ],
)
def test_a_connection_without_the_token_and_a_rank_is_closed(rank_0, data):
    stranger = rank_0.connect()
    stranger.sendall(data)
    rank_0.start()
    assert is_closed(stranger)
    ranks = [greet_as(rank_0, rank) for rank in (1, 2)]
    join(rank_0.thread)
    assert sorted(rank_0.found) == [1, 2]
    assert len(ranks) == 2


def test_a_second_connection_of_a_rank_is_closed(rank_0):
    first = greet_as(rank_0, 1)
    rank_0.start()
    wait_until(lambda: rank_0.greetings.missing() == [2], "rank 1 is accepted")
    second = greet_as(rank_0, 1)
    assert second.receive() is None
    other = greet_as(rank_0, 2)
    join(rank_0.thread)
    rank_0.found[1].send({"rank": 1})
    assert first.receive() == {"rank": 1}
    assert other is not None


def test_ranks_that_do_not_come_are_named(rank_0):
    rank_0.run(0.01)
    assert rank_0.greetings.missing() == [1, 2]

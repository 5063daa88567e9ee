"""The control channel between ranks: agreement, and who is lost. Over real sockets, one process."""

import socket
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from ampcore.distributed.control import channel as control
from ampcore.distributed.control.channel import ControlChannel
from ampcore.distributed.control.messages import PeerConnection
from ampspec.errors import CheckpointFailed, RankDisconnected, RankFailed, TrainingError
from ampspec.jobs import Reason
from tests.waiting import DEADLINE_S, join, wait_until


def connected_sockets():
    """Two ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname(), DEADLINE_S)
        other, _ = listener.accept()
    return one, other


class Ranks:
    """The channels of three ranks, and what each has been told about failures."""

    def __init__(self, size=3):
        pairs = [connected_sockets() for _ in range(size - 1)]
        self.failures = [[] for _ in range(size)]
        own = {
            rank: PeerConnection(pair[0], DEADLINE_S) for rank, pair in enumerate(pairs, start=1)
        }
        others = [{0: PeerConnection(pair[1], DEADLINE_S)} for pair in pairs]
        self.channels = [
            ControlChannel(
                rank,
                size,
                connections,
                timeout_s=DEADLINE_S,
                silence_limit_s=DEADLINE_S,
                on_failure=self.failures[rank].append,
            )
            for rank, connections in enumerate([own, *others])
        ]

    def call(self, method, values, ranks=(0, 1, 2)):
        """Call a method on several ranks at the same time; the results or errors by rank."""
        found = {}

        def run(rank, value):
            try:
                found[rank] = getattr(self.channels[rank], method)(value)
            except TrainingError as error:
                found[rank] = error

        threads = [
            threading.Thread(target=run, args=pair) for pair in zip(ranks, values, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            join(thread)
        return [found[rank] for rank in ranks]


@pytest.fixture
def ranks():
    made = Ranks()
    yield made
    for channel in made.channels:
        channel.close()


def test_all_ranks_get_what_rank_0_passes(ranks):
    value = {"steps": 5, "stop": False, "loss": 0.1}
    assert ranks.call("broadcast", [value, None, None]) == [value] * 3


def test_all_ranks_get_what_each_passes(ranks):
    for _ in range(3):
        assert ranks.call("all_gather", ["a", None, [2.5]]) == [["a", None, [2.5]]] * 3


def test_a_rank_that_closes_its_connection_is_lost_for_all(ranks):
    ranks.channels[2]._connections[0].close()
    errors = ranks.call("all_gather", [1, 2], ranks=(0, 1))
    for error in errors:
        assert isinstance(error, RankDisconnected)
        assert error.ranks == (2,)
        assert str(error).startswith("Rank 2 was lost: ")
    wait_until(lambda: ranks.failures[0] and ranks.failures[1], "both ranks to be told")


def test_a_rank_that_is_silent_is_lost():
    own, silent = connected_sockets()
    with silent:
        channel = ControlChannel(
            0,
            2,
            {1: PeerConnection(own, 0.2)},
            timeout_s=DEADLINE_S,
            silence_limit_s=0.2,
            on_failure=lambda message: None,
        )
        with pytest.raises(RankDisconnected, match=r"lost: it has sent nothing for 0\.2 s"):
            channel.all_gather(None)
        channel.close()


def test_a_failure_of_one_rank_ends_the_others_with_its_reason(ranks):
    failure = CheckpointFailed(Path("/data"), 10, 0, OSError(28, "No space left on device"))
    ranks.channels[1].close(failure)
    for rank in (0, 2):
        error = ranks.channels[rank].failure(DEADLINE_S)
        assert isinstance(error, RankFailed)
        assert (error.rank, error.reason) == (1, Reason.CHECKPOINT_FAILED)
        assert str(error).startswith("Rank 1 failed: Cannot save a checkpoint in /data")
        with pytest.raises(RankFailed):
            ranks.channels[rank].broadcast(None)


def test_the_rank_without_a_timeout_of_its_own_hangs(ranks, monkeypatch):
    def all_reported() -> bool:
        return ranks.channels[0]._timed_out == {0, 2}

    # Rank 0 gives the others some seconds to report theirs; here as long as it takes.
    clock = SimpleNamespace(sleep=lambda seconds: wait_until(all_reported))
    monkeypatch.setattr(control, "time", clock)
    for rank in (0, 2):
        ranks.channels[rank].report_timeout()
    for rank in range(3):
        failure = ranks.channels[rank].failure(DEADLINE_S)
        assert failure.ranks == (1,)
        assert "rank 1 did not take part" in str(failure)


def test_a_rank_that_took_leave_is_not_lost(ranks):
    ranks.channels[2].close()
    wait_until(lambda: 2 in ranks.channels[0]._disconnected_ranks, "the leave of rank 2")
    assert ranks.call("broadcast", [7, None], ranks=(0, 1)) == [7, 7]
    for error in ranks.call("all_gather", [1, 2], ranks=(0, 1)):
        assert "Rank 2 has ended before the others" in str(error)


def test_a_message_that_is_no_object_is_refused():
    one, other = connected_sockets()
    with one, other:
        connection = PeerConnection(one, DEADLINE_S)
        other.sendall(b"\0\0\0\2[]")
        with pytest.raises(ValueError, match="message: expected an object; received list"):
            connection.receive()
        other.sendall(b"\xff\xff\xff\xff")
        with pytest.raises(ValueError, match="message: expected at most"):
            connection.receive()


@pytest.fixture
def waited(monkeypatch):
    """Lets seconds of waiting pass at once; returns how many seconds rank 0 has waited so far."""
    monkeypatch.setattr(control, "WAIT_POLL_S", 0.01)
    seconds = [0.0]
    hang_of = ControlChannel._hang_of

    def counted(channel, peer, waited_s):
        if channel._rank == 0:
            seconds[0] = waited_s
        return hang_of(channel, peer, 100 * waited_s)

    monkeypatch.setattr(ControlChannel, "_hang_of", counted)
    return seconds


def let_idle(channel, idle_s):
    """Let a rank say that its process does nothing."""
    channel._idle_s = lambda: idle_s


def test_a_rank_that_does_nothing_is_lost_although_it_sends_heartbeats(ranks, waited):
    """Before, the others waited for it without an end."""
    let_idle(ranks.channels[1], 10 * DEADLINE_S)
    errors = ranks.call("all_gather", [0, 2], ranks=(0, 2))
    for error in errors:
        assert isinstance(error, RankDisconnected)
        assert error.ranks == (1,)
    assert "Rank 1 was lost: its training has done nothing for" in str(errors[0])


def test_rank_0_is_lost_for_the_others_if_it_does_nothing(ranks, waited):
    let_idle(ranks.channels[0], 10 * DEADLINE_S)
    [error] = ranks.call("broadcast", [None], ranks=(1,))
    assert error.ranks == (0,)


def test_a_rank_that_works_is_waited_for_longer_than_the_timeout(ranks, waited):
    channel = ranks.channels[0]
    channel._timeout_s = 1.0
    results = {}
    thread = threading.Thread(target=lambda: results.update(found=channel.all_gather(0)))
    thread.start()
    wait_until(lambda: 100 * waited[0] > 10 * channel._timeout_s, "rank 0 to have waited")
    ranks.call("all_gather", [1, 2], ranks=(1, 2))
    join(thread)
    assert results["found"] == [0, 1, 2]


def test_a_rank_that_waits_in_an_exchange_is_not_lost(ranks, waited):
    """An exchange has a timeout of its own, which finds the rank that is the cause."""
    channel = ranks.channels[0]
    channel._timeout_s = 1.0
    ranks.channels[1].is_exchanging = lambda: True
    let_idle(ranks.channels[1], 10 * DEADLINE_S)
    results = {}
    thread = threading.Thread(target=lambda: results.update(found=channel.all_gather(0)))
    thread.start()
    wait_until(lambda: 100 * waited[0] > 10 * channel._timeout_s, "rank 0 to have waited")
    ranks.call("all_gather", [1, 2], ranks=(1, 2))
    join(thread)
    assert results["found"] == [0, 1, 2]


def test_a_rank_that_waits_for_rank_0_does_not_lose_it_while_that_waits_for_another(ranks, waited):
    for channel in ranks.channels:
        channel._timeout_s = 1.0
    let_idle(ranks.channels[0], 10 * DEADLINE_S)  # it waits for rank 1, which works
    let_idle(ranks.channels[2], 10 * DEADLINE_S)
    results = {}

    def gather(rank):
        results[rank] = ranks.channels[rank].all_gather(rank)

    threads = [threading.Thread(target=gather, args=[rank]) for rank in (0, 2)]
    for thread in threads:
        thread.start()
    wait_until(lambda: 100 * waited[0] > 10.0, "rank 0 to have waited")
    ranks.call("all_gather", [1], ranks=(1,))
    for thread in threads:
        join(thread)
    assert results == {0: [0, 1, 2], 2: [0, 1, 2]}


def test_a_rank_that_works_without_an_end_is_lost_at_last(ranks, waited, monkeypatch):
    monkeypatch.setattr(control, "MAX_PHASE_S", 2 * DEADLINE_S)
    [error] = ranks.call("all_gather", [0], ranks=(0,))
    assert isinstance(error, RankDisconnected)
    assert "Rank 1 was lost: it has taken part in nothing for" in str(error)

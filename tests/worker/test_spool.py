import threading
from collections.abc import Callable
from typing import Any

from store.ingest import LogChunk
from tests.waiting import DEADLINE_S
from worker import spool as spools
from worker.spool import Spool, Waiting


def entry(text: str = "x", size_bytes: int = 1) -> Waiting:
    return Waiting(LogChunk("stdout", text), size_bytes)


def act() -> Waiting:
    return Waiting(lambda session: None, 0)


def texts(batch: list[Waiting] | None) -> list[str]:
    return [getattr(waiting.item, "text", "act") for waiting in batch or []]


def test_what_goes_in_comes_out_in_order_and_together() -> None:
    spool = Spool()
    spool.put([entry("1"), entry("2")])
    spool.put([entry("3")])
    assert texts(spool.take(0)) == ["1", "2", "3"]


def test_an_act_stands_alone_in_its_place() -> None:
    spool = Spool()
    spool.put([entry("1"), act(), act(), entry("2"), entry("3")])
    batches = []
    for _ in range(4):
        batches.append(texts(spool.take(0)))
        spool.done()
    assert batches == [["1"], ["act"], ["act"], ["2", "3"]]


def test_no_transaction_is_larger_than_it_should_be() -> None:
    spool = Spool()
    spool.put([entry(size_bytes=spools.BATCH_BYTES) for _ in range(2)])
    assert len(spool.take(0) or []) == 1
    many = Spool()
    many.put([entry() for _ in range(spools.BATCH_ITEMS + 1)])
    assert len(many.take(0) or []) == spools.BATCH_ITEMS


def test_silence_gives_an_empty_batch_and_the_end_gives_none() -> None:
    spool = Spool()
    assert spool.take(0.01) == []
    spool.put([entry("last")])
    spool.close()
    assert texts(spool.take(0)) == ["last"]
    assert spool.take(0) is None


def test_there_is_room_again_when_what_was_taken_is_committed() -> None:
    spool = Spool(room_bytes=10)
    assert spool.has_room
    spool.put([entry(size_bytes=10)])
    assert not spool.has_room
    spool.take(0)
    assert not spool.has_room
    spool.done()
    assert spool.has_room


def test_the_reader_waits_for_room() -> None:
    spool = Spool(room_bytes=1)
    spool.put([entry()])
    spool.take(0)
    threading.Timer(0.05, spool.done).start()
    spool.wait_for_room(DEADLINE_S)
    assert spool.has_room


def test_drained_means_committed() -> None:
    spool = Spool()
    assert spool.drained(0)
    spool.put([entry()])
    assert not spool.drained(0)
    spool.take(0)
    assert not spool.drained(0)
    spool.done()
    assert spool.drained(0)


def test_into_a_shut_one_nothing_goes(wait_until: Callable[..., Any]) -> None:
    spool = Spool(room_bytes=1)
    spool.put([entry()])
    spool.shut()
    spool.put([entry()])
    assert spool.has_room
    assert spool.drained(0)

import threading
from collections.abc import Callable
from typing import Any

from store.telemetry.ingest import LogChunk
from tests.waiting import DEADLINE_S
from worker.attempt import write_buffer
from worker.attempt.write_buffer import PendingWrite, WriteBuffer


def entry(text: str = "x", size_bytes: int = 1) -> PendingWrite:
    return PendingWrite(LogChunk("stdout", text), size_bytes)


def transaction() -> PendingWrite:
    return PendingWrite(lambda session: None, 0)


def texts(batch: list[PendingWrite] | None) -> list[str]:
    return [getattr(waiting.item, "text", "act") for waiting in batch or []]


def test_writes_are_taken_in_order_in_one_batch() -> None:
    buffer = WriteBuffer()
    buffer.put([entry("1"), entry("2")])
    buffer.put([entry("3")])
    assert texts(buffer.take_batch(0)) == ["1", "2", "3"]


def test_a_transaction_is_a_batch_of_its_own_in_order() -> None:
    buffer = WriteBuffer()
    buffer.put([entry("1"), transaction(), transaction(), entry("2"), entry("3")])
    batches = []
    for _ in range(4):
        batches.append(texts(buffer.take_batch(0)))
        buffer.batch_done()
    assert batches == [["1"], ["act"], ["act"], ["2", "3"]]


def test_batches_are_bounded_in_bytes_and_items() -> None:
    buffer = WriteBuffer()
    buffer.put([entry(size_bytes=write_buffer.BATCH_BYTES) for _ in range(2)])
    assert len(buffer.take_batch(0) or []) == 1
    many = WriteBuffer()
    many.put([entry() for _ in range(write_buffer.BATCH_ITEMS + 1)])
    assert len(many.take_batch(0) or []) == write_buffer.BATCH_ITEMS


def test_a_timeout_gives_an_empty_batch_and_the_end_gives_none() -> None:
    buffer = WriteBuffer()
    assert buffer.take_batch(0.01) == []
    buffer.put([entry("last")])
    buffer.close()
    assert texts(buffer.take_batch(0)) == ["last"]
    assert buffer.take_batch(0) is None


def test_a_commit_makes_room() -> None:
    buffer = WriteBuffer(capacity_bytes=10)
    assert buffer.has_room
    buffer.put([entry(size_bytes=10)])
    assert not buffer.has_room
    buffer.take_batch(0)
    assert not buffer.has_room
    buffer.batch_done()
    assert buffer.has_room


def test_wait_for_room_returns_after_a_commit() -> None:
    buffer = WriteBuffer(capacity_bytes=1)
    buffer.put([entry()])
    buffer.take_batch(0)
    threading.Timer(0.05, buffer.batch_done).start()
    buffer.wait_for_room(DEADLINE_S)
    assert buffer.has_room


def test_the_buffer_is_empty_only_after_the_commit() -> None:
    buffer = WriteBuffer()
    assert buffer.wait_until_empty(0)
    buffer.put([entry()])
    assert not buffer.wait_until_empty(0)
    buffer.take_batch(0)
    assert not buffer.wait_until_empty(0)
    buffer.batch_done()
    assert buffer.wait_until_empty(0)


def test_a_discarded_buffer_ignores_writes(wait_until: Callable[..., Any]) -> None:
    buffer = WriteBuffer(capacity_bytes=1)
    buffer.put([entry()])
    buffer.discard()
    buffer.put([entry()])
    assert buffer.has_room
    assert buffer.wait_until_empty(0)

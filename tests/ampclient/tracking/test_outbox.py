"""The outbox: entries stay in order, the newest ones stay, and a batch in flight is never lost."""

from hypothesis import given
from hypothesis import strategies as st

from ampclient.tracking.entries import PendingEntry
from ampclient.tracking.outbox import MAX_BATCH_BYTES, Outbox
from ampspec.api.runs import MAX_ENTRIES, MAX_STEPS


def entry(number, size_bytes=10, steps=1):
    return PendingEntry({"number": number}, size_bytes, number, steps, number + steps)


def numbers(batch):
    return [entry.document["number"] for entry in batch]


def test_a_batch_is_taken_again_until_it_is_confirmed():
    outbox = Outbox(1000)
    outbox.put(entry(0))
    assert numbers(outbox.take_batch()) == [0]
    outbox.put(entry(1))
    assert numbers(outbox.take_batch()) == [0]
    outbox.confirm_batch()
    assert numbers(outbox.take_batch()) == [1]


def test_a_batch_is_bounded_in_bytes_entries_and_steps():
    for size_bytes, steps, expected in (
        (MAX_BATCH_BYTES // 3, 1, 3),
        (1, MAX_STEPS // 4, 4),
        (1, 1, MAX_ENTRIES),
        (MAX_BATCH_BYTES * 2, 1, 1),
    ):
        outbox = Outbox(10**9)
        for number in range(MAX_ENTRIES + 10):
            outbox.put(entry(number, size_bytes, steps))
        assert len(outbox.take_batch()) == expected


def test_the_oldest_entries_are_dropped_and_counted():
    outbox = Outbox(30)
    assert all(outbox.put(entry(number)) for number in range(3))
    assert not outbox.put(entry(3))
    assert not outbox.put(entry(4))
    dropped = outbox.take_dropped()
    assert str(dropped) == "2 steps between step 0 and 1"
    assert not str(outbox.take_dropped())
    assert numbers(outbox.take_batch()) == [2, 3, 4]


def test_an_entry_larger_than_the_outbox_is_kept_alone():
    outbox = Outbox(30)
    outbox.put(entry(0))
    outbox.put(entry(1, size_bytes=100))
    assert numbers(outbox.take_batch()) == [1]


def test_a_discarded_outbox_stays_empty():
    outbox = Outbox(30)
    outbox.put(entry(0))
    outbox.discard()
    outbox.put(entry(1))
    assert (len(outbox), outbox.take_batch()) == (0, [])


@given(
    st.lists(st.sampled_from(["put", "take", "confirm"]), max_size=60),
    st.integers(10, 60),
)
def test_entries_arrive_once_in_order_and_only_those_not_in_flight_are_dropped(actions, capacity):
    outbox, sent, put, in_flight = Outbox(capacity), [], 0, []
    for action in actions:
        if action == "put":
            outbox.put(entry(put))
            put += 1
        elif action == "take":
            in_flight = numbers(outbox.take_batch())
        elif in_flight:
            assert numbers(outbox.take_batch()) == in_flight
            outbox.confirm_batch()
            sent += in_flight
            in_flight = []
    sent += [n for n in numbers(outbox.take_batch()) if n not in sent]
    outbox.confirm_batch()
    sent += numbers(outbox.take_batch())
    assert sent == sorted(set(sent))
    dropped = outbox.take_dropped()
    assert len(sent) + dropped.steps + dropped.records == put

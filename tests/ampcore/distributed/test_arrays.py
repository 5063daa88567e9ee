"""Arrays of rank 0 reach all ranks bit for bit, in pieces."""

import ml_dtypes
import numpy as np
import pytest

from ampcore.distributed import arrays
from ampcore.distributed.arrays import broadcast_arrays
from tests.ampcore.distributed.thread_communicator import on_ranks

GIVEN = {
    "scalar": np.array(3, np.uint8),
    "empty": np.zeros((0, 4), np.float32),
    "halves": np.array([1.5, np.nan, np.inf], np.float16),
    "flags": np.ones((2, 3), bool),
    "transposed": np.arange(12, dtype=np.int64).reshape(3, 4).T,
    "brain": np.array([[0.5, -2.0]], ml_dtypes.bfloat16),
}


@pytest.mark.parametrize("piece_bytes", [1, 7, 8, 2**20])
def test_arrays_of_any_dtype_arrive_bit_for_bit(monkeypatch, piece_bytes):
    monkeypatch.setattr(arrays, "PIECE_BYTES", piece_bytes)
    for found in on_ranks(3, lambda own: broadcast_arrays(own, None if own.rank else GIVEN)):
        assert list(found) == list(GIVEN)
        for name, array in GIVEN.items():
            assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
            assert found[name].tobytes() == array.tobytes()


def test_no_more_than_a_piece_is_sent_at_once(monkeypatch):
    monkeypatch.setattr(arrays, "PIECE_BYTES", 64)
    sent = []

    def run(communicator):
        broadcast = communicator.broadcast

        def observed(tensors, root=0):
            sent.extend(tensor.shape.num_elements() * tensor.dtype.size for tensor in tensors)
            return broadcast(tensors, root)

        communicator.broadcast = observed
        given = {str(number): np.full(25, number, np.float32) for number in range(5)}
        return broadcast_arrays(communicator, None if communicator.rank else given)

    on_ranks(2, run)
    assert sorted(sent) == [52] * 2 + [64] * 14


def test_the_others_can_change_what_they_received():
    def run(communicator):
        found = broadcast_arrays(communicator, None if communicator.rank else {"a": np.zeros(3)})
        found["a"] += communicator.rank
        return found["a"].tolist()

    assert on_ranks(2, run) == [[0.0] * 3, [1.0] * 3]


def test_nothing_is_sent_for_no_arrays():
    assert on_ranks(2, lambda own: broadcast_arrays(own, None if own.rank else {})) == [{}, {}]

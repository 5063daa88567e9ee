"""Ranks that are threads of one process and exchange tensors in memory, outside of functions."""

import threading
from concurrent.futures import ThreadPoolExecutor

import tensorflow as tf


class ThreadCommunicator:
    """One of several ranks; each thread has one."""

    def __init__(self, rank, size, meeting):
        self.rank, self.size, self._meeting = rank, size, meeting
        self.sent_bytes = 0

    def _all(self, tensors):
        """What each rank passes."""
        return self._meeting.exchange(self.rank, tensors)

    def all_reduce(self, tensors, op="mean"):
        columns = zip(*self._all(tensors), strict=True)
        reduce = {"max": tf.reduce_max, "sum": tf.reduce_sum, "mean": tf.reduce_mean}[op]
        return [reduce(tf.stack(column), axis=0) for column in columns]

    def all_gather(self, tensors, size_class=None):
        return [tf.concat(column, axis=0) for column in zip(*self._all(tensors), strict=True)]

    def all_to_all(self, tensors, size_class=None):
        self.sent_bytes += sum(each.numpy().nbytes for each in tensors)
        parts = [
            [tf.split(tensor, self.size)[self.rank] for tensor in column]
            for column in zip(*self._all(tensors), strict=True)
        ]
        return [tf.concat(part, axis=0) for part in parts]

    def broadcast(self, tensors, root=0):
        return self._all(tensors)[root]

    def broadcast_object(self, value):
        return self._all(value)[0]

    def all_gather_object(self, value):
        return self._all(value)


class Meeting:
    """Where the threads exchange what they pass."""

    def __init__(self, size):
        self._values = [None] * size
        self._barrier = threading.Barrier(size)

    def exchange(self, rank, value):
        self._values[rank] = value
        self._barrier.wait()
        found = list(self._values)
        self._barrier.wait()
        return found

    def abort(self):
        self._barrier.abort()


def on_ranks(size, function):
    """The results of a function of the ranks, which all ranks call at once."""
    meeting = Meeting(size)

    def run(rank):
        try:
            return function(ThreadCommunicator(rank, size, meeting))
        except BaseException:
            meeting.abort()  # the others would wait
            raise

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(run, rank) for rank in range(size)]
    errors = [future.exception() for future in futures]
    others = [error for error in errors if not isinstance(error, threading.BrokenBarrierError)]
    if first := next(filter(None, others), None):
        raise first
    return [future.result() for future in futures]

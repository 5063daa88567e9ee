"""The watch calls once when this rank waits for too long, in functions and outside of them."""

import threading

import pytest
import tensorflow as tf

from ampcore.distributed.control.exchange_watch import ExchangeWatch
from tests.waiting import DEADLINE_S


@pytest.fixture
def watch():
    """A watch with a short timeout, and an event that its call sets."""
    called = threading.Event()
    made = ExchangeWatch(0.05, called.set)
    yield made, called
    made.close()


def blocked_until(event):
    """An exchange that ends when the event is set."""

    def wait():
        assert event.wait(DEADLINE_S)
        return 7.0

    def exchange():
        if tf.executing_eagerly():
            return [tf.constant(wait())]
        found = tf.py_function(wait, [], tf.float32)
        found.set_shape([])
        return [found]

    return exchange


@pytest.mark.parametrize("compiled", [False, True])
def test_an_exchange_that_does_not_end_is_noticed(watch, compiled):
    watch, called = watch

    def run():
        return watch.exchanged([tf.constant(1.0)], blocked_until(called))[0]

    run = tf.function(run, autograph=False) if compiled else run
    assert run().numpy() == 7, "it waits until the watch has called"


def test_a_rank_that_computes_for_long_does_not_wait(watch):
    watch, _ = watch

    @tf.function(autograph=False)
    def run(value):
        return watch.exchanged([value], lambda: [value + 1])[0]

    for _ in range(3):
        run(tf.constant(1.0))
    watch.exchanged([tf.constant(1.0)], lambda: [tf.constant(2.0)])
    assert watch._progress() is None, "no exchange is in progress"

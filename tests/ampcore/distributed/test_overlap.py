"""A bucket is exchanged as soon as its gradients are computed: read from the graph of a loop."""

import pytest
import tensorflow as tf

from ampcore.distributed.collectives import CollectiveCommunicator, Collectives
from ampcore.distributed.compression import mean_in_16_bits
from ampcore.distributed.control.channel import ControlChannel
from ampcore.distributed.control.exchange_watch import ExchangeWatch
from tests.waiting import DEADLINE_S

SIZE = 2**16
"""Elements of each gradient; larger than what is reduced at once."""
LAYERS = 3


def loop_body(hint, exchange):
    """The operations of a loop that exchanges the gradients of a chain of layers, by name."""
    collectives = Collectives(0, 2, hint)
    control = ControlChannel(
        0, 1, {}, timeout_s=DEADLINE_S, silence_limit_s=DEADLINE_S, on_failure=lambda message: None
    )
    watch = ExchangeWatch(DEADLINE_S, control.report_timeout)
    communicator = CollectiveCommunicator(collectives, control, watch, bucket_bytes=4 * SIZE)
    weights = [tf.Variable(tf.zeros([SIZE]), name=f"layer{index}") for index in range(LAYERS)]

    @tf.function(autograph=False)
    def loop():
        def body(step):
            with tf.GradientTape() as tape:
                value = tf.ones([SIZE])
                for weight in weights:
                    value = tf.sin(value * weight)
            gradients = exchange(communicator, tape.gradient(value, weights))
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.assign_sub(gradient)
            return step + 1

        return tf.while_loop(lambda step: step < 2, body, [0])

    graph = loop.get_concrete_function().graph
    [name] = [one.get_attr("body").name for one in graph.get_operations() if one.type == "While"]
    communicator.close()
    return {one.name: one for one in graph._get_function(name).graph.get_operations()}


def order(operations, kind):
    """The operations of a type, in the order in which they were traced."""
    return [one for one in operations.values() if one.type == kind]


def all_before(operation):
    """The operations that this one waits for."""
    found, rest = set(), [operation]
    while rest:
        one = rest.pop()
        for before in [*(tensor.op for tensor in one.inputs), *one.control_inputs]:
            if before not in found:
                found.add(before)
                rest.append(before)
    return found


@pytest.mark.parametrize(
    ("kind", "exchange"),
    [
        ("CollectiveReduceV2", lambda communicator, gradients: communicator.all_reduce(gradients)),
        (
            "CollectiveAllToAllV2",
            lambda communicator, gradients: mean_in_16_bits(communicator, gradients, "bfloat16"),
        ),
    ],
)
def test_no_exchange_waits_for_another_one(kind, exchange):
    exchanges = order(loop_body("RING", exchange), kind)
    assert len(exchanges) == LAYERS
    for one in exchanges:
        assert not [before for before in all_before(one) if "Collective" in before.type]


def test_nccl_exchanges_the_last_layers_first():
    """All ranks must start the operations in the same order, each after the one before."""
    first, *others = order(
        loop_body("NCCL", lambda communicator, gradients: communicator.all_reduce(gradients)),
        "CollectiveReduceV2",
    )
    sines = [one for one in all_before(others[-1]) if one.type == "Cos"]
    assert len(sines) == LAYERS, "the derivatives of all layers"
    assert len([one for one in all_before(first) if one.type == "Cos"]) < LAYERS
    for before, after in zip([first, *others], others, strict=False):
        assert before in all_before(after)

"""Horovod's calls, with ranks that are objects of the test."""

import json
import socket
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcore import compat
from ampcore.compat import collectives
from ampcore.compat.session_server import SessionRanks
from ampcore.distributed import Cluster, environment
from ampcore.distributed.environment import CLUSTER

v1 = tf.compat.v1
INF = float("inf")


class OtherRank:
    """Two ranks as rank 0 sees them; the other one has 3 where this one has 1."""

    size, rank = 2, 0

    def __init__(self, *, other_is_finite: bool = True) -> None:
        self.calls: list[str] = []
        self._flag = 0.0 if other_is_finite else 1.0

    def all_reduce(self, tensors: Any, op: str = "mean") -> list[Any]:
        self.calls += [f"{op} of {len(tensors)}"]
        if op == "max":
            return [tf.maximum(tensor, self._flag) for tensor in tensors]
        return [tensor * 2 if op == "mean" else tensor * 4 for tensor in tensors]

    def all_gather(self, tensors: Any) -> list[Any]:
        self.calls += [f"gather of {len(tensors)}"]
        return [tf.concat([tensor, tensor], axis=0) for tensor in tensors]

    def broadcast(self, tensors: Any, root: int = 0) -> list[Any]:
        self.calls += [f"broadcast from {root}"]
        return [tensor * 3 for tensor in tensors]


@pytest.fixture
def ranks(monkeypatch) -> OtherRank:
    monkeypatch.setattr(collectives, "_process", collectives._Process())
    ranks = OtherRank()
    compat.init(ranks)
    return ranks


@pytest.fixture
def second_of_two(monkeypatch) -> None:
    """The environment of a rank; it is not connected."""
    monkeypatch.setattr(collectives, "_process", collectives._Process())
    cluster = {"addresses": ["127.0.0.1:1", "127.0.0.1:2"], "rank": 1, "local_rank": 1}
    monkeypatch.setenv(CLUSTER, json.dumps(cluster))


def step_with(optimizer: compat.LossScaleOptimizer) -> tuple[list[Any], list[Any]]:
    """Unscaled gradients of a table and of weights: all ones."""
    optimizer.get_scaled_loss(tf.constant(1.0))
    scale = float(optimizer.loss_scale)
    sparse = tf.IndexedSlices(tf.fill([1, 2], scale), tf.constant([1]), tf.constant([4, 2]))
    table_grads = optimizer.get_unscaled_gradients([sparse])
    return table_grads, optimizer.get_unscaled_gradients([tf.fill([2], scale)])


def test_a_single_rank_gets_the_same_objects_back():
    tensor, gathered = tf.ones([2]), tf.ones([2])
    assert compat.all_reduce(tensor) is tensor
    assert compat.all_gather(gathered) is gathered
    assert (compat.rank(), compat.size(), compat.local_rank()) == (0, 1, 0)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, 2.0),
        ({"average": True}, 2.0),
        ({"average": False}, 4.0),
        ({"op": "mean"}, 2.0),
        ({"op": "sum"}, 4.0),
        ({"op": "max"}, 1.0),
    ],
)
def test_all_reduce_averages_unless_it_is_told_otherwise(ranks, arguments, expected):
    assert float(compat.all_reduce(tf.constant(1.0), **arguments)) == expected


def test_a_list_is_reduced_in_one_call_and_none_stays(ranks):
    found = compat.all_reduce([tf.constant(1.0), None, tf.constant(2.0)])
    assert [None if value is None else float(value) for value in found] == [2.0, None, 4.0]
    assert ranks.calls == ["mean of 2"]


def test_a_sparse_gradient_gets_the_rows_of_all_ranks(ranks):
    sparse = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([3]), tf.constant([4, 2]))
    mean = compat.all_reduce(sparse)
    assert isinstance(mean, tf.IndexedSlices)
    assert (mean.indices.numpy().tolist(), mean.values.numpy()[0, 0]) == ([3, 3], 0.5)
    assert compat.all_reduce(sparse, average=False).values.numpy()[0, 0] == 1.0
    with pytest.raises(ValueError, match=r'"mean" or "sum" for tf.IndexedSlices'):
        compat.all_reduce(sparse, op="max")


def test_variables_get_the_values_of_one_rank(ranks):
    variables = [tf.Variable([1.0, 2.0]), keras.Variable(4.0)]
    compat.broadcast_variables(variables, root_rank=1)
    assert [np.array(variable).tolist() for variable in variables] == [[3.0, 6.0], 12.0]
    assert ranks.calls == ["broadcast from 1"]
    with pytest.raises(ValueError, match="root_rank: expected a rank from 0 to 1"):
        compat.broadcast_variables(variables, root_rank=2)


def test_a_single_rank_keeps_its_variables():
    assert compat.broadcast_variables([tf.Variable(1.0)]) is None
    with tf.Graph().as_default():
        assert isinstance(compat.broadcast_variables([]), tf.Operation)


def test_ranks_of_tf_2_are_not_used_in_a_session(ranks):
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="one in the other form"):
        compat.all_reduce(tf.constant(1.0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"average": True, "op": "sum"}, "Expected average or op"),
        ({"op": "Average"}, "op: expected one of mean, sum, max. Received: 'Average'"),
    ],
)
def test_wrong_operations_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        compat.all_reduce(tf.constant(1.0), **arguments)


def test_in_tf_2_dense_gradients_are_averaged_and_declared_local_ones_are_not(ranks):
    table, weights = tf.Variable(tf.zeros([4, 2])), tf.Variable([0.0, 0.0])
    optimizer = compat.LossScaleOptimizer(keras.optimizers.SGD(1.0))
    table_grads, grads = step_with(optimizer)
    optimizer.apply_gradients([(table_grads[0], table)], experimental_aggregate_gradients=False)
    optimizer.apply_gradients([(grads[0], weights)])
    assert table.numpy()[1].tolist() == [-1.0, -1.0]
    assert weights.numpy().tolist() == [-2.0, -2.0]
    assert ranks.calls == ["max of 1", "mean of 1"]


def test_reduced_gradients_are_not_averaged_again(ranks):
    weights = tf.Variable([0.0, 0.0])
    optimizer = compat.LossScaleOptimizer(keras.optimizers.SGD(1.0))
    _, grads = step_with(optimizer)
    optimizer.apply_gradients([(compat.all_reduce(grads[0], op="sum"), weights)])
    assert weights.numpy().tolist() == [-4.0, -4.0]
    assert ranks.calls == ["sum of 1", "max of 1"]


def test_sparse_gradients_need_a_word_whether_to_average_them(ranks):
    table = tf.Variable(tf.zeros([4, 2]))
    optimizer = compat.LossScaleOptimizer(keras.optimizers.SGD(1.0))
    table_grads, _ = step_with(optimizer)
    with pytest.raises(ValueError, match=r"aggregate_gradients: expected True or False .* 2 ranks"):
        optimizer.apply_gradients([(table_grads[0], table)])
    optimizer.apply_gradients([(table_grads[0], table)], experimental_aggregate_gradients=True)
    assert table.numpy()[1].tolist() == [-1.0, -1.0]
    assert ranks.calls == ["gather of 2", "max of 1"]


def test_newer_keras_2_names_the_opposite(ranks):
    weights = tf.Variable([0.0, 0.0])
    optimizer = compat.LossScaleOptimizer(keras.optimizers.SGD(1.0))
    _, grads = step_with(optimizer)
    optimizer.apply_gradients([(grads[0], weights)], skip_gradients_aggregation=True)
    assert weights.numpy().tolist() == [-1.0, -1.0]


@pytest.mark.parametrize("compiled", [lambda step: step, tf.function], ids=["eager", "function"])
def test_an_overflow_of_another_rank_skips_here(compiled):
    ranks = OtherRank(other_is_finite=False)
    table, weights = tf.Variable(tf.zeros([4, 2])), tf.Variable([0.0, 0.0])
    inner = keras.optimizers.SGD(1.0)
    optimizer = compat.LossScaleOptimizer(inner, ranks=ranks, initial_scale=8.0)

    def step() -> None:
        optimizer.get_scaled_loss(tf.constant(1.0))
        [grad] = optimizer.get_unscaled_gradients([tf.ones([2])])
        optimizer.apply_gradients([(tf.zeros([4, 2]), table)])
        optimizer.apply_gradients([(grad, weights)])

    compiled(step)()
    assert weights.numpy().tolist() == [0.0, 0.0]
    assert (int(optimizer.skipped_steps), float(optimizer.loss_scale)) == (1, 4.0)
    assert ranks.calls.count("max of 1") == ranks.calls.count("mean of 1") // 2 > 0


def test_in_a_session_gradients_stay_local_unless_the_loop_reduces_them():
    ranks = OtherRank()
    with tf.Graph().as_default():
        weights = v1.get_variable("weights", initializer=[0.0, 0.0])
        inner = v1.train.GradientDescentOptimizer(1.0)
        optimizer = compat.LossScaleOptimizer(inner, ranks=ranks)
        grads = tf.gradients(optimizer.get_scaled_loss(tf.reduce_sum(weights)), [weights])
        optimizer.apply_gradients(
            zip(optimizer.get_unscaled_gradients(grads), [weights], strict=True)
        )
    assert ranks.calls == ["max of 1"]


def test_several_ranks_must_be_connected(second_of_two):
    assert (compat.rank(), compat.size(), compat.local_rank()) == (1, 2, 1)
    with pytest.raises(RuntimeError, match=r"Expected a call of ampcore.compat.init\(\) .* rank 1"):
        compat.all_reduce(tf.constant(1.0))
    with (
        tf.Graph().as_default(),
        pytest.raises(RuntimeError, match="before the session, where its graph is the default"),
    ):
        compat.session()


@pytest.mark.parametrize("call", ["all_reduce", "all_gather", "broadcast"])
@pytest.mark.parametrize("soft", [False, True])
def test_an_ordinary_session_is_refused_instead_of_waiting_for_other_ranks(call, soft):
    cluster = Cluster(("127.0.0.1:1", "127.0.0.1:2"), rank=1)
    options = {"all_reduce": ["mean"], "all_gather": [], "broadcast": [0]}[call]
    with tf.Graph().as_default():
        [result] = getattr(SessionRanks(cluster), call)([tf.constant([1.0])], *options)
        with (
            v1.Session(config=v1.ConfigProto(allow_soft_placement=soft)) as session,
            pytest.raises(tf.errors.InvalidArgumentError, match="assigned to /job:worker/task:1"),
        ):
            session.run(result)


def test_a_rank_whose_port_is_taken_asks_for_another_start(monkeypatch, capsys):
    monkeypatch.setattr(collectives, "_process", collectives._Process())
    with socket.create_server(("", 0)) as taken:
        addresses = [f"127.0.0.1:{taken.getsockname()[1]}", "127.0.0.1:1"]
        monkeypatch.setenv(CLUSTER, json.dumps({"addresses": addresses, "rank": 0}))
        with tf.Graph().as_default(), pytest.raises(SystemExit) as ended:
            compat.init()
    assert ended.value.code == environment.ADDRESS_IN_USE
    assert f"Cannot listen on {addresses[0]}" in capsys.readouterr().err


def test_a_session_of_one_rank_is_an_ordinary_one():
    with tf.Graph().as_default():
        compat.init()
        total = compat.all_reduce(tf.constant([1.0, 2.0]), name="total")
        assert total.op.name == "total"
        with compat.session(config=v1.ConfigProto(allow_soft_placement=True)) as session:
            assert np.array_equal(session.run(total), [1.0, 2.0])


def tape_of(weight: Any, **options: Any) -> tuple[Any, Any]:
    """A distributed tape and a target with one dense and one sparse gradient, all ones."""
    with tf.GradientTape() as tape:
        target = tf.reduce_sum(weight) + tf.reduce_sum(tf.gather(weight, [1]))
    return compat.DistributedGradientTape(tape, **options), target


def test_a_distributed_tape_combines_gradients_in_their_nesting(ranks):
    weight, unused = tf.Variable([1.0, 2.0]), tf.Variable(1.0)
    tape, target = tape_of(weight, sparse_as_dense=True)
    grads = tape.gradient(target, {"weight": weight, "unused": unused})
    assert grads["unused"] is None
    assert grads["weight"].numpy().tolist() == [2.0, 4.0]
    assert ranks.calls == ["mean of 1"]


def test_a_distributed_tape_may_add_up(ranks):
    weight = tf.Variable([1.0, 2.0])
    tape, target = tape_of(weight, sparse_as_dense=True, op=compat.Sum)
    assert tape.gradient(target, weight).numpy().tolist() == [4.0, 8.0]


def test_gradients_of_a_distributed_tape_are_not_averaged_again(ranks):
    weight, table = tf.Variable([1.0]), tf.Variable(tf.ones([4, 1]))
    optimizer = compat.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=4.0)
    with compat.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = tf.reduce_sum(weight) + tf.reduce_sum(tf.gather(table, [3]))
        scaled = optimizer.get_scaled_loss(loss)
    grads = optimizer.get_unscaled_gradients(tape.gradient(scaled, [weight, table]))
    optimizer.apply_gradients(zip(grads, [weight, table], strict=True))
    assert ranks.calls == ["mean of 1", "gather of 2", "max of 1"]
    assert (float(weight[0]), float(table[3, 0])) == (-1.0, 0.0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"compression": compat.Compression.fp16}, ValueError, "compression: expected 'none'"),
        ({"op": "max"}, ValueError, "op: expected Average or Sum. Received: 'max'"),
        ({"device_dense": "/gpu:0"}, ValueError, "device_dense: expected ''"),
        ({"gradient_predivide_factor": 2.0}, ValueError, "gradient_predivide_factor: expected 1.0"),
        ({"num_groups": 2}, ValueError, "num_groups: expected 0"),
        ({"process_set": 1}, ValueError, "process_set: expected None"),
        ({"persistent": True}, TypeError, "Received: persistent"),
    ],
)
def test_what_a_distributed_tape_cannot_do_is_refused_by_name(arguments, error, message):
    with pytest.raises(error, match=message):
        compat.DistributedGradientTape(tf.GradientTape(), **arguments)


@pytest.mark.parametrize(
    "name",
    [
        *("DistributedOptimizer", "allreduce", "allgather", "broadcast", "callbacks", "join"),
        *("elastic", "local_size", "shutdown", "broadcast_global_variables", "Adasum"),
    ],
)
def test_a_name_of_horovod_says_what_to_write(name):
    with pytest.raises(AttributeError, match=f"ampcore.compat has no {name}. Write: "):
        getattr(compat, name)


def test_an_unknown_name_is_an_ordinary_error():
    with pytest.raises(AttributeError, match="has no attribute 'allreduces'"):
        compat.allreduces  # noqa: B018

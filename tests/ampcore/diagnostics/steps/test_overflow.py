"""The diagnostics find each cause of an overflow for a step that provokes it."""

import json
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcore import data, models
from ampcore.data import Batch, Signature
from ampcore.diagnostics.layer_outputs import layer_outputs
from ampcore.diagnostics.steps.overflow import OverflowDiagnostics
from ampcore.diagnostics.steps.overflow_cause import CauseDetails, OverflowCause, explain_cause
from ampcore.diagnostics.steps.replay import Replay
from ampcore.diagnostics.steps.skipped_step import BatchPosition, SkippedStep
from ampcore.models.seeds import step_seed
from ampcore.models.task import Network, Task
from ampcore.precision import DynamicLossScale, FixedLossScale, layer_policies
from ampcore.training.step.clip import Clip
from ampcore.training.step.loop import STOP_AT_SKIP, Loop
from ampcore.training.step.train_step import TrainStep
from ampspec.data.data import Digits
from ampspec.models.model import EmbeddingModel, Gan, LstmLm, Mlp, TransformerLm
from ampspec.precision.precision import Override, Precision

SIZE = 32
SEED = tf.constant([0, 7], tf.int64)
SMALL = Mlp(hidden=(16, 8), dropout=0.2)


@pytest.fixture(scope="module")
def digits():
    return data.load(Digits(validation_split=0.0))


@pytest.fixture(scope="module")
def batch(digits):
    return Batch(digits.train.arrays.x[:SIZE], digits.train.arrays.y[:SIZE])


@pytest.fixture(scope="module")
def position():
    return BatchPosition(epoch=2, batch=3, indices=np.arange(1000, 1000 + SIZE))


def build(spec, signature, policy="mixed_float16", overrides=()):
    precision = Precision(policy=policy, overrides=overrides)
    return models.build(spec, signature, layer_policies(precision))


@pytest.fixture(scope="module")
def case(digits):
    """A small network in mixed_float16 with the diagnostics of its skips; tests share them."""
    task = build(SMALL, digits.signature)
    replay = Replay(task, [FixedLossScale()])
    diagnostics = OverflowDiagnostics(replay)
    return SimpleNamespace(
        task=task, model=task.networks[0].model, replay=replay, diagnostics=diagnostics
    )


@pytest.fixture
def mlp(case):
    """The same; its weights are restored after the test."""
    before = [np.array(variable.numpy()) for variable in case.model.variables]
    yield case
    for variable, value in zip(case.model.variables, before, strict=True):
        variable.assign(value)


def test_a_scale_that_is_too_high_is_reported_with_the_highest_finite_scale(mlp, batch, position):
    facts = mlp.diagnostics.diagnose(SkippedStep([2.0**30], batch, SEED, position))
    fits = facts["finite_below"]
    ((micro, _),) = mlp.replay.step([fits], batch, SEED)
    assert facts["diagnosis"] == "scale"
    assert mlp.replay([fits], micro).finite == [True]
    assert mlp.replay([2 * fits], micro).finite == [False]
    assert "loss_scale.scale" in facts["sentence"]


def test_overflowed_variables_are_listed_from_the_nearest_to_the_loss(mlp, batch, position):
    scale = 2.0**30
    facts = mlp.diagnostics.diagnose(SkippedStep([scale], batch, SEED, position))
    ((_, replayed),) = mlp.replay.step([scale], batch, SEED)
    names = [variable.path for variable in mlp.model.trainable_variables]
    counted = {row["variable"]: row for row in facts["variables"]}
    for name, grad in zip(names, replayed.gradients[0], strict=True):
        values = grad.numpy().astype(np.float64)
        bad = ~np.isfinite(values)
        assert (name in counted) == bad.any()
        if bad.any():
            row = counted[name]
            assert row["inf"] == np.isinf(values).sum()
            assert row["nan"] == np.isnan(values).sum()
            assert row["size"] == values.size
            assert row["largest"] == np.abs(values[~bad]).max(initial=0.0) / scale
    assert [row["variable"].split("/")[0] for row in facts["variables"]] == sorted(
        (row["variable"].split("/")[0] for row in facts["variables"]),
        key=["dense_2", "dense_1"].index,
    )


def test_the_first_layer_to_overflow_in_the_backward_pass_is_nearest_to_the_loss(
    mlp, batch, position
):
    facts = mlp.diagnostics.diagnose(SkippedStep([2.0**40], batch, SEED, position))
    first = facts["first_layer"]
    # The logits are float32; float16 begins at the dropout before them.
    assert (first["pass"], first["layer"]) == ("backward", "dense_dropout_2")
    assert first["dtype"] == "float16"


def test_a_layer_that_overflows_at_every_scale_is_named(mlp, batch, position):
    kernel = mlp.model.get_layer("dense_1").kernel
    kernel.assign(kernel.value * 2e5)
    facts = mlp.diagnostics.diagnose(SkippedStep([1024.0], batch, SEED, position))
    assert facts["diagnosis"] == "operation"
    assert facts["layer"] == "dense_1"
    first = facts["first_layer"]
    assert (first["pass"], first["layer"], first["kind"]) == ("forward", "dense_1", "Dense")
    assert first["inf"] > 0
    assert "finite_below" not in facts


def test_the_suggested_override_makes_the_operation_finite(mlp, batch, position, digits):
    kernel = mlp.model.get_layer("dense_1").kernel
    kernel.assign(kernel.value * 2e5)
    facts = mlp.diagnostics.diagnose(SkippedStep([1024.0], batch, SEED, position))
    pattern = facts["sentence"].split("layers: '")[1].split("'")[0]
    fixed = build(SMALL, digits.signature, overrides=(Override(layers=pattern, dtype="float32"),))
    pairs = zip(mlp.model.variables, fixed.networks[0].model.variables, strict=True)
    for variable, copy in pairs:
        copy.assign(variable.value)
    assert {layer.compute_dtype for layer in fixed.networks[0].model.layers} > {"float16"}
    ((_, replayed),) = Replay(fixed, [FixedLossScale()]).step([1.0], batch, SEED)
    assert replayed.finite == [True]


def test_inputs_too_large_for_float16_are_reported(mlp, batch, position):
    facts = mlp.diagnostics.diagnose(
        SkippedStep([1.0], batch._replace(x=batch.x * 1e6), SEED, position)
    )
    assert facts["diagnosis"] == "operation"
    assert "inputs reach 1e+06" in facts["sentence"]


def test_examples_that_are_not_finite_are_named(mlp, batch, position):
    x = np.copy(batch.x)
    x[5, 0, 0], x[9] = np.nan, np.inf
    facts = mlp.diagnostics.diagnose(SkippedStep([1024.0], Batch(x, batch.y), SEED, position))
    assert facts["diagnosis"] == "data"
    assert facts["batch"]["bad_examples"] == [1005, 1009]
    assert "1005, 1009" in facts["sentence"]


def test_finite_examples_without_a_finite_loss_in_float32_are_named(mlp, batch, position):
    x = np.copy(batch.x)
    x[4] = 1e38
    for name in ("dense_1", "dense_2"):
        kernel = mlp.model.get_layer(name).kernel
        kernel.assign(tf.abs(kernel.value) * 1e3)
    facts = mlp.diagnostics.diagnose(SkippedStep([1024.0], Batch(x, batch.y), SEED, position))
    assert facts["diagnosis"] == "data"
    assert facts["batch"]["bad_examples"] == [1004]
    assert "float32" in facts["sentence"]


def test_a_weight_that_is_not_finite_is_named(mlp, batch, position):
    kernel = mlp.model.get_layer("dense_2").kernel
    kernel.assign(tf.fill(kernel.shape, np.nan))
    facts = mlp.diagnostics.diagnose(SkippedStep([1024.0], batch, SEED, position))
    assert facts["diagnosis"] == "weights"
    assert facts["damaged"] == ["dense_2/kernel"]
    assert "dense_2/kernel" in facts["sentence"]


def test_a_step_that_is_finite_in_the_replay_is_reported_as_not_reproduced(mlp, batch, position):
    facts = mlp.diagnostics.diagnose(SkippedStep([1.0], batch, SEED, position))
    assert (facts["diagnosis"], facts["attribution"]) == ("not_reproduced", "not_reproducible")
    assert "gave finite gradients" in facts["sentence"]
    assert facts["variables"] == []
    assert facts["first_layer"] is None


def test_explanations_trace_each_precision_once(mlp, batch, position):
    for scale in (1.0, 2.0**30, 2.0**50):
        mlp.diagnostics.diagnose(SkippedStep([scale], batch, SEED, position))
    mlp.diagnostics.diagnose(SkippedStep([1.0], batch._replace(x=batch.x * 1e6), SEED, position))
    assert mlp.replay.function.experimental_get_tracing_count() == 1


def test_explaining_changes_neither_weights_nor_other_variables_nor_layers(mlp, batch, position):
    before = [np.array(variable.numpy()) for variable in mlp.model.variables]
    mlp.diagnostics.diagnose(SkippedStep([2.0**30], batch, SEED, position))
    for variable, value in zip(mlp.model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)
    assert not any("call" in vars(layer) for layer in mlp.model.layers)


def test_the_report_lists_the_first_examples_of_the_batch_and_their_number(mlp, batch):
    many = Batch(np.repeat(batch.x, 1, axis=0), batch.y)
    facts = mlp.diagnostics.diagnose(
        SkippedStep([1.0], many, SEED, BatchPosition(2, 3, np.arange(100)))
    )
    assert facts["batch"] == {
        "epoch": 2,
        "batch": 3,
        "total": 100,
        "examples": list(range(64)),
    }


def test_nothing_is_built_or_traced_before_the_first_skip(digits):
    replay = Replay(build(SMALL, digits.signature), [FixedLossScale()])
    assert OverflowDiagnostics(replay).is_due
    assert replay.function.experimental_get_tracing_count() == 0


def test_a_failed_replay_is_reported_as_an_unknown_cause(mlp, batch, position, monkeypatch):
    def float32_view(task):
        raise tf.errors.ResourceExhaustedError(None, None, "no memory for it")

    monkeypatch.setattr("ampcore.diagnostics.steps.overflow.float32_view", float32_view)
    diagnostics = OverflowDiagnostics(mlp.replay)
    facts = diagnostics.diagnose(
        SkippedStep([1.0], batch._replace(x=batch.x * 1e6), SEED, position)
    )
    assert facts["diagnosis"] == "unknown"
    assert "no memory for it" in facts["sentence"]


class Noisy(Task):
    """A loss that depends on the step's seed and on non-trainable values."""

    def losses(self, weights, non_trainable, batch, seed):
        (network,) = self.networks
        logits, updates = network(weights[0], non_trainable[0], batch.x, training=True)
        noise = tf.random.stateless_uniform(tf.shape(logits), seed)
        return [tf.reduce_mean(tf.square(logits - noise))], [updates]

    def measure(self, weights, non_trainable, batch):
        (network,) = self.networks
        logits, _ = network(weights[0], non_trainable[0], batch.x, training=False)
        return {"loss": tf.reduce_mean(tf.square(logits), axis=-1)}


class InfiniteGradients(Noisy):
    """A finite loss whose gradients are not finite."""

    def losses(self, weights, non_trainable, batch, seed):
        (network,) = self.networks
        logits, updates = network(weights[0], non_trainable[0], batch.x, training=True)
        return [tf.reduce_mean(tf.sqrt(logits * 0.0))], [updates]


def test_a_replay_in_micro_batches_equals_the_step(digits, batch):
    model = build(SMALL, digits.signature, "float32").networks[0].model
    task, seed = Noisy([Network("model", model)]), tf.constant([3, 4], tf.int64)
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)
    scale = FixedLossScale(8.0)
    replayed = [found for _, found in Replay(task, [scale], 4).step([8.0], batch, seed)]
    step = TrainStep(task, [optimizer], [scale], [Clip()], accumulate=4)
    function = tf.function(step.__call__, autograph=False)
    _, row = function((scale.init(),), Batch(*map(tf.constant, batch)), seed)
    norm = np.sqrt(
        sum(
            np.sum(np.mean(parts, axis=0) ** 2)
            for parts in zip(
                *([g.numpy() / 8.0 for g in r.gradients[0]] for r in replayed), strict=True
            )
        )
    )
    columns = dict(zip(step.columns, row.numpy(), strict=True))
    assert columns["loss"] == pytest.approx(np.mean([r.losses[0] for r in replayed]), rel=1e-6)
    assert columns["grad_norm"] == pytest.approx(norm, rel=1e-5)


def test_a_run_halted_on_a_skip_can_replay_the_skipped_step(digits, position):
    keras.utils.set_random_seed(0)
    task = build(SMALL, digits.signature)
    scale = DynamicLossScale(initial=2.0**14, growth_interval=1)
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(task.networks[0].model.trainable_variables)
    step = TrainStep(task, [optimizer], [scale], [Clip()])
    window = Batch(tf.constant(digits.train.arrays.x), tf.constant(digits.train.arrays.y))
    loop = Loop(step, (scale.init(),), window, batch_size=SIZE, seed=5)
    _, rows = loop.run((scale.init(),), window, 0, 100, 20, stop=STOP_AT_SKIP)
    skipped = dict(zip(step.columns, rows[-1], strict=True))
    number = len(rows) - 1
    seed = step_seed(5, tf.constant(100 + number, tf.int64))
    examples = Batch(*(part[number * SIZE : (number + 1) * SIZE] for part in window))
    replay = Replay(task, [scale])
    ((_, replayed),) = replay.step([skipped["loss_scale"]], examples, seed)
    facts = OverflowDiagnostics(replay).diagnose(
        SkippedStep([skipped["loss_scale"]], examples, seed, position)
    )
    assert skipped["skipped"]
    assert replayed.losses[0] == pytest.approx(skipped["loss"], rel=1e-6)
    assert facts["diagnosis"] == "scale"
    assert facts["finite_below"] < skipped["loss_scale"]


def test_infinite_float32_gradients_are_a_separate_cause(digits, batch, position):
    task = InfiniteGradients(
        [Network("model", build(SMALL, digits.signature, "float32").networks[0].model)]
    )
    diagnostics = OverflowDiagnostics(Replay(task, [FixedLossScale()]))
    facts = diagnostics.diagnose(SkippedStep([1024.0], batch, SEED, position))
    assert facts["diagnosis"] == "float32_overflow"
    assert facts["first_layer"]["layer"] == "predictions"


def test_nonfinite_micro_batches_are_named(digits, batch, position):
    replay = Replay(build(SMALL, digits.signature), [FixedLossScale()], accumulate=4)
    x = np.copy(batch.x)
    x[17], x[24] = np.nan, np.nan
    facts = OverflowDiagnostics(replay).diagnose(
        SkippedStep([1.0], Batch(x, batch.y), SEED, position)
    )
    assert facts["batch"]["micro_batches"] == [2, 3]
    assert facts["batch"]["examples"] == list(range(1016, 1032))
    assert facts["batch"]["bad_examples"] == [1017, 1024]
    assert facts["batch"]["total"] == SIZE


def test_the_network_whose_scale_was_too_high_is_named(digits, batch, position):
    spec = Gan(latent=2, generator=(1, 1, 1), discriminator=(2,))
    task = build(spec, digits.signature)
    scales = [DynamicLossScale(minimum=2.0**20, initial=2.0**30, maximum=2.0**40)] * 2
    diagnostics = OverflowDiagnostics(Replay(task, scales))
    facts = diagnostics.diagnose(
        SkippedStep([2.0**40, 1.0], Batch(batch.x[:4], batch.y[:4]), SEED, position)
    )
    assert facts["diagnosis"] == "scale"
    assert list(facts["finite_below"]) == ["generator"]
    assert {row["network"] for row in facts["variables"]} == {"generator"}
    assert "network generator" in facts["sentence"]


def test_sparse_gradients_stay_sparse_and_their_table_is_named(position):
    signature = Signature((2, 3), "int32", 2, 100)
    random = np.random.default_rng(0)
    keys = random.integers(100, size=(SIZE, 2, 3), dtype=np.int32)
    task = build(EmbeddingModel(slots=2, nnz=3, vocabulary=100, dim=2, hidden=(4,)), signature)
    replay = Replay(task, [FixedLossScale()])
    labels = random.integers(2, size=SIZE, dtype=np.int32)
    ((_, replayed),) = replay.step([1.0], Batch(keys, labels), SEED)
    facts = OverflowDiagnostics(replay).diagnose(
        SkippedStep([2.0**60], Batch(keys, labels), SEED, position)
    )
    assert any(isinstance(grad, tf.IndexedSlices) for grad in replayed.gradients[0])
    assert facts["diagnosis"] == "scale"
    assert facts["variables"][-1]["variable"] == "embedding/embeddings"
    assert facts["variables"][-1]["size"] == 200


def test_the_outputs_of_sub_layers_are_recorded():
    task = build(TransformerLm(layers=1, heads=1, dim=4), Signature((6,), "int32", 5, 5))
    batch = Batch(tf.zeros((2, 6), tf.int32), tf.zeros((2, 6), tf.int32))
    with tf.Graph().as_default(), layer_outputs(task) as outputs:
        symbolic = batch.map(lambda part: tf.compat.v1.placeholder(tf.int32, part.shape))
        non_trainable = [
            [tf.zeros(v.shape, v.dtype) for v in task.networks[0].model.non_trainable_variables]
        ]
        weights = [[tf.zeros(v.shape, v.dtype) for v in task.networks[0].model.trainable_variables]]
        task.losses(weights, non_trainable, symbolic, SEED)
    paths = [output.layer_ref.path for output in outputs]
    assert "block_1_attention/query" in paths
    assert paths.index("block_1_attention/query") < paths.index("block_1_attention")


class Clock:
    """A clock that the test sets."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_the_first_eight_skips_and_then_each_power_of_two_are_explained(case):
    clock = Clock()
    diagnostics = OverflowDiagnostics(case.replay, clock)
    explained = []
    for number in range(1, 101):
        clock.now += 1000.0
        if diagnostics.is_due:
            explained.append(number)
            with diagnostics.explanation():
                clock.now += 0.1
        diagnostics.observe(1)
    assert explained == [1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64]


def test_later_explanations_take_a_limited_share_of_the_run_time(case):
    clock = Clock()
    diagnostics = OverflowDiagnostics(case.replay, clock)
    with diagnostics.explanation():
        clock.now = 2.0
    diagnostics.observe(100)
    clock.now = 199.0
    assert not diagnostics.is_due
    clock.now = 201.0
    assert diagnostics.is_due


def test_the_diagnostics_restore_their_state_in_a_resumed_run(case):
    clock = Clock()
    before = OverflowDiagnostics(case.replay, clock)
    before.observe(10)
    with before.explanation():
        clock.now = 0.5
    clock.now = 30.0
    document = json.loads(json.dumps(before.to_json()))
    after = OverflowDiagnostics(case.replay, clock)
    after.restore(document)
    assert after.to_json() == document
    assert not after.is_due


@pytest.mark.parametrize(
    ("found", "advice"),
    [
        (
            CauseDetails(OverflowCause.SCALE, kind=FixedLossScale(), finite_below=8.0),
            "loss_scale.scale to 8",
        ),
        (
            CauseDetails(OverflowCause.SCALE, kind=DynamicLossScale(), finite_below=8.0),
            "backs off by itself",
        ),
        (
            CauseDetails(
                OverflowCause.SCALE, kind=DynamicLossScale(minimum=16.0), finite_below=8.0
            ),
            "lower it to 8",
        ),
        (CauseDetails(OverflowCause.OPERATION, dtype="float16", layer="a/b"), "mixed_bfloat16"),
        (
            CauseDetails(OverflowCause.OPERATION, dtype="bfloat16", layer="a/b"),
            "layers: '^a$', dtype: float32",
        ),
        (CauseDetails(OverflowCause.FLOAT32_OVERFLOW, layer="a"), "first at a"),
        (
            CauseDetails(OverflowCause.WEIGHTS, damaged=list("abcdefgh")),
            "a, b, c, d, e and 3 more contained",
        ),
    ],
)
def test_the_explanation_of_a_cause_gives_advice(found, advice):
    assert advice in explain_cause(found).text


@pytest.mark.parametrize(
    ("spec", "layer"),
    [(LstmLm(units=4, dim=4), "lstm_1"), (TransformerLm(layers=1, heads=1, dim=4), "norm")],
)
def test_the_skips_of_language_models_are_explained(spec, layer, position):
    task = build(spec, Signature((6,), "int32", 5, 5))
    tokens = np.random.default_rng(0).integers(5, size=(4, 7), dtype=np.int32)
    diagnostics = OverflowDiagnostics(Replay(task, [FixedLossScale()]))
    facts = diagnostics.diagnose(
        SkippedStep([2.0**40], Batch(tokens[:, :-1], tokens[:, 1:]), SEED, position)
    )
    assert facts["diagnosis"] == "scale"
    assert facts["first_layer"]["layer"] == layer

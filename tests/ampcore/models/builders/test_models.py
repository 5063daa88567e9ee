from typing import get_args

import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcore import models
from ampcore.data import Signature
from ampspec.errors import InvalidModel
from ampspec.jobs import Reason
from ampspec.models.model import (
    Cnn,
    EmbeddingModel,
    Gan,
    KerasApplication,
    LeNet5,
    LstmLm,
    Mlp,
    ModelSpec,
    ResNet,
    TransformerLm,
)

MNIST = (28, 28, 1)
CLASSIFIERS = [Mlp(), Cnn(), LeNet5(), ResNet(depth=8, width=4)]
SMALL = {
    "mlp": Mlp(hidden=(8,), dropout=0.5),
    "resnet": ResNet(depth=8, width=4),
    "gan": Gan(latent=4, generator=(4, 3), discriminator=(4, 3)),
    "embedding": EmbeddingModel(hidden=(4,)),
    "lstm_lm": LstmLm(units=8, dim=4),
    "transformer_lm": TransformerLm(layers=1, heads=2, dim=8),
}
"""Every kind of task, and every kind of layer with state of its own in Keras."""


def kinds():
    return {part.model_fields["kind"].default for part in get_args(get_args(ModelSpec)[0])}


@pytest.fixture(scope="module")
def signature_for(images, text, clicks):
    """The data that a kind of model is for."""

    def choose(kind):
        return {"embedding": clicks, "lstm_lm": text, "transformer_lm": text}.get(
            kind, images(8, 8, 1)
        )

    return choose


def test_every_kind_that_a_spec_can_name_can_be_built():
    # The model of a bundle is built by its code: ampcore.training.jobs.bundle_job.
    assert set(models.BUILDERS) == kinds() - {"bundle"}


@pytest.mark.parametrize(
    ("spec", "shape", "parameters"),
    [
        (Cnn(), MNIST, 1_199_882),
        (LeNet5(), (32, 32, 1), 61_706),
        (LeNet5(), MNIST, 61_706),
        (Mlp(), MNIST, 784 * 64 + 64 + 64 * 64 + 64 + 64 * 10 + 10),
        (Mlp(hidden=(4096, 4096)), (784,), 20_037_642),
        (Mlp(hidden=()), (5,), 60),
        (KerasApplication(name="MobileNetV2"), (32, 32, 3), 2_270_794),
    ],
    ids=lambda value: getattr(value, "kind", str(value)),
)
def test_parameter_counts_are_the_published_ones(build, images, spec, shape, parameters):
    [network] = build(spec, images(*shape)).networks
    assert network.model.count_params() == parameters


@pytest.mark.parametrize("spec", CLASSIFIERS, ids=lambda spec: spec.kind)
@pytest.mark.parametrize("shape", [(28, 28), (28, 28, 3)], ids=str)
@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_images_become_finite_float32_logits(build, images, spec, shape, policy):
    [network] = build(spec, images(*shape, classes=7), policy).networks
    logits = network.model(np.ones((2, *shape), np.float32))
    assert network.model.layers[-1].name == "predictions"
    assert logits.shape == (2, 7)
    assert logits.dtype == "float32"
    assert np.isfinite(logits).all()


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
@pytest.mark.parametrize("kind", SMALL)
def test_losses_are_float32_and_every_weight_has_a_gradient(
    build, signature_for, differentiate, kind, policy
):
    task = build(SMALL[kind], signature_for(kind), policy)
    found = differentiate(task, signature_for(kind))
    assert [network.name for network in task.networks] == list(SMALL[kind].networks)
    assert len(found.losses) == len(task.networks)
    for loss, grads in zip(found.losses, found.grads, strict=True):
        assert loss.shape == ()
        assert loss.dtype == tf.float32
        assert np.isfinite(loss)
        assert all(grad is not None for grad in grads)


@pytest.mark.parametrize("kind", SMALL)
def test_losses_and_measures_assign_no_variables(build, signature_for, noise_batch, kind):
    task, batch = build(SMALL[kind], signature_for(kind)), noise_batch(signature_for(kind))
    variables = [variable for network in task.networks for variable in network.model.variables]
    before = [np.copy(variable.numpy()) for variable in variables]
    task.losses(task.weights(), task.non_trainable(), batch, tf.constant([3, 4]))
    task.measure(task.weights(), task.non_trainable(), batch)
    for variable, old in zip(variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), old, err_msg=variable.path)


@pytest.mark.parametrize("kind", SMALL)
def test_measures_are_one_float32_number_per_example(build, signature_for, noise_batch, kind):
    task, batch = build(SMALL[kind], signature_for(kind)), noise_batch(signature_for(kind))
    measures = task.measure(task.weights(), task.non_trainable(), batch)
    assert {"loss", "accuracy"} <= measures.keys()
    for name, values in measures.items():
        assert values.shape == (4,), name
        assert values.dtype == tf.float32, name
        assert np.isfinite(values).all(), name


# Without dropout and batch statistics, training and evaluation compute the same.
@pytest.mark.parametrize("kind", ["embedding", "lstm_lm", "transformer_lm"])
def test_the_loss_of_a_batch_is_the_mean_over_its_examples(build, signature_for, noise_batch, kind):
    task, batch = build(SMALL[kind], signature_for(kind)), noise_batch(signature_for(kind))
    [loss], _ = task.losses(task.weights(), task.non_trainable(), batch, tf.constant([0, 0]))
    measured = task.measure(task.weights(), task.non_trainable(), batch)["loss"]
    np.testing.assert_allclose(loss, np.mean(measured), rtol=1e-5)


def test_only_state_variables_that_change_have_an_update(build, images, noise_batch):
    [network] = build(Mlp(hidden=(8, 8), dropout=0.5), images(4)).networks
    model = network.model
    weights = [variable.value for variable in model.trainable_variables]
    non_trainable = [variable.value for variable in model.non_trainable_variables]
    assert len(non_trainable) == 2  # the seeds of two dropouts
    x = noise_batch(images(4)).x
    _, updates = network(weights, non_trainable, x, training=True)
    assert list(updates) == [0, 1]
    _, updates = network(weights, non_trainable, x, training=False)
    assert updates == {}


def test_losses_use_the_given_weights_and_not_the_variables(build, images, noise_batch):
    task = build(Mlp(hidden=()), images(4))
    zeros = [[tf.zeros_like(value) for value in values] for values in task.weights()]
    [loss], _ = task.losses(
        zeros, task.non_trainable(), noise_batch(images(4)), tf.constant([0, 0])
    )
    np.testing.assert_allclose(loss, np.log(10), rtol=1e-6)


def test_cross_entropy_and_accuracy_are_those_of_plain_numpy(build, images, noise_batch):
    task, batch = build(Mlp(), images(8, 8)), noise_batch(images(8, 8), size=64)
    measured = task.measure(task.weights(), task.non_trainable(), batch)
    logits = task.networks[0].model(batch.x).numpy().astype(np.float64)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = batch.y.numpy()
    np.testing.assert_allclose(
        measured["loss"], -np.log(shares[np.arange(64), labels]), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_array_equal(measured["accuracy"], logits.argmax(axis=1) == labels)


def test_building_does_not_change_the_global_dtype_policy(build, images):
    build(Mlp(), images(4), "mixed_float16")
    assert keras.config.dtype_policy().name == "float32"


def test_a_dropout_rate_of_zero_adds_no_dropout_layer(build, images):
    [network] = build(Cnn(dropout=0.0), images(*MNIST)).networks
    names = [layer.name for layer in network.model.layers]
    assert "dropout" not in names
    assert "dense_dropout_1" in names


@pytest.mark.parametrize("kind", SMALL)
def test_weight_names_are_the_same_in_every_build_of_a_model(build, signature_for, kind):
    first, second = (
        [
            weight.path
            for network in build(SMALL[kind], signature_for(kind)).networks
            for weight in network.model.trainable_variables
        ]
        for _ in range(2)
    )
    assert first == second
    assert len(set(first)) == len(first) or kind == "gan"  # two networks, whose weights share names


@pytest.mark.parametrize("kind", SMALL)
def test_a_saved_model_loads_in_keras_alone(build, signature_for, noise_batch, tmp_path, kind):
    for network in build(SMALL[kind], signature_for(kind)).networks:
        network.model.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        x = np.ones((2, *network.model.input_shape[1:]), network.model.inputs[0].dtype)
        np.testing.assert_allclose(loaded(x), network.model(x), rtol=1e-6)


def test_images_that_are_too_small_are_refused_with_the_field_to_change(build, images):
    with pytest.raises(InvalidModel, match=r"model\.filters: expected images of at least 8 × 8"):
        build(Cnn(filters=(4, 4, 4)), images(7, 9, 1))
    assert build(Cnn(filters=(4, 4, 4)), images(8, 8, 1)).networks


@pytest.mark.parametrize(
    "spec",
    [Cnn(), LeNet5(), ResNet(), Gan(), KerasApplication(name="VGG16")],
    ids=lambda spec: spec.kind,
)
@pytest.mark.parametrize("shape", [(784,), (4, 8, 8, 1)], ids=str)
def test_examples_that_are_not_images_are_refused(build, images, spec, shape):
    with pytest.raises(InvalidModel, match="expected images") as caught:
        build(spec, images(*shape))
    assert caught.value.field == "model.kind"
    assert caught.value.reason is Reason.INVALID_SPEC


@pytest.mark.parametrize("spec", [Mlp(), Cnn(), ResNet(), Gan()], ids=lambda spec: spec.kind)
def test_models_of_float_examples_refuse_integer_examples(build, spec):
    with pytest.raises(InvalidModel, match=r"received int32 examples of shape \[8, 8\]"):
        build(spec, Signature((8, 8), "int32", 2, 5))


def test_a_multilayer_perceptron_says_that_tokens_need_an_embedding(build):
    with pytest.raises(InvalidModel, match=r"layers that begin with \{layer: Embedding\}"):
        build(Mlp(), Signature((8,), "int32", 2, 5))


@pytest.mark.parametrize(
    "spec", [EmbeddingModel(), LstmLm(), TransformerLm()], ids=lambda spec: spec.kind
)
def test_models_of_integer_examples_refuse_float_examples(build, images, spec):
    with pytest.raises(InvalidModel, match=r"received float32 examples of shape \[8, 8\]") as found:
        build(spec, images(8, 8))
    assert found.value.field == "model.kind"

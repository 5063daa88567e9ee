import numpy as np
import pytest
import tensorflow as tf

from ampcore.models.builders import gan
from ampcore.models.stateless_call import with_updates
from ampspec.errors import InvalidModel
from ampspec.models.model import Gan

SMALL = Gan(latent=4, generator=(4, 3), discriminator=(4, 3))


def trainable(network):
    return sum(int(np.prod(variable.shape)) for variable in network.model.trainable_variables)


def cross_entropy(logits, labels):
    """Plain NumPy, in float64."""
    logits = np.asarray(logits, np.float64)
    return np.log1p(np.exp(-logits)) + (1 - np.asarray(labels)) * logits


@pytest.fixture(scope="module")
def task(build, images):
    return build(SMALL, images(8, 8, 1))


@pytest.fixture(scope="module")
def batch(images, noise_batch):
    return noise_batch(images(8, 8, 1), size=20)


def test_parameter_counts_are_the_published_ones(build, images):
    generator, discriminator = build(Gan(), images(28, 28, 1)).networks
    assert generator.model.count_params() == 477_713
    assert trainable(generator) == 477_377
    assert discriminator.model.count_params() == trainable(discriminator) == 245_169
    assert generator.model.output_shape == (None, 28, 28, 1)
    assert discriminator.model.output_shape == (None, 1)


def test_losses_use_softened_and_partly_flipped_labels(task, batch):
    seed = tf.constant([5, 6])
    weights, non_trainable = task.weights(), task.non_trainable()
    losses, _ = task.losses(weights, non_trainable, batch, seed)

    generator, discriminator = task.networks
    noise = tf.random.stateless_uniform((20, 4), seed, minval=-1.0, maxval=1.0)
    fakes, _ = generator(weights[0], non_trainable[0], noise, training=True)
    fake, updates = discriminator(weights[1], non_trainable[1], fakes, training=True)
    states = with_updates(non_trainable[1], updates)
    real, _ = discriminator(weights[1], states, batch.x, training=True)
    real_labels = np.array([1.0] * 2 + [0.01] * 18)
    fake_labels = np.array([0.0] * 2 + [0.99] * 18)
    fake, real = fake[:, 0], real[:, 0]
    on_fake, on_real = cross_entropy(fake, fake_labels), cross_entropy(real, real_labels)
    expected = [cross_entropy(fake, real_labels).mean(), (on_fake.mean() + on_real.mean()) / 2]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


def test_the_noise_depends_on_the_seed(task, batch):
    def losses(*seed):
        return [
            float(loss)
            for loss in task.losses(task.weights(), task.non_trainable(), batch, tf.constant(seed))[
                0
            ]
        ]

    assert losses(1, 2) == losses(1, 2)
    assert losses(1, 2) != losses(1, 3)


def test_both_networks_get_new_statistics_and_dropout_seeds(task, images, differentiate):
    generated, discriminated = differentiate(task, images(8, 8, 1)).updates
    assert len(generated) == 2 * 3  # mean and variance of three normalizations
    assert len(discriminated) == 2  # the seeds of two dropouts


def test_measures_are_repeatable_and_the_loss_is_the_sum_of_both_networks(task, batch):
    one, two = (task.measure(task.weights(), task.non_trainable(), batch) for _ in range(2))
    np.testing.assert_array_equal(one["loss"], two["loss"])
    np.testing.assert_allclose(one["loss"], one["loss/generator"] + one["loss/discriminator"])


def test_accuracy_is_the_share_of_correct_classifications(build, images, batch):
    task = build(SMALL, images(8, 8, 1))
    weights = task.weights()
    weights[1] = [tf.zeros_like(value) for value in weights[1]]
    weights[1][-1] = tf.constant([3.0])  # a discriminator that calls everything fake
    measured = task.measure(weights, task.non_trainable(), batch)
    assert set(measured["accuracy"].numpy()) == {0.5}
    np.testing.assert_allclose(measured["loss/generator"], cross_entropy(3.0, 0.01), rtol=1e-5)


def test_a_step_counts_real_and_generated_images(task):
    assert task.examples_per_step(64) == 128


def test_images_without_a_channel_axis_are_accepted(build, images, differentiate):
    found = differentiate(build(SMALL, images(8, 8), "mixed_float16"), images(8, 8))
    assert np.isfinite([float(loss) for loss in found.losses]).all()


def test_the_last_layer_of_both_networks_is_float32_under_mixed_float16(build, images):
    for network in build(SMALL, images(8, 8, 1), "mixed_float16").networks:
        assert network.model.layers[-1].compute_dtype == "float32"
        assert network.model.layers[-2].compute_dtype == "float16"


@pytest.mark.parametrize(
    ("spec", "shape"),
    [(SMALL, (9, 8, 1)), (SMALL, (8, 10)), (Gan(), (4, 4, 1))],
    ids=str,
)
def test_image_sizes_that_the_generator_cannot_produce_are_refused(build, images, spec, shape):
    with pytest.raises(InvalidModel, match="multiples of 4 and at least"):
        build(spec, images(*shape))


def test_labels_are_softened_and_one_in_ten_is_flipped():
    assert (gan.REAL_LABEL, gan.FAKE_LABEL, gan.FLIPPED_ONE_IN) == (0.01, 0.99, 10)

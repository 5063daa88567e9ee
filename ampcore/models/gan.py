"""A generator of images and a discriminator that tells them from real ones.

Source: Goodfellow et al. 2014, arXiv:1406.2661; networks, labels and losses are those of the
GAN in the profiling lessons of Argonne's ALCF, in which fake is 1.
"""

from typing import Any, Final

import keras
import tensorflow as tf
from keras import layers

from ampcore.data.dataset import Batch, Signature
from ampcore.errors import InvalidModel
from ampcore.models.classification import binary_cross_entropy
from ampcore.models.classifier import image_input
from ampcore.models.registry import register
from ampcore.models.task import Held, Task, Tensor, Weights
from ampcore.spec.model import Gan

REAL: Final = 0.01
FAKE: Final = 0.99
"""What the discriminator is to say; exactly 0 and 1 would let it grow too sure of itself."""

FLIPPED: Final = 10
"""One label in so many is told the wrong way round, which slows the discriminator down."""

UPSAMPLINGS: Final = 2


class Adversaries(Task):
    """A generator and a discriminator, each with a loss of its own.

    Both losses come from the weights as they are before the step, and the discriminator sees
    the generated images once. (The original program runs everything again for the second
    network, after the first one's update.)
    """

    metrics = ("loss", "loss/generator", "loss/discriminator", "accuracy")

    def losses(
        self, weights: Weights, held: Held, batch: Batch, seed: Tensor
    ) -> tuple[list[Tensor], Held]:
        """The generator's loss, and the discriminator's: the mean over fake and real images."""
        count = tf.shape(batch.x)[0]
        noise = self._noise(count, seed)
        (fake, real), after = self._verdicts(weights, held, noise, batch.x, training=True)
        flipped = tf.range(count) < count // FLIPPED
        real_labels, fake_labels = tf.where(flipped, 1.0, REAL), tf.where(flipped, 0.0, FAKE)
        generator = binary_cross_entropy(fake, real_labels)
        discriminator = _mean(
            binary_cross_entropy(fake, fake_labels), binary_cross_entropy(real, real_labels)
        )
        return [tf.reduce_mean(generator), tf.reduce_mean(discriminator)], after

    def measure(self, weights: Weights, held: Held, batch: Batch) -> dict[str, Tensor]:
        """The two losses per real image and as many fake ones, no label flipped; their sum.

        "accuracy" is the discriminator's. The noise is always the same.
        """
        noise = self._noise(tf.shape(batch.x)[0], tf.constant([0, 0]))
        (fake, real), _ = self._verdicts(weights, held, noise, batch.x, training=False)
        generator = binary_cross_entropy(fake, tf.fill(tf.shape(fake), REAL))
        discriminator = _mean(
            binary_cross_entropy(fake, tf.fill(tf.shape(fake), FAKE)),
            binary_cross_entropy(real, tf.fill(tf.shape(real), REAL)),
        )
        right = _mean(tf.cast(fake > 0, tf.float32), tf.cast(real <= 0, tf.float32))
        return {
            "loss": generator + discriminator,
            "loss/generator": generator,
            "loss/discriminator": discriminator,
            "accuracy": right,
        }

    def examples(self, batch_size: int) -> int:
        """Real and generated images."""
        return 2 * batch_size

    def _noise(self, count: Tensor, seed: Tensor) -> Tensor:
        latent = self.networks[0].model.input_shape[-1]
        return tf.random.stateless_uniform((count, latent), seed, minval=-1.0, maxval=1.0)

    def _verdicts(
        self, weights: Weights, held: Held, noise: Tensor, images: Tensor, *, training: bool
    ) -> tuple[tuple[Tensor, Tensor], Held]:
        """Logits (n,) for generated and for real images; above 0 means fake."""
        generator, discriminator = self.networks
        images = tf.reshape(images, (-1, *discriminator.model.input_shape[1:]))
        fakes, generated = generator(weights[0], held[0], noise, training=training)
        fake, between = discriminator(weights[1], held[1], fakes, training=training)
        real, after = discriminator(weights[1], between, images, training=training)
        return (fake[:, 0], real[:, 0]), [generated, after]


@register("gan", Adversaries)
def gan(spec: Gan, signature: Signature) -> dict[str, Any]:
    """The two networks; 477,713 and 245,169 parameters on 28 × 28 × 1."""
    _, images = image_input(signature)
    shape = tuple(images.shape[1:])
    _check_size(spec, shape)
    return {"generator": _generator(spec, shape), "discriminator": _discriminator(spec, shape)}


def _generator(spec: Gan, shape: tuple[int, ...]) -> Any:
    """Noise → Dense → a quarter of the image → (norm → Conv → double)… → image from 0 to 1."""
    noise = keras.Input((spec.latent,), dtype="float32", name="noise")
    small = (*(side // 2**UPSAMPLINGS for side in shape[:2]), spec.generator[0])
    x = layers.Dense(small[0] * small[1] * small[2], name="dense")(noise)
    x = layers.Reshape(small, name="reshape")(x)
    for index, filters in enumerate(spec.generator, start=1):
        x = layers.BatchNormalization(name=f"norm_{index}")(x)
        x = _conv(filters, f"conv_{index}")(x)
        if index <= UPSAMPLINGS:
            x = layers.UpSampling2D(2, name=f"up_{index}")(x)
    x = layers.BatchNormalization(name="norm_image")(x)
    return keras.Model(noise, _conv(shape[-1], "image", "sigmoid")(x), name="generator")


def _discriminator(spec: Gan, shape: tuple[int, ...]) -> Any:
    """(Conv → pool → Dropout)… → one logit."""
    images = keras.Input(shape, dtype="float32", name="images")
    x = images
    for index, filters in enumerate(spec.discriminator, start=1):
        x = _conv(filters, f"conv_{index}")(x)
        x = layers.MaxPooling2D(2, name=f"pool_{index}")(x)
        x = layers.Dropout(0.4, name=f"dropout_{index}")(x)
    x = layers.Flatten(name="flatten")(x)
    return keras.Model(images, layers.Dense(1, name="verdict")(x), name="discriminator")


def _conv(filters: int, name: str, activation: str = "tanh") -> Any:
    return layers.Conv2D(filters, 5, padding="same", activation=activation, name=name)


def _mean(fake: Tensor, real: Tensor) -> Tensor:
    return 0.5 * (fake + real)


def _check_size(spec: Gan, shape: tuple[int, ...]) -> None:
    least = spec.smallest_image
    if min(shape[:2]) < least or any(side % 2**UPSAMPLINGS for side in shape[:2]):
        raise InvalidModel(
            "model.kind",
            expected=f"images whose height and width are multiples of 4 and at least {least} "
            f"for {len(spec.discriminator)} pools in the discriminator",
            received=f"images of {shape[0]} × {shape[1]}",
        )

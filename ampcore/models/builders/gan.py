"""A generator of images and a discriminator between generated and real images.

Source: Goodfellow et al. 2014, arXiv:1406.2661; networks, labels and losses are those of the
GAN in the profiling lessons of Argonne's ALCF, in which fake is 1.
"""

from typing import Any, Final

import tensorflow as tf

from ampcore.data.dataset import Signature
from ampcore.data.examples import Batch
from ampcore.models.builders.from_description import build_networks, check_images
from ampcore.models.classification import binary_cross_entropy
from ampcore.models.registry import register
from ampcore.models.stateless_call import StateUpdates, with_updates
from ampcore.models.task import NonTrainable, Task, Tensor, Weights
from ampspec.errors import InvalidModel
from ampspec.models.model import Gan
from ampspec.networks.gan import UPSAMPLINGS

REAL_LABEL: Final = 0.01
FAKE_LABEL: Final = 0.99
"""The discriminator's target for fakes: label smoothing keeps its logits bounded."""

FLIPPED_ONE_IN: Final = 10
"""One label in this many is flipped, which slows down the discriminator."""


class GanTask(Task):
    """A generator and a discriminator, each with its own loss.

    Both losses use the weights before the step, and the discriminator processes the generated
    images once. (The original program runs the forward pass again for the second network, after the
    first one's update.)
    """

    metrics = ("loss", "loss/generator", "loss/discriminator", "accuracy")

    def losses(
        self, weights: Weights, non_trainable: NonTrainable, batch: Batch, seed: Tensor
    ) -> tuple[list[Tensor], list[StateUpdates]]:
        """The generator's loss, and the discriminator's: the mean over fake and real images."""
        count = tf.shape(batch.x)[0]
        noise = self._noise(count, seed)
        (fake, real), updates = self._discriminate(
            weights, non_trainable, noise, batch.x, training=True
        )
        flipped = tf.range(count) < count // FLIPPED_ONE_IN
        real_labels, fake_labels = (
            tf.where(flipped, 1.0, REAL_LABEL),
            tf.where(flipped, 0.0, FAKE_LABEL),
        )
        generator = binary_cross_entropy(fake, real_labels)
        discriminator = _mean(
            binary_cross_entropy(fake, fake_labels), binary_cross_entropy(real, real_labels)
        )
        return [tf.reduce_mean(generator), tf.reduce_mean(discriminator)], updates

    def measure(
        self, weights: Weights, non_trainable: NonTrainable, batch: Batch
    ) -> dict[str, Tensor]:
        """The two losses per real image and as many fake ones, no label flipped; their sum.

        "accuracy" is the discriminator's. The noise is always the same.
        """
        noise = self._noise(tf.shape(batch.x)[0], tf.constant([0, 0]))
        (fake, real), _ = self._discriminate(weights, non_trainable, noise, batch.x, training=False)
        generator = binary_cross_entropy(fake, tf.fill(tf.shape(fake), REAL_LABEL))
        discriminator = _mean(
            binary_cross_entropy(fake, tf.fill(tf.shape(fake), FAKE_LABEL)),
            binary_cross_entropy(real, tf.fill(tf.shape(real), REAL_LABEL)),
        )
        right = _mean(tf.cast(fake > 0, tf.float32), tf.cast(real <= 0, tf.float32))
        return {
            "loss": generator + discriminator,
            "loss/generator": generator,
            "loss/discriminator": discriminator,
            "accuracy": right,
        }

    def examples_per_step(self, batch_size: int) -> int:
        """Real and generated images."""
        return 2 * batch_size

    def _noise(self, count: Tensor, seed: Tensor) -> Tensor:
        latent = self.networks[0].model.input_shape[-1]
        return tf.random.stateless_uniform((count, latent), seed, minval=-1.0, maxval=1.0)

    def _discriminate(
        self,
        weights: Weights,
        non_trainable: NonTrainable,
        noise: Tensor,
        images: Tensor,
        *,
        training: bool,
    ) -> tuple[tuple[Tensor, Tensor], list[StateUpdates]]:
        """Logits (n,) for generated and for real images; above 0 means fake."""
        generator, discriminator = self.networks
        images = tf.reshape(images, (-1, *discriminator.model.input_shape[1:]))
        fakes, by_generator = generator(weights[0], non_trainable[0], noise, training=training)
        fake, by_fakes = discriminator(weights[1], non_trainable[1], fakes, training=training)
        states = with_updates(non_trainable[1], by_fakes)
        real, by_images = discriminator(weights[1], states, images, training=training)
        return (fake[:, 0], real[:, 0]), [by_generator, by_fakes | by_images]


@register("gan", GanTask)
def gan(spec: Gan, signature: Signature) -> dict[str, Any]:
    """The two networks; 477,713 and 245,169 parameters on 28 × 28 × 1."""
    check_images(signature)
    _check_size(spec, signature.input_shape)
    return build_networks(spec, signature)


def _mean(fake: Tensor, real: Tensor) -> Tensor:
    return 0.5 * (fake + real)


def _check_size(spec: Gan, shape: tuple[int, ...]) -> None:
    least = spec.min_image_size
    if min(shape[:2]) < least or any(side % 2**UPSAMPLINGS for side in shape[:2]):
        raise InvalidModel(
            "model.kind",
            expected=f"images whose height and width are multiples of 4 and at least {least} "
            f"for {len(spec.discriminator)} pools in the discriminator",
            received=f"images of {shape[0]} × {shape[1]}",
        )

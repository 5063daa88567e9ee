"""Models with a `train_step` or `compute_loss` of their own, which Keras's `fit` trains."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from zoo.architecture import IN_FIT, Architecture, Data, Wrap
from zoo.patterns_attention import small_images

LATENT = 4


def only_images(random: np.random.Generator, examples: int) -> Data:
    """Images without targets."""
    x, _ = small_images(random, examples)
    return (x,)


def _apply(optimizer: Any, loss: Any, tape: Any, weights: Any) -> None:
    """A step with a loss that the optimizer has scaled."""
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))


class VAE(keras.Model):  # type: ignore[misc]
    """A variational autoencoder with three means as metrics."""

    def __init__(self) -> None:
        super().__init__()
        inputs = keras.Input((16, 16, 3))
        x = layers.Flatten()(layers.Conv2D(8, 3, strides=2, activation="relu")(inputs))
        outputs = [layers.Dense(LATENT, name="mean")(x), layers.Dense(LATENT, name="log_var")(x)]
        self.encoder = keras.Model(inputs, outputs, name="encoder")
        inputs = keras.Input((LATENT,))
        x = layers.Reshape((8, 8, 4))(layers.Dense(256, activation="relu")(inputs))
        x = layers.Conv2DTranspose(3, 3, strides=2, padding="same")(x)
        self.decoder = keras.Model(inputs, x, name="decoder")
        self.seed_generator = keras.random.SeedGenerator(1)
        self.total_loss = keras.metrics.Mean(name="total_loss")
        self.reconstruction = keras.metrics.Mean(name="reconstruction_loss")
        self.divergence = keras.metrics.Mean(name="kl_loss")

    @property
    def metrics(self) -> list[Any]:
        """Those that each epoch begins with zeros."""
        return [self.total_loss, self.reconstruction, self.divergence]

    def call(self, images: Any) -> Any:
        """The images that the means are decoded to."""
        return self.decoder(self.encoder(images)[0])

    def train_step(self, data: Any) -> Any:
        """One step."""
        images = data[0] if isinstance(data, tuple) else data
        with tf.GradientTape() as tape:
            mean, log_variance = (ops.cast(x, "float32") for x in self.encoder(images))
            noise = keras.random.normal(ops.shape(mean), seed=self.seed_generator)
            decoded = self.decoder(mean + ops.exp(0.5 * log_variance) * noise)
            error = ops.square(ops.cast(decoded, "float32") - images)
            reconstruction = ops.mean(ops.sum(error, axis=(1, 2, 3)))
            divergence = 1 + log_variance - ops.square(mean) - ops.exp(log_variance)
            divergence = -0.5 * ops.mean(ops.sum(divergence, axis=1))
            loss = reconstruction + divergence
            scaled = self.optimizer.scale_loss(loss)
        _apply(self.optimizer, scaled, tape, self.trainable_weights)
        self.total_loss.update_state(loss)
        self.reconstruction.update_state(reconstruction)
        self.divergence.update_state(divergence)
        return {metric.name: metric.result() for metric in self.metrics}


def compile_with_one(model: Any, wrap: Wrap) -> None:
    """One optimizer."""
    model.compile(optimizer=wrap(keras.optimizers.Adam(1e-3)), jit_compile=False)


class GAN(keras.Model):  # type: ignore[misc]
    """A generator against a discriminator, each with its optimizer."""

    def __init__(self) -> None:
        super().__init__()
        self.discriminator = keras.Sequential(
            [
                keras.Input((16, 16, 3)),
                layers.Conv2D(8, 4, strides=2, padding="same"),
                layers.LeakyReLU(negative_slope=0.2),
                layers.Flatten(),
                layers.Dense(1),
            ],
            name="discriminator",
        )
        self.generator = keras.Sequential(
            [
                keras.Input((LATENT,)),
                layers.Dense(8 * 8 * 4),
                layers.Reshape((8, 8, 4)),
                layers.Conv2DTranspose(8, 4, strides=2, padding="same"),
                layers.LeakyReLU(negative_slope=0.2),
                layers.Conv2D(3, 5, padding="same"),
            ],
            name="generator",
        )
        self.seed_generator = keras.random.SeedGenerator(2)
        self.built = True

    def compile(self, d_optimizer: Any, g_optimizer: Any, **options: Any) -> None:
        """Two optimizers instead of one."""
        super().compile(**options)
        self.d_optimizer, self.g_optimizer = d_optimizer, g_optimizer
        self.loss_fn = keras.losses.BinaryCrossentropy(from_logits=True)
        self.d_loss_metric = keras.metrics.Mean(name="d_loss")
        self.g_loss_metric = keras.metrics.Mean(name="g_loss")

    @property
    def metrics(self) -> list[Any]:
        """Those that each epoch begins with zeros."""
        return [self.d_loss_metric, self.g_loss_metric]

    def _noise(self, images: Any) -> Any:
        return keras.random.normal((ops.shape(images)[0], LATENT), seed=self.seed_generator)

    def train_step(self, data: Any) -> Any:
        """One step of each network."""
        real = data[0] if isinstance(data, tuple) else data
        fake = self.generator(self._noise(real))
        images = ops.concatenate([ops.cast(fake, "float32"), real], axis=0)
        batch = ops.shape(real)[0]
        labels = ops.concatenate([ops.ones((batch, 1)), ops.zeros((batch, 1))], axis=0)
        with tf.GradientTape() as tape:
            d_loss = self.loss_fn(labels, self.discriminator(images))
            scaled = self.d_optimizer.scale_loss(d_loss)
        _apply(self.d_optimizer, scaled, tape, self.discriminator.trainable_weights)
        noise = self._noise(real)
        with tf.GradientTape() as tape:
            g_loss = self.loss_fn(labels[batch:], self.discriminator(self.generator(noise)))
            scaled = self.g_optimizer.scale_loss(g_loss)
        _apply(self.g_optimizer, scaled, tape, self.generator.trainable_weights)
        self.d_loss_metric.update_state(d_loss)
        self.g_loss_metric.update_state(g_loss)
        return {metric.name: metric.result() for metric in self.metrics}


class WGAN(GAN):
    """A critic with a gradient penalty, which takes two steps for each of the generator."""

    def _penalty(self, real: Any, fake: Any) -> Any:
        mixed = real + 0.3 * (fake - real)
        with tf.GradientTape() as tape:
            tape.watch(mixed)
            scores = ops.cast(self.discriminator(mixed, training=True), "float32")
        gradients = tape.gradient(scores, mixed)
        norm = ops.sqrt(ops.sum(ops.square(gradients), axis=[1, 2, 3]) + 1e-12)
        return ops.mean((norm - 1.0) ** 2)

    def train_step(self, data: Any) -> Any:
        """Two steps of the critic, one of the generator; what is returned are tensors."""
        real = data[0] if isinstance(data, tuple) else data
        d_loss = 0.0
        for _ in range(2):
            fake = ops.cast(self.generator(self._noise(real), training=True), "float32")
            with tf.GradientTape() as tape:
                cost = ops.mean(ops.cast(self.discriminator(fake), "float32"))
                cost -= ops.mean(ops.cast(self.discriminator(real), "float32"))
                d_loss = cost + 10.0 * self._penalty(real, fake)
                scaled = self.d_optimizer.scale_loss(d_loss)
            _apply(self.d_optimizer, scaled, tape, self.discriminator.trainable_weights)
        noise = self._noise(real)
        with tf.GradientTape() as tape:
            g_loss = -ops.mean(ops.cast(self.discriminator(self.generator(noise)), "float32"))
            scaled = self.g_optimizer.scale_loss(g_loss)
        _apply(self.g_optimizer, scaled, tape, self.generator.trainable_weights)
        return {"d_loss": d_loss, "g_loss": g_loss}

    @property
    def metrics(self) -> list[Any]:
        """None: the step returns its losses themselves."""
        return []


def compile_with_two(model: Any, wrap: Wrap) -> None:
    """Two optimizers."""
    model.compile(
        d_optimizer=wrap(keras.optimizers.Adam(1e-3, beta_1=0.5)),
        g_optimizer=wrap(keras.optimizers.Adam(1e-3, beta_1=0.5)),
        jit_compile=False,
    )


class Diffusion(keras.Model):  # type: ignore[misc]
    """Learns the noise in images; averages of the weights are a second network."""

    def __init__(self) -> None:
        super().__init__()
        self.normalizer = layers.Normalization()
        images, times = keras.Input((16, 16, 3)), keras.Input((1, 1, 1))
        x = layers.Concatenate()([images, layers.UpSampling2D(16)(times)])
        for width in (8, 8):
            x = layers.Conv2D(width, 3, padding="same", activation="swish")(x)
        outputs = layers.Conv2D(3, 1, kernel_initializer="zeros")(x)
        self.network = keras.Model([images, times], outputs, name="network")
        self.ema_network = keras.models.clone_model(self.network)
        self.seed_generator = keras.random.SeedGenerator(3)
        self.noise_loss = keras.metrics.Mean(name="n_loss")
        self.normalizer.adapt(np.random.default_rng(0).normal(1, 2, (8, 16, 16, 3)))
        self.built = True

    @property
    def metrics(self) -> list[Any]:
        """The loss of the noise."""
        return [self.noise_loss]

    def train_step(self, data: Any) -> Any:
        """One step, and one of the averages."""
        images = self.normalizer(data[0] if isinstance(data, tuple) else data, training=True)
        noise = keras.random.normal(ops.shape(images), seed=self.seed_generator)
        shape = (ops.shape(images)[0], 1, 1, 1)
        times = keras.random.uniform(shape, seed=self.seed_generator)
        noisy = ops.cos(times) * images + ops.sin(times) * noise
        with tf.GradientTape() as tape:
            predicted = ops.cast(self.network([noisy, times], training=True), "float32")
            loss = ops.mean(ops.abs(noise - predicted))
            scaled = self.optimizer.scale_loss(loss)
        _apply(self.optimizer, scaled, tape, self.network.trainable_weights)
        self.noise_loss.update_state(loss)
        for weight, average in zip(self.network.weights, self.ema_network.weights, strict=True):
            average.assign(0.99 * average + 0.01 * weight)
        return {"n_loss": self.noise_loss.result()}


class Distiller(keras.Model):  # type: ignore[misc]
    """A student that learns from labels and from a frozen teacher, by `compute_loss`."""

    def __init__(self) -> None:
        super().__init__()

        def network(width: int, name: str) -> Any:
            parts = [layers.Conv2D(width, 3, strides=2), layers.LeakyReLU(), layers.Flatten()]
            return keras.Sequential([keras.Input((16, 16, 3)), *parts, layers.Dense(4)], name=name)

        self.teacher, self.student = network(16, "teacher"), network(4, "student")
        self.teacher.trainable = False
        self.built = True

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """The losses of both."""
        teacher = ops.cast(self.teacher(x, training=False), "float32")
        student = ops.cast(y_pred, "float32")
        hard = keras.losses.sparse_categorical_crossentropy(y, student, from_logits=True)
        soft = keras.losses.kl_divergence(ops.softmax(teacher / 3), ops.softmax(student / 3))
        return ops.mean(0.1 * hard + 0.9 * soft)

    def call(self, x: Any, training: Any = None) -> Any:
        """The logits of the student."""
        return self.student(x, training=training)


class Contrastive(keras.Model):  # type: ignore[misc]
    """A triplet loss of one embedding network, with a metric that the step updates."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = keras.Sequential(
            [
                keras.Input((16, 16, 3)),
                layers.Conv2D(8, 3, strides=2, activation="relu"),
                layers.BatchNormalization(),
                layers.GlobalAveragePooling2D(),
                layers.Dense(8),
            ]
        )
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.built = True

    @property
    def metrics(self) -> list[Any]:
        """The loss."""
        return [self.loss_tracker]

    def train_step(self, data: Any) -> Any:
        """One step."""
        images = data[0] if isinstance(data, tuple) else data
        with tf.GradientTape() as tape:
            anchor = ops.cast(self.embedding(images, training=True), "float32")
            positive = ops.cast(self.embedding(images[:, ::-1], training=True), "float32")
            near = ops.sum(ops.square(anchor - positive), -1)
            far = ops.sum(ops.square(anchor - ops.roll(positive, 1, axis=0)), -1)
            loss = ops.mean(ops.maximum(near - far + 0.5, 0.0))
            scaled = self.optimizer.scale_loss(loss)
        _apply(self.optimizer, scaled, tape, self.embedding.trainable_weights)
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}


def _architecture(name: str, kind: str, build: Any, **options: Any) -> Architecture:
    """An architecture; its default is one optimizer and images alone."""
    return Architecture(
        **{
            "name": name,
            "source": f"Patterns of custom steps: {kind}",
            "build": build,
            "data": only_images,
            "compile_model": compile_with_one,
            "checks": IN_FIT,
            "refusal": f"train_step of its own.*{build.__name__}",
            **options,
        }
    )


def _both(model: Any) -> list[tuple[Any, Any]]:
    return [(model.discriminator, None), (model.generator, None)]


ARCHITECTURES = (
    _architecture(
        "vae_train_step",
        "variational autoencoder",
        VAE,
        columns=("total_loss", "reconstruction_loss", "kl_loss"),
        networks=lambda model: [(model.encoder, None), (model.decoder, None)],
    ),
    _architecture(
        "gan_train_step",
        "two networks, two optimizers",
        GAN,
        columns=("d_loss", "g_loss"),
        networks=_both,
        compile_model=compile_with_two,
    ),
    _architecture(
        "wgan_gradient_penalty",
        "gradients of gradients, several steps of the critic",
        WGAN,
        columns=("d_loss", "g_loss"),
        networks=_both,
        compile_model=compile_with_two,
    ),
    _architecture(
        "diffusion_train_step",
        "averages of weights as a second network",
        Diffusion,
        columns=("n_loss",),
        networks=lambda model: [(model.network, None)],
    ),
    _architecture(
        "distillation_compute_loss",
        "compute_loss with a frozen teacher",
        Distiller,
        data=small_images,
        columns=("loss",),
        networks=lambda model: [(model.student, None)],
        refusal="compute_loss of its own.*Distiller",
    ),
    _architecture(
        "contrastive_train_step",
        "triplets",
        Contrastive,
        columns=("loss",),
        networks=lambda model: [(model.embedding, None)],
    ),
)

"""Models of images and of points, as public examples build them."""

from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from zoo.architecture import NO_KEYWORDS, Data, pattern_of, slow_momentum
from zoo.patterns_attention import SPARSE, small_images

serializable = keras.saving.register_keras_serializable("zoo")


def unet() -> Any:
    """Segments images: separable convolutions down, transposed ones up, connections across."""
    inputs = keras.Input((32, 32, 3))
    x = layers.Conv2D(8, 3, strides=2, padding="same")(inputs)
    previous = x = layers.ReLU()(layers.BatchNormalization()(x))
    for filters in (16, 32):
        for _ in range(2):
            x = layers.SeparableConv2D(filters, 3, padding="same")(layers.ReLU()(x))
            x = layers.BatchNormalization()(x)
        x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
        residual = layers.Conv2D(filters, 1, strides=2, padding="same")(previous)
        previous = x = layers.add([x, residual])
    for filters in (32, 16, 8):
        for _ in range(2):
            x = layers.Conv2DTranspose(filters, 3, padding="same")(layers.ReLU()(x))
            x = layers.BatchNormalization()(x)
        x = layers.UpSampling2D(2)(x)
        residual = layers.Conv2D(filters, 1, padding="same")(layers.UpSampling2D(2)(previous))
        previous = x = layers.add([x, residual])
    return keras.Model(inputs, layers.Conv2D(3, 3, activation="softmax", padding="same")(x))


def segmented(random: np.random.Generator, examples: int) -> Data:
    """Images, and a class for each pixel."""
    x = random.normal(size=(examples, 32, 32, 3)).astype(np.float32)
    return x, (x.sum(-1) > 0).astype(np.uint8) + (x[..., 0] > 1).astype(np.uint8)


@serializable  # type: ignore[untyped-decorator]
def euclidean_distance(vectors: Any) -> Any:
    """The distance of two vectors."""
    first, second = vectors
    squares = ops.sum(ops.square(first - second), axis=1, keepdims=True)
    return ops.sqrt(ops.maximum(squares, 1e-7))


def siamese() -> Any:
    """One network for two images, their distance in a Lambda."""
    inputs = keras.Input((28, 28, 1))
    x = layers.BatchNormalization()(inputs)
    x = layers.Conv2D(4, 5, activation="tanh")(x)
    x = layers.AveragePooling2D(2)(x)
    x = layers.BatchNormalization()(layers.Flatten()(x))
    network = keras.Model(inputs, layers.Dense(10, activation="tanh")(x), name="embedding")
    left, right = keras.Input((28, 28, 1)), keras.Input((28, 28, 1))
    merged = layers.Lambda(euclidean_distance, output_shape=(1,))([network(left), network(right)])
    outputs = layers.Dense(1, activation="sigmoid")(layers.BatchNormalization()(merged))
    return keras.Model([left, right], outputs)


def contrastive_loss(y_true: Any, y_pred: Any) -> Any:
    """The contrastive loss with a margin of 1."""
    y_true = ops.cast(y_true, y_pred.dtype)
    margin = ops.square(ops.maximum(1 - y_pred, 0))
    return ops.mean((1 - y_true) * ops.square(y_pred) + y_true * margin)


def image_pairs(random: np.random.Generator, examples: int) -> Data:
    """Pairs of images of eight bits, of which half are equal."""
    left = random.integers(256, size=(examples, 28, 28, 1)).astype(np.uint8)
    right = left.copy()
    right[::2] = random.integers(256, size=right[::2].shape)
    return [left / np.float32(255), right / np.float32(255)], (np.arange(examples) % 2 == 0)[
        :, None
    ].astype(np.float32)


def spectral_discriminator() -> Any:
    """Convolutions whose kernels are divided by their largest singular value."""
    inputs = keras.Input((16, 16, 3))
    x = inputs
    for filters in (8, 16):
        convolution = layers.Conv2D(filters, 3, strides=2, padding="same")
        x = layers.LeakyReLU(0.2)(layers.SpectralNormalization(convolution)(x))
    x = layers.Flatten()(x)
    return keras.Model(inputs, layers.SpectralNormalization(layers.Dense(1))(x))


def real_or_fake(random: np.random.Generator, examples: int) -> Data:
    """Images, and whether they are real."""
    x, label = small_images(random, examples)
    return x, (label[:, None] > 1).astype(np.float32)


def hinge(y_true: Any, y_pred: Any) -> Any:
    """The hinge loss of a discriminator."""
    return ops.relu(1 - (2 * ops.cast(y_true, y_pred.dtype) - 1) * y_pred)


@serializable  # type: ignore[untyped-decorator]
class Involution(layers.Layer):  # type: ignore[misc]
    """A kernel for each pixel, made by a network from the pixel; returns it, too."""

    def __init__(self, channels: int, groups: int, **options: Any) -> None:
        super().__init__(**options)
        self.channels, self.groups = channels, groups

    def build(self, input_shape: Any) -> None:
        """Create the network of kernels."""
        self.reshape = layers.Reshape((*input_shape[1:3], 9, 1, self.groups))
        self.patches = layers.Reshape(
            (*input_shape[1:3], 9, self.channels // self.groups, self.groups)
        )
        self.kernels = keras.Sequential(
            [
                layers.Conv2D(self.channels // 2, 1),
                layers.BatchNormalization(),
                layers.ReLU(),
                layers.Conv2D(9 * self.groups, 1),
            ]
        )
        self.kernels.build(input_shape)

    def call(self, x: Any) -> Any:
        """The convolved image and the kernels."""
        kernel = self.reshape(self.kernels(x))
        patches = ops.image.extract_patches(x, size=3, strides=1, padding="same")
        output = ops.sum(ops.multiply(kernel, self.patches(patches)), axis=3)
        return ops.reshape(output, (-1, *x.shape[1:3], self.channels)), kernel

    def get_config(self) -> dict[str, Any]:
        """What its constructor takes."""
        return {**super().get_config(), "channels": self.channels, "groups": self.groups}


def involution() -> Any:
    """A small network of involutions."""
    inputs = keras.Input((16, 16, 3))
    x, _ = Involution(3, 1, name="inv_1")(inputs)
    x = layers.MaxPooling2D(2)(layers.ReLU()(x))
    x, _ = Involution(3, 1, name="inv_2")(x)
    return keras.Model(inputs, layers.Dense(4)(layers.Flatten()(layers.ReLU()(x))))


def super_resolution() -> Any:
    """Pixels from channels by depth_to_space, a function of TensorFlow in the graph."""
    inputs = keras.Input((None, None, 1))
    options = {"activation": "relu", "kernel_initializer": "orthogonal", "padding": "same"}
    x = layers.Conv2D(8, 5, **options)(inputs)
    x = layers.Conv2D(4, 3, **options)(layers.Conv2D(8, 3, **options)(x))
    return keras.Model(inputs, DepthToSpace(2)(x))


@serializable  # type: ignore[untyped-decorator]
class DepthToSpace(layers.Layer):  # type: ignore[misc]
    """Makes an image larger by what its channels hold."""

    def __init__(self, block: int) -> None:
        super().__init__()
        self.block = block

    def call(self, inputs: Any) -> Any:
        """The larger image."""
        return tf.nn.depth_to_space(inputs, self.block)


def enlarged(random: np.random.Generator, examples: int) -> Data:
    """Images in two sizes."""
    large = random.uniform(size=(examples, 16, 16, 1)).astype(np.float32)
    return large[:, ::2, ::2], large


def transfer_learning() -> Any:
    """A frozen base with batch normalization, augmentation in the model, a new head."""
    base = keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            layers.Conv2D(8, 3, use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Conv2D(8, 3),
        ],
        name="base",
    )
    base.trainable = False
    inputs = keras.Input((16, 16, 3))
    augmentation = keras.Sequential(
        [layers.RandomFlip("horizontal", seed=2), layers.RandomRotation(0.1, seed=3)]
    )
    x = base(layers.Rescaling(1 / 127.5, offset=-1)(augmentation(inputs)), training=False)
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(inputs, layers.Dense(4, name="head")(x))


def eight_bit_images(random: np.random.Generator, examples: int) -> Data:
    """Images of eight bits, and classes."""
    x = random.integers(256, size=(examples, 16, 16, 3)).astype(np.uint8)
    return x, random.integers(4, size=examples)


def fine_tuning() -> Any:
    """The same with the last convolution trained again, and its normalization frozen."""
    model = transfer_learning()
    base = model.get_layer("base")
    base.trainable = True
    for layer in base.layers[:2]:
        layer.trainable = False
    return model


def detector() -> Any:
    """Boxes and classes from one network; both losses have weights."""
    inputs = keras.Input((16, 16, 3), name="image")
    x = layers.Conv2D(8, 3, strides=2, activation="relu", kernel_regularizer="l2")(inputs)
    x = layers.DepthwiseConv2D(3, activation="relu6")(x)
    x = layers.Flatten()(x)
    box = layers.Dense(4, activation="sigmoid", name="box")(layers.Dense(16, "relu")(x))
    label = layers.Dense(3, activation="softmax", name="label")(layers.Dense(16, "relu")(x))
    return keras.Model(inputs, {"box": box, "label": label})


def objects(random: np.random.Generator, examples: int) -> Data:
    """Images, boxes with classes, and weights of the examples for each."""
    x, _ = small_images(random, examples)
    y = {
        "box": random.uniform(size=(examples, 4)).astype(np.float32),
        "label": random.integers(3, size=examples),
    }
    weight = {name: random.uniform(0.5, 2, examples).astype(np.float32) for name in y}
    return x, y, weight


def conv_mixer() -> Any:
    """Depthwise and pointwise convolutions with residuals, GELU, batch normalization."""
    inputs = keras.Input((16, 16, 3))
    x = layers.Conv2D(8, 2, strides=2)(layers.Rescaling(1.0)(inputs))
    for _ in range(2):
        x = layers.BatchNormalization()(layers.Activation("gelu")(x))
        mixed = layers.DepthwiseConv2D(5, padding="same")(x)
        x = layers.Add()([layers.BatchNormalization()(layers.Activation("gelu")(mixed)), x])
        x = layers.Conv2D(8, 1)(x)
    x = layers.GlobalAvgPool2D()(layers.BatchNormalization()(layers.Activation("gelu")(x)))
    return keras.Model(inputs, layers.Dense(4, activation="softmax")(x))


class MLPMixer(layers.Layer):  # type: ignore[misc]
    """Mixes patches and channels by turns; it has no get_config."""

    def __init__(self, patches: int, width: int) -> None:
        super().__init__()
        self.over_patches = keras.Sequential(
            [layers.Dense(patches, activation="gelu"), layers.Dense(patches), layers.Dropout(0.2)]
        )
        self.over_channels = keras.Sequential(
            [layers.Dense(width, activation="gelu"), layers.Dense(width), layers.Dropout(0.2)]
        )
        self.normalize = layers.LayerNormalization(epsilon=1e-6)

    def build(self, input_shape: Any) -> None:
        """Nothing beside the sub-layers."""
        self.built = True

    def call(self, inputs: Any) -> Any:
        """The mixed patches."""
        x = self.normalize(inputs)
        x = ops.transpose(self.over_patches(ops.transpose(x, (0, 2, 1))), (0, 2, 1)) + inputs
        return x + self.over_channels(self.normalize(x))


serializable(MLPMixer)


def mlp_mixer() -> Any:
    """Patches that layers without a config mix."""
    inputs = keras.Input((16, 16, 3))
    x = layers.Conv2D(8, 4, strides=4)(inputs)
    x = layers.Reshape((16, 8))(x)
    x = keras.Sequential([MLPMixer(16, 8), MLPMixer(16, 8)])(x)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, layers.Dense(4)(layers.Dropout(0.5)(x)))


@tf.custom_gradient  # type: ignore[untyped-decorator]
def reversed_gradient(x: Any) -> Any:
    """The input; its gradient has the other sign."""
    return tf.identity(x), lambda upstream: -upstream


@serializable  # type: ignore[untyped-decorator]
class GradientReversal(layers.Layer):  # type: ignore[misc]
    """Reverses gradients, so that features become equal in two domains."""

    def call(self, x: Any) -> Any:
        """The input."""
        return reversed_gradient(x)


def domain_adversarial() -> Any:
    """A class and a domain; the gradient of the domain is reversed."""
    inputs = keras.Input((16, 16, 3))
    x = layers.Conv2D(8, 3, activation="relu")(inputs)
    features = layers.GlobalMaxPooling2D()(x)
    domain = layers.Dense(8, activation="relu")(GradientReversal()(features))
    return keras.Model(
        inputs,
        [
            layers.Dense(4, name="label")(features),
            layers.Dense(1, activation="sigmoid", name="domain")(domain),
        ],
    )


def domains(random: np.random.Generator, examples: int) -> Data:
    """Images, classes and domains."""
    x, label = small_images(random, examples)
    return x, [label, (np.arange(examples) % 2).astype(np.float32)[:, None]]


pattern = partial(pattern_of, "vision")
CLASSES = "sparse_categorical_crossentropy"
ARCHITECTURES = (
    pattern(
        unet,
        "segmentation, SeparableConv2D, Conv2DTranspose",
        segmented,
        loss=CLASSES,
        optimizer=slow_momentum,
    ),
    pattern(siamese, "one network twice, Lambda", image_pairs, loss=contrastive_loss),
    pattern(spectral_discriminator, "SpectralNormalization", real_or_fake, loss=hinge),
    pattern(involution, "a layer with two results", small_images, loss=SPARSE),
    pattern(
        super_resolution,
        "operations of TensorFlow in a layer, any size",
        enlarged,
        loss="mse",
        deviations={"saved": NO_KEYWORDS},
    ),
    pattern(
        transfer_learning, "frozen base, augmentation, uint8 inputs", eight_bit_images, loss=SPARSE
    ),
    pattern(
        fine_tuning,
        "a base that is frozen in parts",
        eight_bit_images,
        loss=SPARSE,
        optimizer=slow_momentum,
    ),
    pattern(
        detector,
        "named outputs, weights of losses and examples",
        objects,
        loss={"box": "huber", "label": CLASSES},
        loss_weights={"box": 10.0, "label": 0.5},
        metrics={"box": ["mae"], "label": ["accuracy"]},
    ),
    pattern(conv_mixer, "residual mixing", small_images, loss=CLASSES),
    pattern(
        mlp_mixer,
        "layers without get_config",
        small_images,
        loss=SPARSE,
        deviations={"saved": NO_KEYWORDS},
    ),
    pattern(
        domain_adversarial,
        "tf.custom_gradient in a layer",
        domains,
        loss=[SPARSE, "binary_crossentropy"],
    ),
)

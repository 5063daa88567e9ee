"""The problems that every candidate solves: sizes, and data from a seed. NumPy only."""

from typing import Any

import numpy as np

CLASSES = 10
LEARNING_RATE = 1e-3


class Mlp:
    """784-64-64-10 with relu, batch 128, Adam, sparse categorical cross-entropy."""

    BATCH, STEPS = 128, 200
    INPUT = (784,)
    HIDDEN = (64, 64)


class Cnn:
    """The Keras MNIST convolutional network with dropout, batch 128, Adam.

    Conv 32 and Conv 64 of 3 × 3, max-pool 2, dropout ¼, dense 128, dropout ½, dense 10.
    """

    BATCH, STEPS = 128, 8
    INPUT = (28, 28, 1)
    PARAMETERS = 1_199_882


class Cnn512(Cnn):
    """The same network in batches for a GPU."""

    BATCH, STEPS = 512, 100


class Cnn4096(Cnn):
    """The same network in batches that fill a large GPU."""

    BATCH, STEPS = 4096, 30


class Dense4096:
    """Two dense layers of 4096, batch 8192: matrix products that fill a large GPU."""

    BATCH, STEPS = 8192, 30
    INPUT = (784,)
    HIDDEN = (4096, 4096)


class Dense4095(Dense4096):
    """The same with layers of 4095: no multiple of 8, as Tensor Cores want it."""

    HIDDEN = (4095, 4095)


class Wide:
    """Three dense layers of 2048, batch 512: nearly nothing but matrix products."""

    BATCH, STEPS = 512, 4
    INPUT = (2048,)
    HIDDEN = (2048, 2048, 2048)
    # Forward, and backward for the weights and for the inputs; the first layer omits the latter.
    FLOPS = 2 * BATCH * (3 * 3 * 2048 * 2048 - 2048 * 2048 + 3 * 2048 * CLASSES)


class Gan:
    """Two networks with an optimizer each, on 28 × 28 images, batch 256."""

    BATCH, STEPS = 256, 60
    INPUT = (28, 28, 1)
    LATENT, GENERATOR, DISCRIMINATOR = 100, (64, 32, 8), (24, 64, 128)


class ResNet50:
    """ResNet-50 (He et al. 2016) on images of 224 × 224, batch 128, Adam."""

    BATCH, STEPS = 128, 4
    INPUT = (224, 224, 3)


class Product:
    """The matrix products of Wide and a larger one, (rows, inner) × (inner, columns)."""

    STEPS = 2
    SHAPES = ((512, 2048, 2048), (2048, 512, 2048), (2048, 2048, 2048), (4096, 4096, 4096))


class Sparse:
    """An embedding table of a million rows of 64, of which a step touches 1,024."""

    VOCABULARY, DIMENSION, TOUCHED, STEPS = 1_000_000, 64, 1024, 4


def batches(problem: Any) -> tuple[Any, Any]:
    """Examples (steps, batch, ...), float32, and labels (steps, batch), int32."""
    generator = np.random.default_rng(0)
    shape = (problem.STEPS, problem.BATCH)
    x = generator.random((*shape, *problem.INPUT), dtype=np.float32)
    return x, generator.integers(0, CLASSES, shape, dtype=np.int32)


def rows(problem: Any) -> tuple[Any, Any]:
    """Rows of the table (steps, touched), int32, and labels of 0 or 1, float32."""
    generator = np.random.default_rng(0)
    shape = (problem.STEPS, problem.TOUCHED)
    touched = generator.integers(0, problem.VOCABULARY, shape, dtype=np.int32)
    return touched, generator.integers(0, 2, shape).astype(np.float32)

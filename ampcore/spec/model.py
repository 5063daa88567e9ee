"""What a job may train: one class per model kind."""

from typing import Annotated, Literal

from pydantic import Field

from ampcore.spec.part import Layers, Part, Probability, Units

Activation = Literal["relu", "gelu", "tanh", "sigmoid", "elu", "selu", "silu", "linear"]


class Mlp(Part):
    """Dense layers of `hidden` units, each followed by dropout; images are flattened."""

    kind: Literal["mlp"] = "mlp"
    hidden: Layers = (64, 64)
    activation: Activation = "relu"
    dropout: Probability = 0.0


class Cnn(Part):
    """Valid convolutions, one 2 × 2 max-pool, dropout, then dense layers with dropout.

    The defaults are the Keras MNIST example (1,199,882 parameters on 28 × 28 × 1).
    """

    kind: Literal["cnn"] = "cnn"
    filters: Layers = Field(default=(32, 64), min_length=1)
    kernel: int = Field(default=3, ge=1, le=15)
    dense: Layers = (128,)
    dropout: Probability = 0.25
    dense_dropout: Probability = 0.5


class LeNet5(Part):
    """LeNet-5 with ReLU and max-pooling (61,706 parameters); images are resized to 32 × 32."""

    kind: Literal["lenet5"] = "lenet5"


class ResNet(Part):
    """A CIFAR-style residual network of `depth` = 6n + 2 layers."""

    kind: Literal["resnet"] = "resnet"
    depth: int = Field(default=20, ge=8, le=1202)
    width: Units = 16


class Gan(Part):
    """A generator and a discriminator, each with an optimizer and a loss scale of its own."""

    kind: Literal["gan"] = "gan"
    latent: Units = 100
    generator: Layers = (64, 32, 8)
    discriminator: Layers = (24, 64, 128)


class Embedding(Part):
    """Sparse embeddings of `slots` × `nnz` keys, then dense layers to one logit."""

    kind: Literal["embedding"] = "embedding"
    slots: Units = 10
    nnz: Units = 5
    vocabulary: int = Field(default=1024, ge=1, le=2**31 - 1)
    dim: Units = 8
    hidden: Layers = ()


class LstmLm(Part):
    """A character language model of stacked LSTM layers."""

    kind: Literal["lstm_lm"] = "lstm_lm"
    units: Units = 256
    layers: int = Field(default=1, ge=1, le=64)
    dim: Units = 64


class TransformerLm(Part):
    """A character language model of causal transformer blocks."""

    kind: Literal["transformer_lm"] = "transformer_lm"
    layers: int = Field(default=2, ge=1, le=128)
    heads: int = Field(default=4, ge=1, le=128)
    dim: Units = 128


class KerasApplication(Part):
    """Any architecture of keras.applications, with random weights."""

    kind: Literal["keras_application"] = "keras_application"
    name: str = Field(min_length=1, max_length=64)


ModelSpec = Annotated[
    Mlp | Cnn | LeNet5 | ResNet | Gan | Embedding | LstmLm | TransformerLm | KerasApplication,
    Field(discriminator="kind"),
]

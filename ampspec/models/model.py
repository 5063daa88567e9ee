"""The kinds of model that a job can train, one class each."""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticKnownError

from ampspec.documents.base import LayerSizes, Probability, SpecModel, Units
from ampspec.layers.base import InputNames
from ampspec.layers.entry import LayerEntry
from ampspec.layers.fields import LayerName, Sizes
from ampspec.layers.graph import LayerGraph, connect
from ampspec.layers.inference import MAX_RANK
from ampspec.models.bundle import BundleReference, EntryPoint, Options
from ampspec.references.package import EntryPointGroup, PackageReference

Activation = Literal["relu", "gelu", "tanh", "sigmoid", "elu", "selu", "silu", "linear"]


class Model(SpecModel):
    """The properties that all kinds of model have in common."""

    networks: ClassVar[tuple[str, ...]] = ("model",)
    """The names of its networks, each with its own optimizer and loss scale."""


class Mlp(Model):
    """Dense layers of `hidden` units, each followed by dropout; images are flattened."""

    kind: Literal["mlp"] = "mlp"
    hidden: LayerSizes = (64, 64)
    activation: Activation = "relu"
    dropout: Probability = 0.0


class Cnn(Model):
    """Valid convolutions, one 2 × 2 max-pool, dropout, then dense layers with dropout.

    The defaults are the Keras MNIST example (1,199,882 parameters on 28 × 28 × 1).
    """

    kind: Literal["cnn"] = "cnn"
    filters: LayerSizes = Field(default=(32, 64), min_length=1)
    kernel: int = Field(default=3, ge=1, le=15)
    dense: LayerSizes = (128,)
    dropout: Probability = 0.25
    dense_dropout: Probability = 0.5


class LeNet5(Model):
    """LeNet-5 with ReLU and max-pooling (61,706 parameters); images are resized to 32 × 32."""

    kind: Literal["lenet5"] = "lenet5"


class ResNet(Model):
    """A CIFAR-style residual network of `depth` = 6n + 2 layers."""

    kind: Literal["resnet"] = "resnet"
    depth: int = Field(default=20, ge=8, le=1202)
    width: Units = 16


class Gan(Model):
    """A generator and a discriminator, each with its own optimizer and loss scale."""

    kind: Literal["gan"] = "gan"
    networks: ClassVar[tuple[str, ...]] = ("generator", "discriminator")
    latent: Units = 100
    generator: LayerSizes = Field(default=(64, 32, 8), min_length=2)
    """Filters of the convolutions; the image size doubles after each of the first two."""
    discriminator: LayerSizes = Field(default=(24, 64, 128), min_length=1, max_length=16)
    """Filters of the convolutions, each followed by a 2 × 2 pool."""

    @property
    def min_image_size(self) -> int:
        """The minimum height and width for the discriminator's pools."""
        return max(4, 1 << len(self.discriminator))


class EmbeddingModel(Model):
    """Sparse embeddings of `slots` × `nnz` keys, then dense layers to one logit."""

    kind: Literal["embedding"] = "embedding"
    slots: Units = 10
    nnz: Units = 5
    vocabulary: int = Field(default=1024, ge=1, le=2**31 - 1)
    dim: Units = 8
    hidden: LayerSizes = ()
    placement: Literal["replicated", "sharded"] = Field(
        default="replicated", exclude_if=lambda placement: placement == "replicated"
    )
    """Where the table is stored with several ranks. replicated: every rank has all rows. sharded:
    every rank has a share of the rows and of their optimizer state; see
    [several devices](../guides/several-devices.md)."""


class LstmLm(Model):
    """A character language model of stacked LSTM layers."""

    kind: Literal["lstm_lm"] = "lstm_lm"
    units: Units = 256
    layers: int = Field(default=1, ge=1, le=64)
    dim: Units = 64


class TransformerLm(Model):
    """A character language model of causal transformer blocks; `heads` divides `dim`."""

    kind: Literal["transformer_lm"] = "transformer_lm"
    layers: int = Field(default=2, ge=1, le=128)
    heads: int = Field(default=4, ge=1, le=128)
    dim: Units = 128


Application = Literal[
    "ConvNeXtBase",
    "ConvNeXtLarge",
    "ConvNeXtSmall",
    "ConvNeXtTiny",
    "ConvNeXtXLarge",
    "DenseNet121",
    "DenseNet169",
    "DenseNet201",
    "EfficientNetB0",
    "EfficientNetB1",
    "EfficientNetB2",
    "EfficientNetB3",
    "EfficientNetB4",
    "EfficientNetB5",
    "EfficientNetB6",
    "EfficientNetB7",
    "EfficientNetV2B0",
    "EfficientNetV2B1",
    "EfficientNetV2B2",
    "EfficientNetV2B3",
    "EfficientNetV2L",
    "EfficientNetV2M",
    "EfficientNetV2S",
    "InceptionResNetV2",
    "InceptionV3",
    "MobileNet",
    "MobileNetV2",
    "MobileNetV3Large",
    "MobileNetV3Small",
    "NASNetLarge",
    "NASNetMobile",
    "ResNet101",
    "ResNet101V2",
    "ResNet152",
    "ResNet152V2",
    "ResNet50",
    "ResNet50V2",
    "VGG16",
    "VGG19",
    "Xception",
]
"""The functions of keras.applications that build a model."""

MIN_IMAGE_SIZES: Final[dict[str, int]] = {
    "InceptionResNetV2": 75,
    "InceptionV3": 75,
    "Xception": 71,
}
"""Minimum height and width of the networks that do not support 32 × 32."""


class KerasApplication(Model):
    """A network of keras.applications, with random weights."""

    kind: Literal["keras_application"] = "keras_application"
    name: Application

    @property
    def min_image_size(self) -> int:
        """The minimum height and width of its images."""
        return MIN_IMAGE_SIZES.get(self.name, 32)


class NamedInput(SpecModel):
    """One input of a model of layers."""

    shape: Annotated[tuple[int, ...], Sizes(length=MAX_RANK)]
    """The shape of one example, without the batch."""
    dtype: Literal["float32", "int32"] = "float32"
    """int32 for keys, such as tokens."""


def _check_not_empty(layers: tuple[LayerEntry, ...]) -> tuple[LayerEntry, ...]:
    # With `min_length` a list of invalid layers would also count as empty.
    if not layers:
        raise PydanticKnownError(
            "too_short", {"field_type": "List", "min_length": 1, "actual_length": 0}
        )
    return layers


class Layers(Model):
    """A custom network: Keras layers, described one by one."""

    kind: Literal["layers"] = "layers"
    inputs: dict[LayerName, NamedInput] = Field(default_factory=dict, max_length=16)
    """The inputs by name; empty: one input, `input`, with the shape of the data."""
    layers: Annotated[
        tuple[LayerEntry, ...],
        Field(strict=False, max_length=1024, json_schema_extra={"minItems": 1}),
        AfterValidator(_check_not_empty),
    ]
    """The layers, and further calls of them, `{reuse: NAME}`: see [layers](layers.md)."""
    outputs: InputNames | None = None
    """The names of the layers that are the outputs of the model; by default the last layer."""

    def connect(self) -> LayerGraph:
        """The calls of the layers in the order of their inputs, or the problems with them."""
        return connect(self.layers, tuple(self.inputs), self.outputs or ())


class Bundle(Model):
    """A Keras model built by your Python code, in a sandbox.

    It needs a token with the scope `jobs:run-code`: see
    [custom models](../guides/custom-models.md).
    """

    kind: Literal["bundle"] = "bundle"
    bundle: BundleReference
    """The SHA-256 of the code; `ampctl submit --code FOLDER` fills it in."""
    build: EntryPoint = "net:build"
    """The module and its function that returns the model."""
    options: Options = Field(default_factory=dict)
    """The first argument of that function: a JSON object of up to 16 KiB and 8 levels."""


class Package(Model, PackageReference):
    """A model of a Python package that the operator has installed on workers."""

    group: ClassVar[EntryPointGroup] = "ampcore.models"
    section: ClassVar[str] = "model"
    kind: Literal["package"] = "package"


ModelSpec = Annotated[
    Mlp
    | Cnn
    | LeNet5
    | ResNet
    | Gan
    | EmbeddingModel
    | LstmLm
    | TransformerLm
    | KerasApplication
    | Layers
    | Bundle
    | Package,
    Field(discriminator="kind"),
]

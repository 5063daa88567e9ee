"""The image classifiers: mlp, cnn, lenet5 and resnet.

Sources: https://keras.io/examples/vision/mnist_convnet (cnn); LeCun et al. 1998, "Gradient-based
learning applied to document recognition" (lenet5); He et al. 2016, arXiv:1512.03385, section 4.2,
with the projection shortcuts of its section 3.3, option B (resnet).
"""

from typing import Final

from ampspec.models.model import Cnn, LeNet5, Mlp, ResNet
from ampspec.networks.description import DataShape, NetworkBuilder, NetworkDescription

LENET_SIZE: Final = (32, 32)
RESNET_STAGES: Final = 3


def mlp(spec: Mlp, data: DataShape) -> dict[str, NetworkDescription]:
    """Flatten → (Dense → Dropout) for each of `hidden` → logits."""
    builder = NetworkBuilder("mlp", "examples", data.example)
    if len(data.example) > 1:
        builder.add("Flatten", "flatten")
    _add_dense_stack(
        builder,
        spec.hidden,
        spec.activation,
        spec.dropout,
        pointer="/model/hidden",
        input_pointer=data.pointer,
    )
    return _classifier(builder, data.classes)


def cnn(spec: Cnn, data: DataShape) -> dict[str, NetworkDescription]:
    """Valid convolutions → 2 × 2 max-pool → Dropout → (Dense → Dropout)… → logits."""
    builder = _image_network("cnn", data)
    for index, filters in enumerate(spec.filters):
        builder.add(
            "Conv2D",
            f"conv_{index + 1}",
            filters=filters,
            kernel_size=(spec.kernel, spec.kernel),
            activation="relu",
            spec_fields={"filters": f"/model/filters/{index}"},
        )
    builder.add("MaxPooling2D", "pool", pool_size=(2, 2))
    if spec.dropout:
        builder.add("Dropout", "dropout", rate=spec.dropout)
    builder.add("Flatten", "flatten")
    _add_dense_stack(builder, spec.dense, "relu", spec.dense_dropout, pointer="/model/dense")
    return _classifier(builder, data.classes)


def lenet5(spec: LeNet5, data: DataShape) -> dict[str, NetworkDescription]:
    """Conv 6 → pool → Conv 16 → pool → 120 → 84 → logits, on images of 32 × 32."""
    builder = _image_network("lenet5", data)
    if data.example[:2] != LENET_SIZE:
        builder.add("Resizing", "resize", height=LENET_SIZE[0], width=LENET_SIZE[1])
    for index, filters in enumerate((6, 16), start=1):
        builder.add(
            "Conv2D",
            f"conv_{index}",
            filters=filters,
            kernel_size=(5, 5),
            activation="relu",
            spec_fields={"filters": "/model/kind"},
        )
        builder.add("MaxPooling2D", f"pool_{index}", pool_size=(2, 2))
    builder.add("Flatten", "flatten")
    for index, units in enumerate((120, 84), start=1):
        builder.add(
            "Dense",
            f"dense_{index}",
            units=units,
            activation="relu",
            spec_fields={"units": "/model/kind"},
        )
    return _classifier(builder, data.classes)


def resnet(spec: ResNet, data: DataShape) -> dict[str, NetworkDescription]:
    """Conv → three stages of n blocks with `width`, 2 and 4 times `width` filters → mean → logits.

    Every stage but the first halves the image.
    """
    builder = _image_network("resnet", data)
    _add_conv_norm(builder, spec.width, "stem")
    builder.add("ReLU", "stem_relu")
    for stage in range(RESNET_STAGES):
        for block in range((spec.depth - 2) // 6):
            strides = 2 if stage > 0 and block == 0 else 1
            name = f"stage_{stage + 1}_block_{block + 1}"
            _add_residual_block(builder, spec.width * 2**stage, strides, name)
    builder.add("GlobalAveragePooling2D", "pool")
    return _classifier(builder, data.classes)


def image_shape(example: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an image as (height, width, channels); one of rank 2 has one channel."""
    return example if len(example) == 3 else (*example, 1)


def _image_network(name: str, data: DataShape) -> NetworkBuilder:
    builder = NetworkBuilder(name, "images", data.example)
    if len(data.example) == 2:
        builder.add("Reshape", "channel", target_shape=image_shape(data.example))
    return builder


def _add_dense_stack(
    builder: NetworkBuilder,
    units: tuple[int, ...],
    activation: str,
    dropout: float,
    *,
    pointer: str,
    input_pointer: str | None = None,
) -> None:
    for index, width in enumerate(units):
        builder.add(
            "Dense",
            f"dense_{index + 1}",
            units=width,
            activation=activation,
            spec_fields={
                "inputs": input_pointer if index == 0 else None,
                "units": f"{pointer}/{index}",
            },
        )
        if dropout:
            builder.add("Dropout", f"dense_dropout_{index + 1}", rate=dropout)


def _classifier(builder: NetworkBuilder, classes: int) -> dict[str, NetworkDescription]:
    builder.add("Dense", "predictions", units=classes)
    return {"model": builder.network()}


def _add_residual_block(builder: NetworkBuilder, filters: int, strides: int, name: str) -> None:
    """Two convolutions whose output is added to the input, projected where the shape changes."""
    shortcut = builder.output
    _add_conv_norm(builder, filters, f"{name}_1", strides=strides)
    builder.add("ReLU", f"{name}_1_relu")
    residual = _add_conv_norm(builder, filters, f"{name}_2")
    if strides != 1:
        shortcut = _add_conv_norm(
            builder, filters, f"{name}_shortcut", shortcut, strides=strides, kernel=1
        )
    builder.add("Add", f"{name}_add", shortcut, residual)
    builder.add("ReLU", f"{name}_relu")


def _add_conv_norm(
    builder: NetworkBuilder,
    filters: int,
    name: str,
    *inputs: str,
    strides: int = 1,
    kernel: int = 3,
) -> str:
    """A convolution without a bias: the batch normalization after it would cancel the bias."""
    builder.add(
        "Conv2D",
        f"{name}_conv",
        *inputs,
        filters=filters,
        kernel_size=(kernel, kernel),
        strides=(strides, strides),
        padding="same",
        use_bias=False,
        kernel_initializer="he_normal",
        spec_fields={"filters": "/model/width"},
    )
    return builder.add("BatchNormalization", f"{name}_norm")

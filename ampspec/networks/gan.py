"""The generator and the discriminator of the GAN.

Source: Goodfellow et al. 2014, arXiv:1406.2661; the networks are those of the GAN in the profiling
lessons of Argonne's ALCF.
"""

from typing import Final

from ampspec.layers.inference import Shape
from ampspec.models.model import Gan
from ampspec.networks.description import DataShape, NetworkBuilder, NetworkDescription
from ampspec.networks.images import image_shape

UPSAMPLINGS: Final = 2
"""How many times the generator doubles the image size."""
KERNEL: Final = 5
DROPOUT: Final = 0.4


def gan(spec: Gan, data: DataShape) -> dict[str, NetworkDescription]:
    """The two networks; 477,713 and 245,169 parameters on 28 × 28 × 1."""
    shape = image_shape(data.example)
    return {"generator": _generator(spec, shape), "discriminator": _discriminator(spec, shape)}


def _generator(spec: Gan, shape: Shape) -> NetworkDescription:
    """Noise → Dense → a quarter of the image → (norm → Conv → double)… → image from 0 to 1."""
    builder = NetworkBuilder("generator", "noise", (spec.latent,))
    height, width = (side // 2**UPSAMPLINGS for side in shape[:2])
    channels = spec.generator[0]
    builder.add(
        "Dense",
        "dense",
        units=height * width * channels,
        spec_fields={"inputs": "/model/latent"},
    )
    builder.add("Reshape", "reshape", target_shape=(height, width, channels))
    for index, filters in enumerate(spec.generator):
        builder.add("BatchNormalization", f"norm_{index + 1}")
        _add_conv(builder, filters, f"conv_{index + 1}", f"/model/generator/{index}")
        if index < UPSAMPLINGS:
            builder.add("UpSampling2D", f"up_{index + 1}", size=(2, 2))
    builder.add("BatchNormalization", "norm_image")
    _add_conv(builder, shape[-1], "image", activation="sigmoid")
    return builder.network()


def _discriminator(spec: Gan, shape: Shape) -> NetworkDescription:
    """(Conv → pool → Dropout)… → one logit."""
    builder = NetworkBuilder("discriminator", "images", shape)
    for index, filters in enumerate(spec.discriminator):
        _add_conv(builder, filters, f"conv_{index + 1}", f"/model/discriminator/{index}")
        builder.add("MaxPooling2D", f"pool_{index + 1}", pool_size=(2, 2))
        builder.add("Dropout", f"dropout_{index + 1}", rate=DROPOUT)
    builder.add("Flatten", "flatten")
    # Checkpoints and overrides use this name of the layer.
    builder.add("Dense", "verdict", units=1)
    return builder.network()


def _add_conv(
    builder: NetworkBuilder,
    filters: int,
    name: str,
    pointer: str | None = None,
    activation: str = "tanh",
) -> None:
    builder.add(
        "Conv2D",
        name,
        filters=filters,
        kernel_size=(KERNEL, KERNEL),
        padding="same",
        activation=activation,
        spec_fields={"filters": pointer},
    )

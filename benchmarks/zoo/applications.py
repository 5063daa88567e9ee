"""All models of keras.applications, untrained, on the smallest inputs that they take."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import keras
import numpy as np

from zoo.architecture import TRAINED, Architecture, Check, Data, Deviation, slow_momentum

CLASSES: Final = 4
SIDE: Final = 64
"""The side of the images. With 32, most models end with one pixel: batch normalization of so few
numbers makes them chaotic, and their gradients overflow in float16."""
SMALLEST: Final[Mapping[str, int]] = {"InceptionV3": 75, "InceptionResNetV2": 75, "Xception": 71}
"""The smallest sides that models take, where they are larger."""
SMALLEST_OF_FAMILY: Final = frozenset(
    {
        *("ConvNeXtTiny", "DenseNet121", "EfficientNetB0", "EfficientNetV2B0", "InceptionV3"),
        *("MobileNet", "MobileNetV2", "MobileNetV3Large", "MobileNetV3Small", "NASNetMobile"),
        *("ResNet50", "ResNet50V2", "Xception"),
    }
)
"""Those with all checks. Larger ones have the same layers, and take minutes for each check."""
CHAOTIC: Final = frozenset(
    {
        *(f"EfficientNetB{number}" for number in range(8)),
        *(f"EfficientNetV2{size}" for size in ("B0", "B1", "B2", "B3", "S", "M", "L")),
        *("MobileNetV3Large", "MobileNetV3Small", "ResNet50V2", "ResNet101V2", "ResNet152V2"),
    }
)
"""Those whose batch normalization of few numbers enlarges the last bits of a sum."""
LARGEST: Final = frozenset(
    {
        *("ConvNeXtBase", "ConvNeXtLarge", "ConvNeXtXLarge", "DenseNet201"),
        *("EfficientNetB4", "EfficientNetB5", "EfficientNetB6", "EfficientNetB7"),
        *("EfficientNetV2M", "EfficientNetV2L", "InceptionResNetV2", "NASNetLarge"),
        *("ResNet152", "ResNet152V2", "VGG19"),
    }
)
"""Those that are not even saved and loaded."""
LIGHT_CHECKS: Final[tuple[Check, ...]] = ("float32", "mixed_bfloat16", "saved")
OTHER_DRAWS: Final = Deviation(
    "its first step is skipped, which gives back the random numbers of its dropout; a skipped step "
    "of Keras uses them up. In plain Keras the first loss is 3.6, 2.6 or 5.0, by what it draws "
    "in float32, bfloat16 and float16",
    "the losses end",
)
NAMES: Final = (
    *("ConvNeXtTiny", "ConvNeXtSmall", "ConvNeXtBase", "ConvNeXtLarge", "ConvNeXtXLarge"),
    *("DenseNet121", "DenseNet169", "DenseNet201"),
    *(f"EfficientNetB{number}" for number in range(8)),
    *(f"EfficientNetV2{size}" for size in ("B0", "B1", "B2", "B3", "S", "M", "L")),
    *("InceptionResNetV2", "InceptionV3"),
    *("MobileNet", "MobileNetV2", "MobileNetV3Large", "MobileNetV3Small"),
    *("NASNetLarge", "NASNetMobile"),
    *("ResNet50", "ResNet50V2", "ResNet101", "ResNet101V2", "ResNet152", "ResNet152V2"),
    *("VGG16", "VGG19", "Xception"),
)


def build(name: str) -> Any:
    """The model of this name."""
    side = SMALLEST.get(name, SIDE)
    function = getattr(keras.applications, name)
    return function(weights=None, input_shape=(side, side, 3), classes=CLASSES)


def images(random: np.random.Generator, examples: int, side: int) -> Data:
    """Noise in the range of pixels as most of these models expect it, and classes."""
    x = random.uniform(-1, 1, (examples, side, side, 3)).astype(np.float32)
    return x, random.integers(CLASSES, size=examples)


def _architecture(name: str) -> Architecture:
    checks, left_out = TRAINED, ""
    if name in LARGEST:
        checks, left_out = LIGHT_CHECKS[:2], "one of the largest: two checks in two steps"
    elif name not in SMALLEST_OF_FAMILY:
        checks, left_out = LIGHT_CHECKS, "a larger one: three checks in two steps"
    return Architecture(
        name=name,
        source="keras.applications",
        build=partial(build, name),
        data=partial(images, side=SMALLEST.get(name, SIDE)),
        loss="sparse_categorical_crossentropy",
        optimizer=slow_momentum,
        batch_size=8,
        steps=2 if left_out else 4,
        chaotic="batch normalization of few numbers" if name in CHAOTIC else "",
        checks=checks,
        left_out=left_out,
        deviations={"mixed_float16": OTHER_DRAWS} if name == "EfficientNetB0" else {},
    )


ARCHITECTURES = tuple(map(_architecture, NAMES))

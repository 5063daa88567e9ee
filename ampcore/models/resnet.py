"""Residual networks for small images, of depth 6n + 2.

Source: He et al. 2016, arXiv:1512.03385, section 4.2, with the projection shortcuts of its
section 3.3 (option B): 272,474 trainable parameters for depth 20 on 32 × 32 × 3 and 10 classes,
where the paper, with shortcuts free of parameters, counts 0.27 million as well.
"""

from typing import Any

from keras import layers

from ampcore.data.dataset import Signature
from ampcore.models.classification import Classification
from ampcore.models.classifier import classifier, image_input
from ampcore.models.registry import register
from ampcore.spec.model import ResNet

STAGES = 3


@register("resnet", Classification)
def resnet(spec: ResNet, signature: Signature) -> Any:
    """Conv → three stages of n blocks with `width`, 2 and 4 times `width` filters → mean → logits.

    Every stage but the first halves the image.
    """
    inputs, x = image_input(signature)
    x = _conv_norm(x, spec.width, "stem")
    x = layers.ReLU(name="stem_relu")(x)
    for stage in range(STAGES):
        for block in range((spec.depth - 2) // 6):
            stride = 2 if stage > 0 and block == 0 else 1
            x = _block(x, spec.width * 2**stage, stride, f"stage_{stage + 1}_block_{block + 1}")
    x = layers.GlobalAveragePooling2D(name="pool")(x)
    return classifier(inputs, x, signature.classes, "resnet")


def _block(x: Any, filters: int, stride: int, name: str) -> Any:
    """Two convolutions around which the input goes unchanged, or projected to their shape."""
    out = _conv_norm(x, filters, f"{name}_1", stride)
    out = layers.ReLU(name=f"{name}_1_relu")(out)
    out = _conv_norm(out, filters, f"{name}_2")
    if stride != 1 or x.shape[-1] != filters:
        x = _conv_norm(x, filters, f"{name}_shortcut", stride, kernel=1)
    out = layers.Add(name=f"{name}_add")([x, out])
    return layers.ReLU(name=f"{name}_relu")(out)


def _conv_norm(x: Any, filters: int, name: str, stride: int = 1, kernel: int = 3) -> Any:
    """A convolution without a bias, which the batch normalization after it would take away."""
    x = layers.Conv2D(
        filters,
        kernel,
        strides=stride,
        padding="same",
        use_bias=False,
        kernel_initializer="he_normal",
        name=f"{name}_conv",
    )(x)
    return layers.BatchNormalization(name=f"{name}_norm")(x)

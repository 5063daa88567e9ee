"""Checks the data of mlp, cnn, lenet5, resnet; builds them from `ampspec.networks.images`."""

from typing import Any

from ampcore.data.dataset import Signature
from ampcore.models.builders.from_description import build_networks, check_images
from ampcore.models.classification import Classification
from ampcore.models.registry import register
from ampspec.errors import InvalidModel
from ampspec.models.model import Cnn, LeNet5, Mlp, ResNet


@register("mlp", Classification)
def mlp(spec: Mlp, signature: Signature) -> Any:
    """A multilayer perceptron over flattened examples."""
    if signature.input_dtype != "float32":
        raise InvalidModel(
            "model.kind",
            expected="float32 examples for a multilayer perceptron; tokens and other keys need an "
            "Embedding, as in model.kind: layers that begin with {layer: Embedding}",
            received=f"{signature.input_dtype} examples of shape {list(signature.input_shape)}",
        )
    return build_networks(spec, signature)


@register("cnn", Classification)
def cnn(spec: Cnn, signature: Signature) -> Any:
    """The Keras MNIST convolutional network, of any depth and width."""
    check_images(signature)
    shape = signature.input_shape
    min_size = len(spec.filters) * (spec.kernel - 1) + 2
    if min(shape[:2]) < min_size:
        raise InvalidModel(
            "model.filters",
            expected=f"images of at least {min_size} × {min_size} for {len(spec.filters)} valid "
            f"convolutions of {spec.kernel} × {spec.kernel} and a 2 × 2 pool",
            received=f"images of {shape[0]} × {shape[1]}",
        )
    return build_networks(spec, signature)


@register("lenet5", Classification)
def lenet5(spec: LeNet5, signature: Signature) -> Any:
    """LeNet-5 with ReLU and max-pooling: 61,706 parameters on 32 × 32 × 1."""
    check_images(signature)
    return build_networks(spec, signature)


@register("resnet", Classification)
def resnet(spec: ResNet, signature: Signature) -> Any:
    """A residual network for small images, of depth 6n + 2.

    Its shortcuts are projections: 272,474 trainable parameters for depth 20 on 32 × 32 × 3 and 10
    classes, where the paper, with shortcuts free of parameters, counts 0.27 million as well.
    """
    check_images(signature)
    return build_networks(spec, signature)

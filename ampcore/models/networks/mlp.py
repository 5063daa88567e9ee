"""A multilayer perceptron over flattened examples."""

from typing import Any

from ampcore.data.dataset import Signature
from ampcore.models.classification import Classification
from ampcore.models.networks.building_blocks import build_networks
from ampcore.models.registry import register
from ampspec.errors import InvalidModel
from ampspec.models.model import Mlp


@register("mlp", Classification)
def mlp(spec: Mlp, signature: Signature) -> Any:
    """Flatten → (Dense → Dropout) for each of `hidden` → logits."""
    if signature.input_dtype != "float32":
        raise InvalidModel(
            "model.kind",
            expected="float32 examples for a multilayer perceptron; tokens and other keys need an "
            "Embedding, as in own layers (model.kind: layers) that begin with {layer: Embedding}",
            received=f"{signature.input_dtype} examples of shape {list(signature.input_shape)}",
        )
    return build_networks(spec, signature)

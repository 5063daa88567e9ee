"""LeNet-5 with ReLU and max-pooling, as MindSpore trains it.

Source: LeCun et al. 1998, "Gradient-based learning applied to document recognition".
"""

from typing import Any

from ampcore.data.dataset import Signature
from ampcore.models.classification import Classification
from ampcore.models.networks.building_blocks import build_networks, check_images
from ampcore.models.registry import register
from ampspec.models.model import LeNet5


@register("lenet5", Classification)
def lenet5(spec: LeNet5, signature: Signature) -> Any:
    """Conv 6 → pool → Conv 16 → pool → 120 → 84 → logits; 61,706 parameters on 32 × 32 × 1."""
    check_images(signature)
    return build_networks(spec, signature)

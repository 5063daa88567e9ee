"""Residual networks for small images, of depth 6n + 2.

Source: He et al. 2016, arXiv:1512.03385, section 4.2, with the projection shortcuts of its
section 3.3 (option B): 272,474 trainable parameters for depth 20 on 32 × 32 × 3 and 10 classes,
where the paper, with shortcuts free of parameters, counts 0.27 million as well.
"""

from typing import Any

from ampcore.data.dataset import Signature
from ampcore.models.classification import Classification
from ampcore.models.networks.building_blocks import build_networks, check_images
from ampcore.models.registry import register
from ampspec.models.model import ResNet


@register("resnet", Classification)
def resnet(spec: ResNet, signature: Signature) -> Any:
    """Conv → three stages of n blocks with `width`, 2 and 4 times `width` filters → mean → logits.

    Every stage but the first halves the image.
    """
    check_images(signature)
    return build_networks(spec, signature)

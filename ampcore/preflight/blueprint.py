"""Blueprint: the layers of a job's networks from its spec alone, before there is any data."""

from collections.abc import Callable
from typing import Any, Final

from ampcore.preflight.blueprints import gan, images, keys
from ampcore.preflight.data import Shapes, Unknown, shapes
from ampcore.preflight.layer import Table
from ampcore.spec import JobSpec

Drawer = Callable[[Any, Shapes], tuple[Table, ...]]

DRAWERS: Final[dict[str, Drawer]] = {
    "mlp": images.mlp,
    "cnn": images.cnn,
    "lenet5": images.lenet5,
    "resnet": images.resnet,
    "gan": gan.gan,
    "embedding": keys.embedding,
    "lstm_lm": keys.lstm_lm,
    "transformer_lm": keys.transformer_lm,
}
"""By kind of model; each draws what the builder of `ampcore.models` makes."""


def blueprint(spec: JobSpec, data: Shapes | None = None) -> tuple[Table, ...] | Unknown:
    """The networks of a job in float32, or why they cannot be known yet.

    `data`: what is known of the data, where the spec alone does not tell.
    """
    drawer = DRAWERS.get(spec.model.kind)
    if drawer is None:
        return Unknown(f"The layers of a {spec.model.kind} are known when the job starts.")
    found = shapes(spec.data) if data is None else data
    return found if isinstance(found, Unknown) else drawer(spec.model, found)

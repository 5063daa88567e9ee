"""The error of a Keras model that the grammar of layers cannot describe."""

from typing import Final

OTHER_WAYS: Final = (
    "code of yours that builds it (`model: {kind: bundle}` with `code=FOLDER`), or "
    "`ampcore.Trainer.from_keras` in your program"
)
"""How to train a model that is no list of layers, as one of a subclass of keras.Model."""


class NotConvertible(ValueError):
    """A part of a Keras model has no place in a spec; `layer` names it, if it is one layer."""

    def __init__(self, layer: str | None, reason: str) -> None:
        self.layer, self.reason = layer, reason
        subject = f"The layer {layer!r}" if layer is not None else "The model"
        super().__init__(
            f"{subject} cannot be written as a spec: {reason}. The model can be trained by "
            f"{OTHER_WAYS}."
        )

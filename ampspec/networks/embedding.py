"""The sparse embedding model of NVIDIA's SparseOperationKit.

Source: https://github.com/NVIDIA-Merlin/HugeCTR/tree/main/sparse_operation_kit
"""

from typing import Final

from ampspec.models.model import EmbeddingModel
from ampspec.networks.description import DataShape, NetworkBuilder, NetworkDescription

TABLE_LAYER: Final = "embedding"


def embedding(spec: EmbeddingModel, data: DataShape) -> dict[str, NetworkDescription]:
    """One table for all slots → flatten → Dense for each of `hidden` → one logit."""
    builder = NetworkBuilder("embedding", "keys", data.example, "int32")
    builder.add("Embedding", TABLE_LAYER, input_dim=spec.vocabulary, output_dim=spec.dim)
    builder.add("Flatten", "flatten")
    for index, units in enumerate(spec.hidden):
        builder.add(
            "Dense",
            f"dense_{index + 1}",
            units=units,
            activation="relu",
            spec_fields={
                "inputs": "/model/dim" if index == 0 else None,
                "units": f"/model/hidden/{index}",
            },
        )
    builder.add("Dense", "predictions", units=1)
    return {"model": builder.network()}

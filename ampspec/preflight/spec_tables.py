"""The layer tables of a job's networks from its spec alone, before there is any data."""

import re
from collections.abc import Sequence
from dataclasses import replace

from ampspec.jobs import JobSpec
from ampspec.models.model import EmbeddingModel, ModelSpec
from ampspec.networks import NETWORKS, DataShape, describe_networks
from ampspec.preflight.data import NotYetKnown, data_shape
from ampspec.preflight.layer_rows import table_from_description
from ampspec.preflight.layer_table import LayerTable


def tables_from_spec(
    spec: JobSpec, data: DataShape | None = None
) -> tuple[LayerTable, ...] | NotYetKnown:
    """The networks of a job in float32, or why they are not known yet.

    `data`: the shape of the data, if the spec does not decide it.
    """
    if spec.model.kind not in NETWORKS:
        return NotYetKnown(
            f"The layers of {spec.model.kind} models are known only once the job starts."
        )
    shape = data_shape(spec.data) if data is None else data
    if isinstance(shape, NotYetKnown):
        return shape
    freeze = spec.init.freeze if spec.init is not None else ()
    model = _model_of_rank(spec.model, spec.runtime.ranks)
    return tuple(_frozen(table, freeze) for table in tables_from_model_spec(model, shape))


def _model_of_rank(model: ModelSpec, ranks: int) -> ModelSpec:
    """The model of one rank: a sharded table has only the rank's share of the rows."""
    if isinstance(model, EmbeddingModel) and model.placement == "sharded" and ranks > 1:
        return model.model_copy(update={"vocabulary": -(-model.vocabulary // ranks)})
    return model


def _frozen(table: LayerTable, patterns: Sequence[str]) -> LayerTable:
    """The table, where the layers that one of the regular expressions matches are not trained."""
    rows = (
        replace(row, trainable=0, frozen=row.parameters)
        if any(re.search(pattern, row.path) for pattern in patterns)
        else row
        for row in table.layers
    )
    return replace(table, layers=tuple(rows))


def tables_from_model_spec(model: ModelSpec, data: DataShape) -> tuple[LayerTable, ...]:
    """The networks of a model in float32, for data that it can take."""
    networks = describe_networks(model, data)
    return tuple(table_from_description(name, network) for name, network in networks.items())

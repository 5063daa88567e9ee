"""The layer tables of a job's networks from its spec alone, before there is any data."""

from ampcore.architectures import ARCHITECTURES, DataShape, describe_networks
from ampcore.preflight.data import NotYetKnown, data_shape
from ampcore.preflight.layer_rows import table_from_network
from ampcore.preflight.layer_table import LayerTable
from ampcore.spec import JobSpec
from ampcore.spec.model import ModelSpec


def tables_from_spec(
    spec: JobSpec, data: DataShape | None = None
) -> tuple[LayerTable, ...] | NotYetKnown:
    """The networks of a job in float32, or why they cannot be known yet.

    `data`: the shape of the data, where the spec alone does not say it.
    """
    if spec.model.kind not in ARCHITECTURES:
        return NotYetKnown(
            f"The layers of {spec.model.kind} models are known only once the job starts."
        )
    shape = data_shape(spec.data) if data is None else data
    return shape if isinstance(shape, NotYetKnown) else tables_from_model_spec(spec.model, shape)


def tables_from_model_spec(model: ModelSpec, data: DataShape) -> tuple[LayerTable, ...]:
    """The networks of a model in float32, for data that it can take."""
    networks = describe_networks(model, data)
    return tuple(table_from_network(name, network) for name, network in networks.items())

"""How long the overrides of a spec may search the paths of its layers, before that is tried."""

from collections.abc import Sequence

from ampcore.preflight.layer import Table, all_layers
from ampcore.spec.pattern_cost import MAX_STEPS, ways_to_match
from ampcore.spec.precision import Precision


def takes_long(precision: Precision, tables: Sequence[Table]) -> bool:
    """Whether matching the overrides against the paths of all layers could take seconds."""
    layers = all_layers(tables)
    longest = max((len(path) for layer in layers for path in (layer.path, *layer.parts)), default=0)
    patterns = {override.layers for override in precision.overrides}
    return sum(ways_to_match(one, longest) for one in patterns) * len(layers) > MAX_STEPS

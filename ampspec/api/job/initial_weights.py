"""The data of the event `weights_loaded`: which weights a job has taken from its source."""

from ampspec.api.base import ApiModel


class DifferingShape(ApiModel):
    """A weight whose array in the source has another shape."""

    name: str
    model: list[int]
    source: list[int]


class LoadedWeights(ApiModel):
    """Which weights of a job's model were taken from the source that its `init` names.

    Lists have at most 50 entries; `counts` has their full lengths.
    """

    source: str
    matched: int
    of: int
    unmatched_in_model: list[str]
    shape_differs: list[DifferingShape]
    unused_in_source: list[str]
    counts: dict[str, int]
    sentence: str

"""The keyword arguments of studies, for type checkers and help().

The options of a kind are those of its model in `ampspec.api.study_requests`, which describes them
and has their defaults; a test compares the names.
"""

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from types import NoneType
from typing import Any, Final, Literal, TypedDict, get_args, get_type_hints

from ampclient._spec.spec_input import SpecSections
from ampclient._transfer.weights import Weights

StudyKind = Literal["precision", "capacity", "bisect", "search"]
Space = Mapping[str, Mapping[str, object] | Sequence[object]]
"""By dotted path into the spec: a list of values, or a range: `{"log_uniform": [1e-4, 0.1]}`."""


class StudyArguments(SpecSections, total=False):
    """What studies of every kind take: sections of the spec, request options, and these."""

    name: str | None
    """The name of the study; by default that of the spec."""
    priority: int | None
    """Of the jobs, from 0 to 9; by default 3, below that of submitted jobs."""
    code: str | PathLike[str] | None
    """The folder with the code of a `model: {kind: bundle}`."""
    weights: Weights | bool | None
    """Those that all jobs start from, by default those of a Keras model; False: random weights,
    different for each seed."""
    idempotency_key: str | None
    """The same key and arguments return the same study."""


class PrecisionOptions(TypedDict, total=False):
    """How a study of precision compares policies with float32."""

    seeds: int
    policies: Iterable[str] | None
    steps: int | None
    metric: str | None
    margin: float | None


class CapacityOptions(TypedDict, total=False):
    """How a study of capacity searches the largest batch."""

    policies: Iterable[str] | None
    steps: int
    max_batch: int
    resolution: float


class BisectOptions(TypedDict, total=False):
    """How a study finds the layers that need float32 under a policy."""

    policy: str
    seeds: int
    steps: int | None
    metric: str | None
    margin: float | None
    skipped_share: float


class SearchOptions(TypedDict, total=False):
    """How a search looks for the best values of hyper-parameters, besides its space."""

    method: Literal["grid", "random", "tpe"]
    runs: int | None
    asha: Mapping[str, int] | None
    parallel: int
    seed: int
    steps: int | None
    metric: str | None
    direction: Literal["min", "max"] | None


class PrecisionArguments(PrecisionOptions, StudyArguments, total=False):
    """The keyword arguments of `client.studies.precision`."""


class CapacityArguments(CapacityOptions, StudyArguments, total=False):
    """The keyword arguments of `client.studies.capacity`."""


class BisectArguments(BisectOptions, StudyArguments, total=False):
    """The keyword arguments of `client.studies.bisect`."""


class SearchArguments(SearchOptions, StudyArguments, total=False):
    """The keyword arguments of `client.studies.search`."""


KINDS: Final[Mapping[str, Any]] = {
    "precision": PrecisionOptions,
    "capacity": CapacityOptions,
    "bisect": BisectOptions,
    "search": SearchOptions,
}


def sent_options(kind: StudyKind, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a kind as JSON: iterables as lists, and None only where it is a value."""
    types = get_type_hints(KINDS[kind]) if kind in KINDS else {}
    return {
        name: [*value]
        if isinstance(value, Iterable) and not isinstance(value, str | Mapping)
        else value
        for name, value in options.items()
        if value is not None or name not in types or NoneType in get_args(types[name])
    }
